/**
 * Products of a few rows with matrices of 4-bit weights, in WebAssembly SIMD: one of the kernels of `row_simd.ts`.
 *
 * @module
 */
import { ACTIVATIONS } from "../common/activation.ts";
import type { AttentionExports } from "../cpu/attention_module.ts";
import type { KernelThreads } from "../cpu/kernel_threads.ts";
import type { MatvecParams } from "./matvec_params.ts";
import type { Addresses, ReadBytes, RowKernel } from "../cpu/row_kernel.ts";

/** Weights that share a scale, as in `wasm/product_layout.ts`. */
export const BLOCK = 32;
const GROUP = 4;
const BLOCK_BYTES = 80;
/** Most rows that are multiplied with weights once read. */
const TILE_ROWS = 4;
const ROW_BLOCK_BYTES = 40;
/** Parts of a product: small enough that no thread waits long for another, large enough for streams of some pages. */
const PART_GROUPS = 64;
const MAX_PARTS = 32;

/** A matrix of `outputs` by `k`. */
export interface NbitsMatrix {
  readonly k: number;
  readonly outputs: number;
  /** Weights of a scale: a multiple of {@linkcode BLOCK}, which it is where nothing is said. */
  readonly blockSize?: number;
}

/** Reads its parts: levels u8 `[outputs, k / 32, 16]`, scales f32 `[outputs, k / blockSize]`. */
export interface NbitsSource {
  readonly levels: ReadBytes;
  readonly scales: ReadBytes;
}

/** @throws {RangeError} when the kernel cannot run it. */
export function checkNbitsProduct({ k, n, weights, gate, softcap }: MatvecParams): void {
  const isTaken = weights.kind === "nbits" && weights.bits === 4 &&
    weights.blockSize % BLOCK === 0 &&
    k % weights.blockSize === 0 && !weights.hasZeroPoints && weights.allowsInt8 === true &&
    softcap === 0;
  if (!isTaken) {
    throw new RangeError(
      "Kernels on the CPU read 4-bit weights in whole blocks of a multiple of 32, symmetric, at accuracy level 4.",
    );
  }
  if (k % BLOCK !== 0 || [n, gate?.gateRow ?? 0, gate?.upRow ?? 0].some((size) => size % GROUP)) {
    throw new RangeError(`A product of ${n} by ${k}: the CPU takes multiples of 4 by 32.`);
  }
}

/** Elements of f32 that a matrix takes. */
export function nbitsMatrixLength({ k, outputs }: NbitsMatrix): number {
  return outputs / GROUP * (k / BLOCK) * BLOCK_BYTES / 4;
}

/** Elements of f32 that `numRows` quantised rows of up to `k` elements take. */
export function nbitsTilesLength(numRows: number, k: number): number {
  return numRows * k / BLOCK * ROW_BLOCK_BYTES / 4;
}

/** Bytes of a thread's scratch memory: the products of a part. */
export function nbitsScratchBytes(outputs: number): number {
  return TILE_ROWS * partGroupsOf(outputs) * GROUP * 4;
}

function partGroupsOf(outputs: number): number {
  return Math.max(PART_GROUPS, Math.ceil(outputs / GROUP / MAX_PARTS));
}

/**
 * Packs a matrix at address `at`, {@linkcode GROUP} outputs side by side.
 *
 * @param staged addresses of memory for the part that is being packed, and the bytes that its levels may take; its
 * scales take a quarter.
 */
export async function packNbits(
  { memory, exports, staged, at }: {
    readonly memory: WebAssembly.Memory;
    readonly exports: Pick<AttentionExports, "packBlocks">;
    readonly staged: { readonly levels: number; readonly scales: number; readonly length: number };
    readonly at: number;
  },
  { k, outputs, blockSize = BLOCK }: NbitsMatrix,
  source: NbitsSource,
): Promise<void> {
  const perScale = blockSize / BLOCK;
  const blocks = k / BLOCK;
  const most = Math.max(1, Math.floor(staged.length / (k / 2 * GROUP)));
  const bytes = new Uint8Array(memory.buffer);
  // Files are not read into shared memory.
  const piece = new Uint8Array(Math.min(most, outputs / GROUP) * GROUP * k / 2);
  for (let first = 0; first < outputs / GROUP; first += most) {
    const count = Math.min(most, outputs / GROUP - first);
    const levels = piece.subarray(0, count * GROUP * blocks * 16);
    await source.levels(first * GROUP * blocks * 16, levels);
    bytes.set(levels, staged.levels);
    const scales = piece.subarray(0, count * GROUP * blocks * 4 / perScale);
    await source.scales(first * GROUP * blocks * 4 / perScale, scales);
    for (let at = 0, to = staged.scales; at < scales.length; at += 4) {
      for (let i = 0; i < perScale; i++, to += 4) bytes.set(scales.subarray(at, at + 4), to);
    }
    exports.packBlocks(
      staged.levels,
      staged.scales,
      blocks,
      count,
      at + first * blocks * BLOCK_BYTES,
    );
  }
}

/** Addresses and threads of {@linkcode nbitsProduct}. */
interface NbitsProductMemory {
  readonly threads: KernelThreads;
  readonly memory: WebAssembly.Memory;
  readonly exports: AttentionExports;
  /** Of 12 words and of 4, the first of which is the number of rows. */
  readonly site: number;
  readonly rows: number;
  readonly scratch: number;
  readonly scratchBytes: number;
  /** How often helpers look for the next job before they sleep. */
  readonly polls: number;
}

/**
 * The kernel of a product.
 *
 * @param quantizeRows writes the rows, or their norms, in levels of 8 bits, if those of the product before it are others.
 * @throws {RangeError} when the kernel cannot run it.
 */
export function nbitsProduct(
  { threads, site, rows, ...own }: NbitsProductMemory,
  params: MatvecParams,
  { tensors, quantizeRows }: {
    readonly tensors: Addresses<"weights" | "out" | "bias" | "residual">;
    readonly quantizeRows: RowKernel | undefined;
  },
): RowKernel {
  checkNbitsProduct(params);
  const { k, n, matrixRows, gate } = params;
  const partGroups = partGroupsOf(n);
  // In the order of `Product`.
  const words = Uint32Array.of(
    ...[k / BLOCK, n / GROUP, partGroups, tensors.weights!],
    ...[(gate?.gateRow ?? 0) / GROUP, gate ? 1 : 0, (gate?.upRow ?? 0) / GROUP],
    ACTIVATIONS.indexOf(params.activation),
    ...[tensors.bias ?? 0, tensors.residual ?? 0, tensors.out!],
    new Uint32Array(Float32Array.of(params.scale).buffer)[0]!,
  );
  const siteWords = new Uint32Array(own.memory.buffer, site, words.length);
  const rowWords = new Uint32Array(own.memory.buffer, rows, 1);
  const job = {
    kernel: "product",
    ...own,
    ...{ site, step: rows, items: 0 },
    numWorks: Math.ceil(n / GROUP / partGroups),
  } as const;
  return (numRows) => {
    rowWords[0] = numRows;
    quantizeRows?.(numRows);
    siteWords.set(words);
    threads.run({ ...job, flops: 2 * k * matrixRows * numRows });
  };
}
