/**
 * Memory that native sessions write their outputs into, in place of allocating and copying them at each run.
 *
 * @module
 */
import { Tensor } from "../ort/ort.ts";
import type { Storage } from "../backend.ts";

const VIEWS = { float32: Float32Array, float16: Float16Array, int64: BigInt64Array };

/** Makes storages, and knows its own. */
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
      // The engine frees it once nothing else holds it.
      dispose: () => {},
    };
  }

  /** Whether it is the memory of a storage. */
  has(buffer: ArrayBufferLike): boolean {
    return this.#buffers.has(buffer);
  }
}
