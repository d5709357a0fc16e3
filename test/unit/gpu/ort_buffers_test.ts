import assert from "node:assert/strict";
import { canTakeRangeEarly, keepDownloadBuffers } from "../../../src/gpu/ort_buffers.ts";
import type { GpuContext } from "../../../src/gpu/device.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";
import { openSession, Tensor } from "../../../src/device/ort/ort.ts";
import { gpuTest, openTestDevice } from "../../fixtures/engine/gpu.ts";
import { buildModel } from "../../fixtures/graphs/onnx_builder.ts";
import { Readback } from "../../../src/gpu/readback.ts";

const USAGE = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;

/** Records readable buffers that are created on any device, until this object is disposed. */
class Created implements Disposable {
  readonly downloads: GPUBuffer[] = [];
  readonly #createBuffer = GPUDevice.prototype.createBuffer;

  constructor() {
    const { downloads } = this;
    const createBuffer = this.#createBuffer;
    GPUDevice.prototype.createBuffer = function (descriptor) {
      const buffer = createBuffer.call(this, descriptor);
      if (descriptor.usage === USAGE && !descriptor.label) downloads.push(buffer);
      return buffer;
    };
  }

  [Symbol.dispose](): void {
    GPUDevice.prototype.createBuffer = this.#createBuffer;
  }
}

