import assert from "node:assert/strict";
import { DeviceWeights } from "../../../src/device/device_weights.ts";
import type { GpuContext } from "../../../src/gpu/device.ts";
import { Readback } from "../../../src/gpu/readback.ts";
import { FolderFiles, type ModelFiles } from "../../../src/graph/file/external_data.ts";
import type { StoredTensor } from "../../../src/graph/file/tensor.ts";
import { countCalls } from "../../fixtures/engine/count_calls.ts";
import { gpuTest, openTestDevice } from "../../fixtures/engine/gpu.ts";

const MIB = 2 ** 20;

/** Files in which each word of 4 bytes contains its own index, little-endian. */
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

function byteAt(position: number): number {
  return ((position >> 2) >> (8 * (position & 3))) & 255;
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
  "DeviceWeights.upload() copies a tensor in chunks of at most 16 MiB, through at most 64 MiB of memory",
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
    // Across the boundary between two chunks, and beyond the end, where there are zeros.
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

gpuTest("DeviceWeights.upload() stores the bytes of a file range once", async (gpu) => {
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

gpuTest("DeviceWeights.upload() reports the position if a file ends early", async (gpu) => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeFile(`${folder}/weights`, new Uint8Array(100));
    await using files = new FolderFiles(folder);
    const weights = new DeviceWeights(gpu, files);
    await assert.rejects(weights.upload([stored("short", 50, 64)]), {
      name: "StartupError",
      message: /ends at byte 100, but the graph needs 64 bytes from 50 on/,
    });
    weights.dispose();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** Makes a constant whose rows consist of parts of other constants. */
function makeRows(
  name: string,
  numRows: number,
  parts: readonly { source: StoredTensor; from: number; length: number }[],
): StoredTensor {
  const length = numRows * parts.reduce((sum, part) => sum + part.length, 0);
  const data = { kind: "rows", numRows, parts, length } as const;
  return { name, dtype: "uint8", shape: [numRows, length / numRows], data };
}

gpuTest(
  "DeviceWeights.upload() joins rows and columns of constants in chunks",
  async (gpu) => {
    const files = new CountingFiles();
    const weights = new DeviceWeights(gpu, files);
    // `tall` joins two parts of odd lengths; `wide` joins columns of two matrices.
    const [first, second] = [stored("a", 3, 40 * MIB + 1), stored("b", 64 * MIB, 30 * MIB + 5)];
    const bytes = Uint8Array.from({ length: 500 }, (_, i) => i);
    const own: StoredTensor = { ...stored("own", 0, 500), data: { kind: "memory", bytes } };
    const matrix = stored("m", 1000, 100 * 200_000);
    const tall = makeRows("tall", 1, [
      { source: first, from: 0, length: 40 * MIB + 1 },
      { source: second, from: 0, length: 30 * MIB + 5 },
    ]);
    const wide = makeRows("wide", 100, [
      { source: matrix, from: 7, length: 190_001 },
      { source: own, from: 2, length: 3 },
    ]);
    const empty: StoredTensor = { ...stored("empty", 5, 0), shape: [0, 4] };
    await weights.upload([tall, wide, empty]);
    assert.equal(weights.numBytes, 70 * MIB + 6 + 100 * 190_004);
    assert.ok(Math.max(...files.reads) <= 16 * MIB, `${Math.max(...files.reads)}`);
    assert.ok([...files.buffers].every(({ byteLength }) => byteLength <= 16 * MIB));

    const expected = {
      tall: (i: number) => i < 40 * MIB + 1 ? byteAt(3 + i) : byteAt(64 * MIB + i - 40 * MIB - 1),
      wide: (i: number) => {
        const [row, column] = [Math.floor(i / 190_004), i % 190_004];
        return column < 190_001
          ? byteAt(1000 + row * 200_000 + 7 + column)
          : (row * 5 + 2 + column - 190_001) & 255;
      },
    };
    for (const [name, computeByte] of Object.entries(expected)) {
      const { buffer, size } = weights.get(name)!;
      const borders = [0, 16 * MIB - 8, 40 * MIB - 4, 190_000, 99 * 190_004, size - 16];
      for (const border of borders.filter((border) => border < size - 15)) {
        const offset = Math.floor(border / 4) * 4;
        const found = await readBuffer(gpu, buffer, { offset, size: 16 });
        assert.deepEqual(
          [...found],
          Array.from(found, (_, i) => computeByte(offset + i)),
          `${name}`,
        );
      }
    }
    assert.deepEqual([weights.get("empty")!.size, weights.get("empty")!.dims], [0, [0, 4]]);
    weights.dispose();
  },
);

gpuTest(
  "DeviceWeights.upload() names a tensor that exceeds the device's memory, and keeps nothing of it",
  async (gpu) => {
    const files = new CountingFiles();
    const weights = new DeviceWeights(gpu, files);
    await weights.upload([stored("small", 0, 4 * MIB)]);
    const tooLarge = stored("embed.weight", 0, gpu.limits.maxBufferSize + 16);
    const numReads = files.reads.length;
    await assert.rejects(weights.upload([tooLarge]), {
      name: "StartupError",
      message: /no room for "embed.weight" of .+B, besides 4.19 MB of weights that it has: /,
    });
    assert.equal(files.reads.length, numReads, "nothing of the tensor is read");
    assert.equal(weights.numBytes, 4 * MIB);
    assert.equal(weights.get("embed.weight"), undefined);
    using destroyed = countCalls(GPUBuffer.prototype, "destroy");
    weights.dispose();
    assert.equal(destroyed.count, 1);
  },
);

gpuTest(
  "DeviceWeights.upload() frees the buffer of a tensor whose file cannot be read",
  async (gpu) => {
    class Cut extends CountingFiles {
      override read(file: string, offset: number, into: Uint8Array): Promise<void> {
        // The second chunk is missing.
        if (offset >= 16 * MIB) return Promise.reject(new Error("cut"));
        return super.read(file, offset, into);
      }
    }
    const weights = new DeviceWeights(gpu, new Cut());
    using destroyed = countCalls(GPUBuffer.prototype, "destroy");
    await assert.rejects(weights.upload([stored("x", 0, 20 * MIB)]), /cut/);
    assert.equal(destroyed.count, 1);
    assert.equal(weights.numBytes, 0);
  },
);

gpuTest(
  "DeviceWeights.upload() ends if the device is lost, and uploads everything to the next device",
  async (gpu) => {
    const own = await openTestDevice();
    const files = new CountingFiles();
    let numTold = 0;
    const weights = new DeviceWeights(own, files, {
      onProgress: () => {
        if (++numTold === 2) own.device.destroy();
      },
    });
    const tensor = stored("large", 0, 90 * MIB);
    await weights.upload([tensor]).catch(() => {});
    await own.lost;
    weights.dispose();

    const again = new DeviceWeights(gpu, files);
    await again.upload([tensor]);
    const { buffer } = again.get("large")!;
    const offset = 89 * MIB;
    const bytes = await readBuffer(gpu, buffer, { offset, size: 16 });
    assert.deepEqual([...bytes], Array.from(bytes, (_, i) => byteAt(offset + i)));
    again.dispose();
  },
);
