/**
 * Products of few rows with matrices of f32, in WebAssembly SIMD: one of the kernels of `row_simd.ts`.
 *
 * @module
 */
import { ACTIVATIONS } from "../common/activation.ts";
import type { AttentionExports } from "../cpu/attention_module.ts";
import { type Addresses, divideGroups, type ReadBytes, type RowKernel } from "../cpu/row_kernel.ts";
import type { KernelThreads } from "../cpu/kernel_threads.ts";
import type { MatvecParams } from "./matvec_params.ts";

/** Number of outputs that lie side by side, as in `wasm/product_layout.ts`. */
const GROUP = 8;
const PARTS = { usual: 8, least: 2, maxParts: 128 };
/**
 * Reading a weight takes as long as this many operations with it, which decides whether waking a helper is worth it.
 */
const FLOPS_PER_WEIGHT = 8;

/** A matrix of `outputs` by `k` as stored in the file. */
export interface FloatMatrix {
  readonly kind: "rows" | "columns";
  readonly k: number;
  readonly outputs: number;
}

/** @throws {RangeError} when the kernel cannot run it. */
export function checkFloatProduct({ k, n, gate, out }: MatvecParams): void {
  if (out !== undefined) throw new RangeError("Products on the CPU have rows of their own.");
  const starts = [gate?.gateRow ?? 0, gate?.upRow ?? 0, gate ? n : 0];
  if (k % 4 !== 0 || starts.some((start) => start % GROUP)) {
    throw new RangeError(`A product of ${n} by ${k}: the CPU takes multiples of ${GROUP} by 4.`);
  }
}

/** Number of f32 elements that a packed matrix takes. */
export function floatMatrixLength({ k, outputs }: Pick<FloatMatrix, "k" | "outputs">): number {
  return Math.ceil(outputs / GROUP) * GROUP * k;
}

/** Bytes of a thread's scratch memory: the up-projections of a part, and an incomplete last group. */
export function floatScratchBytes(outputs: number, maxRows: number): number {
  const most = divideGroups(Math.ceil(outputs / GROUP), 1, PARTS);
  return (1 + most) * GROUP * 4 * maxRows;
}

/**
 * Packs a matrix, with {@linkcode GROUP} outputs side by side, and writes it to address `at`.
 *
 * @param staged address and size of the memory for the part that is being packed.
 * @param read reads f32: `[k, outputs]` for columns, `[outputs, k]` for rows.
 * @throws {RangeError} when {@linkcode GROUP} rows, or one row of a matrix in columns, exceed that memory.
 */
export async function packFloats(
  { memory, exports, staged, at }: {
    readonly memory: WebAssembly.Memory;
    readonly exports: Pick<AttentionExports, "packColumns" | "packRows">;
    readonly staged: { readonly at: number; readonly length: number };
    readonly at: number;
  },
  { kind, k, outputs }: FloatMatrix,
  read: ReadBytes,
): Promise<void> {
  const [numRows, rowBytes, step] = kind === "columns"
    ? [k, outputs * 4, 1] as const
    : [outputs, k * 4, GROUP] as const;
  const most = Math.floor(staged.length / (rowBytes * step)) * step;
  if (most === 0) throw new RangeError(`Rows of ${rowBytes} bytes do not fit the kernel's memory.`);
  const bytes = new Uint8Array(memory.buffer);
  // A buffer is needed, since files cannot be read into shared memory.
  const chunk = new Uint8Array(Math.min(most, numRows) * rowBytes);
  for (let first = 0; first < numRows; first += most) {
    const count = Math.min(most, numRows - first);
    const rows = chunk.subarray(0, count * rowBytes);
    await read(first * rowBytes, rows);
    bytes.set(rows, staged.at);
    if (kind === "columns") exports.packColumns(staged.at, outputs, k, first, count, at);
    else exports.packRows(staged.at, k, count, at + first * k * 4);
  }
}

/** Addresses and threads of {@linkcode floatProduct}. */
interface FloatProductMemory {
  readonly threads: KernelThreads;
  readonly memory: WebAssembly.Memory;
  readonly exports: AttentionExports;
  /** Address of the 13 words that describe the product; those of the step's rows, 3 words, are at `rows`. */
  readonly node: number;
  readonly rows: number;
  /** f32 `[rows, k]`. */
  readonly normed: number;
  readonly scratch: number;
  readonly scratchBytes: number;
  /** How often helpers poll for the next job before they sleep. */
  readonly polls: number;
}

/**
 * The kernel of a product.
 *
 * @param normRows writes the normalised rows to `normed`, if the product takes those.
 * @throws {RangeError} when the kernel cannot run it.
 */
export function floatProduct(
  { node, rows, normed, polls, ...own }: FloatProductMemory,
  params: MatvecParams,
  { tensors, normRows }: {
    readonly tensors: Addresses<"x" | "weights" | "out" | "bias" | "residual">;
    readonly normRows: RowKernel | undefined;
  },
): RowKernel {
  checkFloatProduct(params);
  const { k, n, x, norm, gate } = params;
  const partGroups = divideGroups(Math.ceil(n / GROUP), own.threads.numThreads, PARTS);
  // In the order of `FloatProduct`'s fields.
  const words = Uint32Array.of(
    ...[k, n, partGroups, tensors.weights!],
    ...[(gate?.gateRow ?? 0) / GROUP, gate ? 1 : 0, (gate?.upRow ?? 0) / GROUP],
    ACTIVATIONS.indexOf(params.activation),
    ...[tensors.bias ?? 0, tensors.residual ?? 0, tensors.out!],
    ...new Uint32Array(Float32Array.of(params.scale, params.softcap).buffer),
  );
  const [from, stride] = norm ? [normed, k * 4] : [tensors.x! + x.offset * 4, x.stride * 4];
  const nodeWords = new Uint32Array(own.memory.buffer, node, words.length);
  const rowWords = new Uint32Array(own.memory.buffer, rows, 3);
  const { threads, ...memory } = own;
  const job = {
    kernel: "floatProduct",
    ...memory,
    ...{ node, step: rows, items: 0, polls },
    numWorks: Math.ceil(n / GROUP / partGroups),
  } as const;
  const numWeights = k * n * (gate ? 2 : 1);
  return (numRows) => {
    normRows?.(numRows);
    // In the order of `FloatRows`' fields.
    rowWords[0] = numRows;
    rowWords[1] = from;
    rowWords[2] = stride;
    nodeWords.set(words);
    threads.run({ ...job, flops: Math.max(FLOPS_PER_WEIGHT, 2 * numRows) * numWeights });
  };
}
