/**
 * The shape of a model's attention, and the kernels' tiling on a device.
 *
 * @module
 */
import type { GpuContext } from "../src/gpu/device.ts";
import { type Elem, sizeOf } from "../src/gpu/kernel.ts";

/** The heads of an attention. */
export interface HeadShape {
  readonly heads: number;
  /** Divides `heads`. */
  readonly kvHeads: number;
  /** Elements per head: 8 to 256, a multiple of 4. */
  readonly headSize: number;
  /** Type of queries, keys, values and output. */
  readonly elem: Elem;
}

/** The common shape of a model's attention layers, or of a kind of them. */
export interface AttentionShape extends HeadShape {
  /** Tokens per block of the KV cache. */
  readonly blockSize: number;
}

/** Divisors of the keys of a tile. */
type PrefillThreads = 2 | 4 | 8;

/** The work of one workgroup. A row is a pair (query token, query head of the group). */
export interface AttentionTiling {
  /** Rows of a decode workgroup, 1 to 8. */
  readonly decodeRows: number;
  readonly decodeThreads: number;
  /** Rows of a prefill workgroup, a multiple of 4; 0 where workgroup memory holds no tile. */
  readonly prefillRows: number;
  readonly prefillKeysPerThread: number;
  /** Threads that share four rows of a prefill workgroup. */
  readonly prefillThreads: PrefillThreads;
  /** Decode workgroups that keep the device busy: below this many, key ranges are split. */
  readonly targetWorkgroups: number;
  /** Keys below which a range is not worth splitting. */
  readonly minSplitKeys: number;
}

const MAX_DECODE_ROWS = 8;
const DECODE_THREADS = 32;
/** Rows and keys of a prefill tile, best first. */
const PREFILL_TILES = [[64, 32], [32, 32], [32, 16], [16, 32], [16, 16], [8, 16], [4, 8]] as const;
/** Each core of a software adapter runs one workgroup at a time, and large tiles only cost it cache. */
const FALLBACK_PREFILL_ROWS = 32;

/**
 * Chooses the tiling for a shape on a device.
 *
 * @throws {RangeError} when the kernels cannot run the shape.
 */
export function chooseTiling(gpu: GpuContext, shape: HeadShape): AttentionTiling {
  checkHeads(shape);
  const group = shape.heads / shape.kvHeads;
  const decodeRows = Math.ceil(group / Math.ceil(group / MAX_DECODE_ROWS));
  const maxRows = gpu.isFallbackAdapter ? FALLBACK_PREFILL_ROWS : Infinity;
  const prefillThreads = choosePrefillThreads(gpu, shape);
  const [prefillRows, prefillKeys] =
    PREFILL_TILES.find(([rows, keys]) =>
      rows <= maxRows && rows * 2 <= gpu.limits.maxComputeInvocationsPerWorkgroup &&
      prefillBytes(shape, rows, keys) <= gpu.limits.maxComputeWorkgroupStorageSize
    ) ?? [0, 0];
  return {
    decodeRows,
    decodeThreads: DECODE_THREADS,
    prefillRows,
    prefillKeysPerThread: prefillKeys / prefillThreads,
    prefillThreads,
    targetWorkgroups: gpu.isFallbackAdapter ? navigator.hardwareConcurrency : 1024,
    minSplitKeys: gpu.isFallbackAdapter ? 1024 : 4 * DECODE_THREADS,
  };
}

/**
 * On a software adapter a load costs far more than a product, and the fewer threads share four rows, the more products
 * each of their loads serves, as long as registers hold what a thread sums up.
 */
function choosePrefillThreads(gpu: GpuContext, { headSize }: HeadShape): PrefillThreads {
  if (!gpu.isFallbackAdapter || headSize > 64) return 8;
  return headSize > 32 ? 4 : 2;
}

/** Workgroup memory of a prefill tile, at most; see attention_tile.wgsl. */
function prefillBytes({ headSize, elem }: HeadShape, rows: number, keys: number) {
  return (rows * headSize + keys * (headSize + 4)) * sizeOf(elem) + (keys + 8) * rows * 4;
}

/** Also asked by the SIMD kernels. @throws {RangeError} when the kernels cannot run the heads. */
export function checkHeads({ heads, kvHeads, headSize }: HeadShape): void {
  if (headSize < 8 || headSize > 256 || headSize % 4 !== 0) {
    throw new RangeError(
      `Hearth's attention runs head sizes from 8 to 256 that 4 divides, not ${headSize}.`,
    );
  }
  if (heads % kvHeads !== 0) {
    throw new RangeError(`${kvHeads} KV heads do not divide ${heads} query heads.`);
  }
}

/** As {@linkcode checkHeads}, for a paged cache. */
export function checkShape(shape: AttentionShape): void {
  checkHeads(shape);
  if (shape.blockSize >= 1) return;
  throw new RangeError(`A KV block holds at least one token, not ${shape.blockSize}.`);
}

/** The prelude of attention_tile.wgsl. */
export function tilePrelude({ prefillThreads }: AttentionTiling): string {
  return `const COLUMN_THREADS = ${prefillThreads}u;\n`;
}
