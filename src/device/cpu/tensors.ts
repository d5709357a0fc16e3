/**
 * Tensors of f32 and f16, as the CPU's kernels read and write them, and the memory of sessions' outputs.
 *
 * @module
 */
import { widen } from "../../../kernels/common/floats.ts";
import type { HeadRows } from "../../graph/graph_cut.ts";
import { Tensor } from "../ort/ort.ts";
import type { Storage } from "../backend.ts";

type Floats = Float32Array | Float16Array;

/** Makes a tensor of zeros, or of the given elements. */
export function makeTensor(
  dtype: "float32" | "float16",
  dims: readonly number[],
  elements?: Float32Array,
): Tensor {
  const source = elements ?? dims.reduce((product, size) => product * size, 1);
  if (dtype === "float32") return new Tensor(dtype, new Float32Array(source as number), dims);
  return new Tensor(dtype, new Float16Array(source as number) as unknown as Uint16Array, dims);
}

/** Returns a tensor's elements. Those of f16 may be stored as their bits. */
export function viewElements({ data }: Tensor): Floats {
  if (data instanceof Uint16Array) {
    return new Float16Array(data.buffer, data.byteOffset, data.length);
  }
  return data as Float32Array;
}

/** Copies elements `from` to `end` as f32. */
export function copyElements(
  tensor: Tensor,
  into: Float32Array,
  from = 0,
  end = tensor.size,
): void {
  const elements = viewElements(tensor).subarray(from, end);
  if (elements instanceof Float32Array) into.set(elements);
  else widen(elements, into);
}

/** The operands of an attention node, by kind. */
type Operands<Rows = HeadRows> = Readonly<Record<"q" | "k" | "v", Rows>>;

/** Whether queries, keys and values are in one tensor. */
export function isPacked({ q, k, v }: Operands): boolean {
  return q.tensor === k.tensor && q.tensor === v.tensor;
}

/**
 * Copies the operands of an attention node, for the tokens `first` to `end` or for all. Packed operands are copied
 * once.
 */
export function copyOperands(
  node: Operands,
  tensors: ReadonlyMap<string, Tensor>,
  into: Operands<Float32Array>,
  [first, end]: readonly [number, number?] = [0],
): void {
  for (const role of isPacked(node) ? ["q"] as const : ["q", "k", "v"] as const) {
    const { tensor, tokenStride } = node[role];
    const last = end === undefined ? undefined : end * tokenStride;
    copyElements(tensors.get(tensor)!, into[role], first * tokenStride, last);
  }
}

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
