/**
 * Products of few rows with quantised matrices and with matrices of f32, in WebAssembly SIMD: kernels of `row_simd.ts`.
 *
 * @module
 */
import { ACTIVATIONS } from "../common/activation.ts";
import type { KernelExports } from "../cpu/kernel_module.ts";
import type { ReadBytes } from "../cpu/arena.ts";
import type { KernelThreads } from "../cpu/kernel_threads.ts";
import type { MatrixFormat, MatvecParams } from "./matvec_params.ts";
import { BLOCK, GROUP, hasZeros, numPlanes } from "./nbits_matrix.ts";

/** Runs a kernel on the first rows of its tensors. */
export type RowKernel = (numRows: number) => void;

/** Addresses of a kernel's tensors; unused tensors are absent. */
export type Addresses<Name extends string> = Readonly<Partial<Record<Name, number>>>;

/** Sizes of parts, in groups of outputs that lie side by side. */
interface PartSizes {
  /**
   * The usual size: large enough to stream several pages of weights, small enough that no thread waits long for
   * another.
   */
  readonly usual: number;
  /** Smaller parts are not worth the overhead. */
  readonly least: number;
  /** Maximum number of parts of a large matrix, before their number is rounded to a multiple of the threads. */
  readonly maxParts: number;
}

/** The number of groups per part. If there are enough groups, each thread gets the same number of parts. */
export function divideGroups(
  numGroups: number,
  numThreads: number,
  { usual, least, maxParts }: PartSizes,
): number {
  const parts = Math.min(maxParts, Math.ceil(numGroups / usual));
  const even = numThreads * Math.ceil(parts / numThreads);
  const most = Math.max(parts, Math.ceil(numGroups / least));
  return Math.ceil(numGroups / Math.min(even, most));
}

/** Maximum number of quantised rows that share each load of weights. */
const TILE_ROWS = 4;
const ROW_BLOCK_BYTES = 40;
/** Sizes of the parts of a product with a quantised matrix, whose groups are read in six streams. */
const NBITS_PARTS = { usual: 64, least: 6, maxParts: 32 };

/** The quantisation of rows for a matrix. */
export interface RowLevels {
  /** Number of copies of each block. */
  readonly copies: number;
  /** Whether a row is the sum of two rows of 8 bits, which gives it 16 bits. */
  readonly isPaired: boolean;
}

/** @throws {RangeError} when the kernel cannot run it. */
export function checkNbitsProduct({ k, n, weights, gate, out }: MatvecParams): void {
  if (out !== undefined) throw new RangeError("Products on the CPU have rows of their own.");
  const { blockSize } = weights as MatrixFormat & { readonly kind: "nbits" };
  if (blockSize !== BLOCK / 2 && blockSize % BLOCK !== 0) {
    throw new RangeError(
      `Blocks of ${blockSize} weights: kernels on the CPU read blocks of 16, or of a multiple of 32.`,
    );
  }
  if (k % BLOCK !== 0 || [n, gate?.gateRow ?? 0, gate?.upRow ?? 0].some((size) => size % GROUP)) {
    throw new RangeError(`A product of ${n} by ${k}: the CPU takes multiples of 4 by 32.`);
  }
}

/**
 * Rows are rounded to 8 bits, with a scale per block, if that is allowed (accuracy level 4). Otherwise they get 16
 * bits, which is more than half precision has: levels of 8 bits, and levels of 8 bits for the remainders.
 */
export function chooseRowLevels(weights: MatrixFormat & { readonly kind: "nbits" }): RowLevels {
  return { copies: numPlanes(weights), isPaired: weights.allowsInt8 !== true };
}

/** Number of f32 elements that `numRows` quantised rows of up to `k` elements take, including copies. */
export function countNbitsTilesElements(numRows: number, k: number): number {
  return 2 * numRows * k / BLOCK * ROW_BLOCK_BYTES / 4;
}

/** Bytes of a thread's scratch memory: the products of one part, which is largest for a single thread. */
export function countNbitsScratchBytes(outputs: number): number {
  return TILE_ROWS * divideGroups(outputs / GROUP, 1, NBITS_PARTS) * GROUP * 4;
}

/** Addresses and threads of a product. */
interface ProductMemory {
  readonly threads: KernelThreads;
  readonly memory: WebAssembly.Memory;
  readonly exports: KernelExports;
  /** Address of the words that describe the product, in the order of `Product`'s or `FloatProduct`'s fields. */
  readonly node: number;
  /** Address of the words that describe the step's rows, in the order of `QuantizedRows`' or `FloatRows`' fields. */
  readonly rows: number;
  readonly scratch: number;
  readonly scratchBytes: number;
  /** Number of times that helpers poll for the next job before they sleep. */
  readonly polls: number;
}

/**
 * The kernel of a product with a quantised matrix.
 *
 * @param quantizeRows writes the rows, normalised if there is a norm, as levels. `undefined` if these are the levels of
 * the previous product.
 * @throws {RangeError} when the kernel cannot run it.
 */
