/**
 * Memory that native sessions write their outputs to, instead of allocating and copying them at each run.
 *
 * @module
 */
import { Tensor } from "../ort/ort.ts";
import type { Storage } from "../backend.ts";

const VIEWS = { float32: Float32Array, float16: Float16Array, int64: BigInt64Array };

/** Creates storages, and recognizes their memory. */
export class CpuStorages {
  readonly #buffers = new WeakSet<ArrayBufferLike>();

  allocate(numBytes: number): Storage {
    const buffer = new ArrayBuffer(Math.ceil(numBytes / 8) * 8);
    this.#buffers.add(buffer);
    return {
      tensor: (dtype, dims) => {
        const length = dims.reduce((product, dim) => product * dim, 1);
        const data = new VIEWS[dtype](buffer, 0, length);
        return new Tensor(dtype as "float32", data as Float32Array, dims);
      },
      write: (data) => new BigInt64Array(buffer).set(data),
      // The garbage collector frees it once nothing else refers to it.
      dispose: () => {},
    };
  }

  /** Whether the buffer is the memory of a storage. */
  has(buffer: ArrayBufferLike): boolean {
    return this.#buffers.has(buffer);
  }
}
