import assert from "node:assert/strict";
import { DeviceWeights } from "../../../src/backend/device_weights.ts";
import type { GpuContext } from "../../../src/gpu/device.ts";
import { Readback } from "../../../src/gpu/readback.ts";
import { FolderFiles, type ModelFiles } from "../../../src/onnx/external_data.ts";
import type { StoredTensor } from "../../../src/onnx/stored_tensor.ts";
import { gpuTest } from "../../fixtures/gpu.ts";

const MIB = 2 ** 20;

/** Files of bytes that tell where they are: each 4 bytes hold their own place, little-endian. */
class CountingFiles implements ModelFiles {
  readonly reads: number[] = [];
  readonly buffers = new Set<ArrayBufferLike>();

  size(): Promise<number> {
    return Promise.resolve(2 ** 30);
  }

  read(_file: string, offset: number, into: Uint8Array): Promise<void> {
    this.reads.push(into.length);
    this.buffers.add(into.buffer);
    for (let i = 0; i < into.length; i++) into[i] = byteAt(offset + i);
    return Promise.resolve();
  }
}

function byteAt(place: number): number {
  return ((place >> 2) >> (8 * (place & 3))) & 255;
}

function stored(name: string, offset: number, length: number): StoredTensor {
  const data = { kind: "file", file: "weights", offset, length } as const;
  return { name, dtype: "uint8", shape: [length], data };
}

async function readBuffer(
  gpu: GpuContext,
  buffer: GPUBuffer,
  range: { offset: number; size: number },
) {
  const readback = await Readback.create(gpu, { maxBytes: range.size });
  const bytes = await readback.read(gpu.device.createCommandEncoder(), [{ buffer, ...range }]);
  readback.dispose();
  return bytes;
}

gpuTest(
  "DeviceWeights.upload() copies a tensor in pieces, through memory of one piece",
  async (gpu) => {
    const files = new CountingFiles();
    const told: number[] = [];
    const weights = new DeviceWeights(gpu, files, { onProgress: (bytes) => told.push(bytes) });
    const [large, odd] = [stored("large", 100, 90 * MIB + 7), stored("odd", 1, 13)];
    await weights.upload([large, odd]);

    assert.ok(Math.max(...files.reads) <= 16 * MIB, `${files.reads}`);
    assert.ok([...files.buffers].reduce((sum, { byteLength }) => sum + byteLength, 0) <= 64 * MIB);
    assert.equal(weights.numBytes, 90 * MIB + 20);
    assert.equal(told.at(-1), weights.numBytes);
    assert.deepEqual(told, told.toSorted((a, b) => a - b));

    const { buffer, ...rest } = weights.get("large")!;
    assert.deepEqual(rest, { offset: 0, size: 90 * MIB + 7, dtype: "uint8", dims: [90 * MIB + 7] });
    // Across the border between two pieces, and over the end, after which there are zeros.
    for (const offset of [16 * MIB - 8, 90 * MIB - 8]) {
      const bytes = await readBuffer(gpu, buffer, { offset, size: 16 });
      const expected = Array.from(
        bytes,
        (_, i) => offset + i < 90 * MIB + 7 ? byteAt(100 + offset + i) : 0,
      );
      assert.deepEqual([...bytes], expected);
    }
    const small = await readBuffer(gpu, weights.get("odd")!.buffer, { offset: 0, size: 16 });
    assert.deepEqual(
      [...small],
      Array.from({ length: 16 }, (_, i) => i < 13 ? byteAt(1 + i) : 0),
    );
    weights.dispose();
  },
);

gpuTest("DeviceWeights.upload() keeps bytes that lie at one place of a file once", async (gpu) => {
  const files = new CountingFiles();
  const weights = new DeviceWeights(gpu, files);
  const table = stored("table", 0, 4096);
  const bytes = Uint8Array.from([1, 2, 3, 4]);
  const inMemory: StoredTensor = { ...table, name: "own", data: { kind: "memory", bytes } };
  await weights.upload([table, { ...table, name: "tied", shape: [64, 64] }, inMemory]);
  await weights.upload([table, stored("next", 4096, 4096)]);
  assert.equal(weights.get("tied")!.buffer, weights.get("table")!.buffer);
  assert.deepEqual(weights.get("tied")!.dims, [64, 64]);
  assert.notEqual(weights.get("next")!.buffer, weights.get("table")!.buffer);
  assert.deepEqual(files.reads, [4096, 4096]);
  assert.equal(weights.numBytes, 8192 + 4);
  const own = await readBuffer(gpu, weights.get("own")!.buffer, { offset: 0, size: 16 });
  assert.deepEqual([...own], [1, 2, 3, 4, ...Array(12).fill(0)]);
  assert.equal(weights.get("nothing"), undefined);

  weights.dispose();
  assert.equal(weights.numBytes, 0);
  assert.equal(weights.get("table"), undefined);
});

gpuTest("DeviceWeights.upload() of a file that ends early says where", async (gpu) => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeFile(`${folder}/weights`, new Uint8Array(100));
    await using files = new FolderFiles(folder);
    const weights = new DeviceWeights(gpu, files);
    await assert.rejects(weights.upload([stored("short", 50, 64)]), {
      name: "StartupError",
      message: /ends at byte 100, but the graph wants 64 bytes from 50 on/,
    });
    weights.dispose();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