/** Copies words to a new readable buffer, and maps it. @returns what was read, and whether a timer ran meanwhile. */
async function download({ device }: GpuContext, words: Uint32Array<ArrayBuffer>) {
  const source = device.createBuffer({
    label: "source",
    size: words.byteLength,
    usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
  device.queue.writeBuffer(source, 0, words);
  const buffer = device.createBuffer({ size: words.byteLength, usage: USAGE });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(source, 0, buffer, 0, words.byteLength);
  device.queue.submit([encoder.finish()]);
  let waited = false;
  const timer = setTimeout(() => waited = true, 0);
  await buffer.mapAsync(GPUMapMode.READ, 0, words.byteLength);
  clearTimeout(timer);
  const bytes = buffer.getMappedRange().slice(0);
  const last = [...new Uint32Array(buffer.getMappedRange(words.byteLength - 8, 8))];
  source.destroy();
  buffer.destroy();
  return { read: new Uint32Array(bytes), last, waited };
}

function counting(first: number, length: number): Uint32Array<ArrayBuffer> {
  return Uint32Array.from({ length }, (_, i) => first + i);
}

gpuTest("keepDownloadBuffers() reuses a buffer, which then maps immediately", async () => {
  using created = new Created();
  const gpu = await openTestDevice();
  for (let i = 0; i < 100; i++) {
    const length = 2 + i * 37 % 1000;
    const { read, last, waited } = await download(gpu, counting(i, length));
    assert.deepEqual(read, counting(i, length));
    assert.deepEqual(last, [i + length - 2, i + length - 1]);
    assert.equal(waited, i === 0, `download ${i}`);
  }
  assert.equal(created.downloads.length, 1);
  gpu.device.destroy();
}, { ignore: !canTakeRangeEarly() });

gpuTest(
  "keepDownloadBuffers() keeps two buffers per size, and none above 4 MiB",
  async () => {
    using created = new Created();
    const gpu = await openTestDevice();
    const together = () => Promise.all([1, 2, 3, 4].map((i) => download(gpu, counting(i, 100))));
    for (let round = 0; round < 3; round++) {
      const results = await together();
      results.forEach(({ read }, i) => assert.deepEqual(read, counting(i + 1, 100)));
    }
    // Four are created in the first round. Two are kept, so each later round creates two more.
    assert.equal(created.downloads.length, 8);
    const large = counting(7, 2 ** 20 + 2);
    for (let i = 0; i < 2; i++) assert.deepEqual((await download(gpu, large)).read, large);
    assert.equal(created.downloads.length, 10);
    gpu.device.destroy();
  },
  { ignore: !canTakeRangeEarly() },
);

gpuTest(
  "keepDownloadBuffers() does nothing unless takesRangeEarly is true",
  async () => {
    const gpu = await openTestDevice();
    const device = { createBuffer: () => assert.fail() } as unknown as GPUDevice;
    const { createBuffer } = device;
    keepDownloadBuffers(device, { takesRangeEarly: false });
    assert.equal(device.createBuffer, createBuffer);
    gpu.device.destroy();
  },
);

/** Opens a graph with an operator that ONNX Runtime has only on the CPU: the operator's inputs are downloaded. */
function openSum(gpu: GpuContext) {
  const model = buildModel({
    nodes: [makeNode("Neg", ["x"], ["negative"]), makeNode("Sum", ["negative", "x", "x"], ["y"])],
    inputs: [["x", "float32", ["n"]]],
    outputs: [["y", "float32", ["n"]]],
  });
  return openSession(model, { device: gpu.device });
}

gpuTest("ONNX Runtime's downloads are correct in kept buffers", async (gpu) => {
  const session = await openSum(gpu);
  for (let i = 1; i < 60; i++) {
    const values = Float32Array.from({ length: 1 + i * 401 % 30_000 }, (_, at) => at % 97 - i);
    const { y } = await session.run({ x: new Tensor("float32", values, [values.length]) });
    assert.deepEqual(await y!.getData(), values, `run ${i}`);
    y!.dispose();
  }
  await session.release();
});

gpuTest("a download into a kept buffer fails after the device is lost", async () => {
  const gpu = await openTestDevice();
  for (let i = 0; i < 3; i++) await download(gpu, counting(i, 8));
  gpu.device.destroy();
  await assert.rejects(download(gpu, counting(0, 8)));
}, { ignore: !canTakeRangeEarly() });

const UPLOAD = GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC;

gpuTest(
  "openDevice() returns a device whose upload buffers contain the mapped data",
  async (gpu) => {
    const { device } = gpu;
    const buffer = device.createBuffer({ size: 32, usage: UPLOAD, mappedAtCreation: true });
    const first = buffer.getMappedRange(0, 8);
    new Uint32Array(first).set([1, 2]);
    new Uint32Array(buffer.getMappedRange(16)).set([5, 6, 7, 8]);
    buffer.unmap();
    assert.ok(first.detached);
    const readback = await Readback.create(gpu, { maxBytes: 32 });
    const encoder = device.createCommandEncoder();
    const bytes = await readback.read(encoder, [{ buffer, offset: 0, size: 32 }]);
    assert.deepEqual([...new Uint32Array(bytes.buffer)], [1, 2, 0, 0, 5, 6, 7, 8]);
    buffer.destroy();
    readback.dispose();
  },
);

gpuTest(
  "ONNX Runtime uploads weights and inputs without mapped memory of the device",
  async (gpu) => {
    const { getMappedRange } = GPUBuffer.prototype;
    let numMapped = 0;
    GPUBuffer.prototype.getMappedRange = function (...range) {
      numMapped++;
      return getMappedRange.apply(this, range);
    };
    try {
      const weights = Float32Array.from({ length: 1000 }, (_, i) => i);
      const data = { kind: "memory", bytes: new Uint8Array(weights.buffer) } as const;
      const session = await openSession(
        buildModel({
          nodes: [makeNode("Add", ["x", "w"], ["y"])],
          initializers: [{ name: "w", dtype: "float32", shape: [1000], data, rest: [] }],
          inputs: [["x", "float32", [1000]]],
          outputs: [["y", "float32", [1000]]],
        }),
        { device: gpu.device },
      );
      const results = await Promise.all([1, 2, 3].map(async (factor) => {
        const x = new Tensor("float32", weights.map((value) => factor * value), [1000]);
        return (await session.run({ x }))["y"]!;
      }));
      assert.equal(numMapped, 0);
      for (const [i, y] of results.entries()) {
        assert.deepEqual(await y.getData(), weights.map((value) => (i + 2) * value));
        y.dispose();
      }
      await session.release();
    } finally {
      GPUBuffer.prototype.getMappedRange = getMappedRange;
    }
  },
);
