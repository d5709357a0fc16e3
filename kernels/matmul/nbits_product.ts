/**
 * Products of few rows with quantised matrices, in WebAssembly SIMD: one of the kernels of `row_simd.ts`.
 *
 * @module
 */
import { ACTIVATIONS } from "../common/activation.ts";
import type { AttentionExports } from "../cpu/attention_module.ts";
import { type Addresses, divideGroups, type RowKernel } from "../cpu/row_kernel.ts";
import type { KernelThreads } from "../cpu/kernel_threads.ts";
import type { MatrixFormat, MatvecParams } from "./matvec_params.ts";
import { BLOCK, GROUP, hasZeros, numPlanes } from "./nbits_matrix.ts";

/** Most rows that are multiplied with weights after reading them once. */
const TILE_ROWS = 4;
const ROW_BLOCK_BYTES = 40;
/** Sizes of a product's parts; the weights of a group are read in six streams. */
const PARTS = { usual: 64, least: 6, maxParts: 32 };

/** How rows are quantised for a matrix. */
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
 * Rows are rounded to 8 bits per block if that is allowed (accuracy level 4). Otherwise they get 16 bits, more than
 * half precision has: levels of 8 bits, and levels for the remainders.
 */
export function chooseRowLevels(weights: MatrixFormat & { readonly kind: "nbits" }): RowLevels {
  return { copies: numPlanes(weights), isPaired: weights.allowsInt8 !== true };
}

/** Number of f32 elements that `numRows` quantised rows of up to `k` elements take, including copies. */
export function nbitsTilesLength(numRows: number, k: number): number {
  return 2 * numRows * k / BLOCK * ROW_BLOCK_BYTES / 4;
}

/** Bytes of a thread's scratch memory: the products of a part, the largest for any number of threads. */
export function nbitsScratchBytes(outputs: number): number {
  return TILE_ROWS * divideGroups(outputs / GROUP, 1, PARTS) * GROUP * 4;
}

/** Addresses and threads of {@linkcode nbitsProduct}. */
interface NbitsProductMemory {
  readonly threads: KernelThreads;
  readonly memory: WebAssembly.Memory;
  readonly exports: AttentionExports;
  /**
   * Address of the 15 words that describe the product; those of the step's rows, 4 words, are at `rows`. The first of
   * the four is the number of quantised rows.
   */
  readonly node: number;
  readonly rows: number;
  readonly scratch: number;
  readonly scratchBytes: number;
  /** How often helpers poll for the next job before they sleep. */
  readonly polls: number;
}

/**
 * The kernel of a product.
 *
 * @param quantizeRows writes the rows, or their norms, as levels, unless they are those of the previous product.
 * @throws {RangeError} when the kernel cannot run it.
 */
export function nbitsProduct(
  { threads, node, rows, ...own }: NbitsProductMemory,
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
  const partGroups = divideGroups(n / GROUP, threads.numThreads, PARTS);
  // In the order of `Product`'s fields.
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
    numWorks: Math.ceil(n / GROUP / partGroups),
  } as const;
  return (numRows) => {
    rowWords[0] = numRows * perRow;
    quantizeRows?.(numRows);
    nodeWords.set(words);
    threads.run({ ...job, flops: 2 * k * matrixRows * numRows * copies * perRow });
  };
}