export function nbitsProduct(
  { threads, node, rows, ...own }: ProductMemory,
  params: MatvecParams,
  { tensors, quantizeRows }: {
    readonly tensors: Addresses<"weights" | "out" | "bias" | "residual">;
    readonly quantizeRows: RowKernel | undefined;
  },
): RowKernel {
  checkNbitsProduct(params);
  const { k, n, matrixRows, gate } = params;
  const weights = params.weights as MatrixFormat & { readonly kind: "nbits" };
  const { copies, isPaired } = chooseRowLevels(weights);
  const perRow = isPaired ? 2 : 1;
  const partGroups = divideGroups(n / GROUP, threads.numThreads, NBITS_PARTS);
  // The words are in the order of `Product`'s fields.
  const words = Uint32Array.of(
    ...[k / BLOCK * copies, n / GROUP, partGroups, tensors.weights!],
    ...[(gate?.gateRow ?? 0) / GROUP, gate ? 1 : 0, (gate?.upRow ?? 0) / GROUP],
    ACTIVATIONS.indexOf(params.activation),
    ...[tensors.bias ?? 0, tensors.residual ?? 0, tensors.out!],
    ...new Uint32Array(Float32Array.of(params.scale, params.softcap).buffer),
    ...[hasZeros(weights) ? 1 : 0, isPaired ? 1 : 0],
  );
  const nodeWords = new Uint32Array(own.memory.buffer, node, words.length);
  const rowWords = new Uint32Array(own.memory.buffer, rows, 1);
  const job = {
    kernel: "product",
    ...own,
    ...{ node, step: rows, items: 0 },
    numParts: Math.ceil(n / GROUP / partGroups),
  } as const;
  return (numRows) => {
    rowWords[0] = numRows * perRow;
    quantizeRows?.(numRows);
    nodeWords.set(words);
    threads.run({ ...job, flops: 2 * k * matrixRows * numRows * copies * perRow });
  };
}

/** Number of outputs of a matrix of f32 that lie side by side, as in `wasm/product_layout.ts`. */
const FLOAT_GROUP = 8;
const FLOAT_PARTS = { usual: 8, least: 2, maxParts: 128 };
/**
 * Reading a weight takes as long as this many operations with it, which decides whether waking a helper is worth it.
 */
const FLOPS_PER_WEIGHT = 8;

/** A matrix of `outputs` by `k` f32 elements as stored in the file. */
export interface FloatMatrix {
  readonly kind: "rows" | "columns";
  readonly k: number;
  readonly outputs: number;
}

/** @throws {RangeError} when the kernel cannot run it. */
export function checkFloatProduct({ k, n, gate, out }: MatvecParams): void {
  if (out !== undefined) throw new RangeError("Products on the CPU have rows of their own.");
  const starts = [gate?.gateRow ?? 0, gate?.upRow ?? 0, gate ? n : 0];
  if (k % 4 !== 0 || starts.some((start) => start % FLOAT_GROUP)) {
    throw new RangeError(
      `A product of ${n} by ${k}: the CPU takes multiples of ${FLOAT_GROUP} by 4.`,
    );
  }
}

/** Number of f32 elements that a packed matrix of f32 takes. */
export function countFloatMatrixElements(
  { k, outputs }: Pick<FloatMatrix, "k" | "outputs">,
): number {
  return Math.ceil(outputs / FLOAT_GROUP) * FLOAT_GROUP * k;
}

/** Bytes of a thread's scratch memory: the up-projections of a part, and an incomplete last group. */
export function countFloatScratchBytes(outputs: number, maxRows: number): number {
  const most = divideGroups(Math.ceil(outputs / FLOAT_GROUP), 1, FLOAT_PARTS);
  return (1 + most) * FLOAT_GROUP * 4 * maxRows;
}

/**
 * Packs a matrix of f32, with {@linkcode FLOAT_GROUP} outputs side by side, and writes it to address `at`.
 *
 * @param staged address and size of the memory for the part that is being packed.
 * @param read reads f32: `[k, outputs]` for columns, `[outputs, k]` for rows.
 * @throws {RangeError} when {@linkcode FLOAT_GROUP} rows, or one row of a matrix in columns, exceed that memory.
 */
export async function packFloats(
  { memory, exports, staged, at }: {
    readonly memory: WebAssembly.Memory;
    readonly exports: Pick<KernelExports, "packColumns" | "packRows">;
    readonly staged: { readonly at: number; readonly length: number };
    readonly at: number;
  },
  { kind, k, outputs }: FloatMatrix,
  read: ReadBytes,
): Promise<void> {
  const [numRows, rowBytes, step] = kind === "columns"
    ? [k, outputs * 4, 1] as const
    : [outputs, k * 4, FLOAT_GROUP] as const;
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

/**
 * The kernel of a product with a matrix of f32.
 *
 * @param memory.normed address of the normalised rows, f32 `[rows, k]`.
 * @param normRows writes the normalised rows to `normed`. `undefined` if there is no norm, or if `normed` already has
 * these rows.
 * @throws {RangeError} when the kernel cannot run it.
 */
export function floatProduct(
  { node, rows, normed, polls, ...own }: ProductMemory & { readonly normed: number },
  params: MatvecParams,
  { tensors, normRows }: {
    readonly tensors: Addresses<"x" | "weights" | "out" | "bias" | "residual">;
    readonly normRows: RowKernel | undefined;
  },
): RowKernel {
  checkFloatProduct(params);
  const { k, n, x, norm, gate } = params;
  const partGroups = divideGroups(Math.ceil(n / FLOAT_GROUP), own.threads.numThreads, FLOAT_PARTS);
  // The words are in the order of `FloatProduct`'s fields.
  const words = Uint32Array.of(
    ...[k, n, partGroups, tensors.weights!],
    ...[(gate?.gateRow ?? 0) / FLOAT_GROUP, gate ? 1 : 0, (gate?.upRow ?? 0) / FLOAT_GROUP],
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
    numParts: Math.ceil(n / FLOAT_GROUP / partGroups),
  } as const;
  const numWeights = k * n * (gate ? 2 : 1);
  return (numRows) => {
    normRows?.(numRows);
    // The words are in the order of `FloatRows`' fields.
    rowWords[0] = numRows;
    rowWords[1] = from;
    rowWords[2] = stride;
    nodeWords.set(words);
    threads.run({ ...job, flops: Math.max(FLOPS_PER_WEIGHT, 2 * numRows) * numWeights });
  };
}
