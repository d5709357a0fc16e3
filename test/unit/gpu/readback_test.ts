import assert from "node:assert/strict";
import { createBuffer, DeviceLostError, type GpuContext } from "../../../src/gpu/device.ts";
import { canTakeRangeEarly } from "../../../src/gpu/ort_buffers.ts";
import { Readback } from "../../../src/gpu/readback.ts";
import { gpuTest, openTestDevice } from "../../fixtures/engine/gpu.ts";

/** Makes a buffer with the 32-bit words `first`, `first + 1`, … */
function createCounting(gpu: GpuContext, first: number, length: number): GPUBuffer {
  const buffer = createBuffer(gpu, {
    size: length * 4,
    usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
  gpu.device.queue.writeBuffer(buffer, 0, Uint32Array.from({ length }, (_, i) => first + i));
  return buffer;
}

for (const takesRangeEarly of [true, false]) {
  const mode = takesRangeEarly ? "early" : "awaited";

  gpuTest(`Readback.read() joins ranges of several buffers (${mode})`, async (gpu) => {
    const readback = await Readback.create(gpu, { maxBytes: 64, takesRangeEarly });
    const a = createCounting(gpu, 0, 8);
    const b = createCounting(gpu, 100, 8);
    const bytes = await readback.read(gpu.device.createCommandEncoder(), [
      { buffer: b, offset: 4, size: 8 },
      { buffer: a, offset: 0, size: 4 },
      { buffer: a, offset: 28, size: 4 },
    ]);
    assert.deepEqual([...new Uint32Array(bytes.buffer)], [101, 102, 0, 7]);
    readback.dispose();
  });

  gpuTest(
    `Readback.read() serves more concurrent reads than it has slots (${mode})`,
    async (gpu) => {
      const readback = await Readback.create(gpu, { maxBytes: 16, slots: 2, takesRangeEarly });
      const reads = Array.from({ length: 9 }, (_, i) => {
        const buffer = createCounting(gpu, i * 10, 2);
        return readback.read(gpu.device.createCommandEncoder(), [{ buffer, offset: 0, size: 8 }]);
      });
      const words = (await Promise.all(reads)).map((bytes) => [...new Uint32Array(bytes.buffer)]);
      assert.deepEqual(words, Array.from({ length: 9 }, (_, i) => [i * 10, i * 10 + 1]));
      readback.dispose();
    },
  );

  gpuTest(`Readback.read() throws DeviceLostError after the device is lost (${mode})`, async () => {
    const gpu = await openTestDevice();
    const readback = await Readback.create(gpu, { maxBytes: 16, takesRangeEarly });
    const buffer = createCounting(gpu, 0, 4);
    gpu.device.destroy();
    const encoder = gpu.device.createCommandEncoder();
    await assert.rejects(
      readback.read(encoder, [{ buffer, offset: 0, size: 16 }]),
      DeviceLostError,
    );
  });
}

gpuTest("Readback.read() returns correct bytes over hundreds of reads", async (gpu) => {
  const readback = await Readback.create(gpu, { maxBytes: 16 });
  const buffer = createCounting(gpu, 0, 4);
  for (let i = 0; i < 300; i++) {
    gpu.device.queue.writeBuffer(buffer, 0, Uint32Array.of(i, i * 3));
    const range = { buffer, offset: 0, size: 8 };
    const bytes = await readback.read(gpu.device.createCommandEncoder(), [range]);
    assert.deepEqual([...new Uint32Array(bytes.buffer)], [i, i * 3]);
  }
  readback.dispose();
});

gpuTest("Readback.read() refuses more bytes than its staging buffers hold", async (gpu) => {
  const readback = await Readback.create(gpu, { maxBytes: 16 });
  const buffer = createCounting(gpu, 0, 8);
  await assert.rejects(
    readback.read(gpu.device.createCommandEncoder(), [{ buffer, offset: 0, size: 20 }]),
    /20 bytes exceeds the 16 bytes/,
  );
  readback.dispose();
});

Deno.test("canTakeRangeEarly() trusts only the versions it was verified on", () => {
  assert.equal(canTakeRangeEarly("2.9.6"), true);
  assert.equal(canTakeRangeEarly("2.9.7"), false);
  assert.equal(canTakeRangeEarly("3.0.0"), false);
});
