/**
 * The shape of a model's attention and of its paged KV cache, and how the kernels tile attention on a device.
 *
 * @module
 */
import type { GpuContext } from "../../src/gpu/device.ts";
import { type Elem, elemBytes } from "../../src/gpu/kernel.ts";
import { type DecodeTiling, tileBytes, tileThreads, type TileTiling } from "./attention_source.ts";
import { expand } from "../common/wgsl.ts";
import cacheTemplate from "./kv_cache.wgsl" with { type: "text" };

/** The heads of an attention layer. */
export interface HeadShape {
  readonly heads: number;
  /** Divides `heads`. */
  readonly kvHeads: number;
  /** Elements per head: 8 to 256, a multiple of 4. */
  readonly headSize: number;
  /** Data type of queries, keys, values and output. */
  readonly elem: Elem;
}

/** The shape shared by all attention layers of a model, or by all layers of one kind. */
export interface AttentionShape extends HeadShape {
  /** Tokens per block of the KV cache. */
  readonly blockSize: number;
  /** Whether the cache holds keys and values in 8 bits, with a scale for each token and head. */
  readonly isQuantized?: boolean | undefined;
}

/** The division of the kernels' work on a device. */
export interface AttentionTiling {
  readonly decode: DecodeTiling;
  /** Absent if workgroup memory is too small for a tile. */
  readonly tile?: TileTiling | undefined;
  /**
   * A sequence with at most this many rows is computed by the decode kernel, which takes few rows per workgroup; other
   * sequences are tiled. The limit does not apply to sequences with a field `isDecoding`.
   */
  readonly maxDecodedRows: number;
  /** Number of decode workgroups that keep the device busy. If there are fewer, key ranges are split. */
  readonly targetWorkgroups: number;
  /** Minimum number of keys in each part of a split range, except the last part. */
  readonly minSplitKeys: number;
}

/**
 * Maximum number of query heads of a KV head that a workgroup decodes. On an H200, groups of 7, 4 and 2 heads decode
 * fastest two at a time, because a workgroup then waits for less memory.
 */
const MAX_DECODE_ROWS = 2;
/** On a graphics card, a workgroup has this many groups of `threadsPerValue` threads. */
const DECODE_GROUPS = 8;
/** Tiles for any device, the best first. */
const TILES = [
  { rows: 32, quads: 1, threadsPerRow: 8, keysPerThread: 4, isUnpacked: false },
  { rows: 32, quads: 1, threadsPerRow: 8, keysPerThread: 2, isUnpacked: false },
  { rows: 16, quads: 1, threadsPerRow: 8, keysPerThread: 4, isUnpacked: false },
  { rows: 16, quads: 1, threadsPerRow: 8, keysPerThread: 2, isUnpacked: false },
  { rows: 8, quads: 1, threadsPerRow: 8, keysPerThread: 2, isUnpacked: false },
  { rows: 4, quads: 1, threadsPerRow: 8, keysPerThread: 1, isUnpacked: false },
] as const satisfies TileTiling[];
/**
 * Tiles that are tried first on graphics cards: each load of a thread serves eight rows. Unpacked tiles hold keys and
 * values as f32, since unpacking f16 is slow.
 */
const CARD_TILES = [
  { rows: 64, quads: 2, threadsPerRow: 16, keysPerThread: 2, isUnpacked: true },
  { rows: 64, quads: 2, threadsPerRow: 16, keysPerThread: 2, isUnpacked: false },
  { rows: 32, quads: 2, threadsPerRow: 16, keysPerThread: 2, isUnpacked: true },
] as const satisfies TileTiling[];

/**
 * Tiles tried first for prompts of models in half precision. Products and sums of a few products are f16, the total is
 * f32. Only for causal attention: an encoder's sums over all positions would lose too much precision.
 */
const HALF_TILES = [
  { rows: 64, quads: 2, threadsPerRow: 16, keysPerThread: 4, isUnpacked: false, isHalf: true },
  { rows: 64, quads: 2, threadsPerRow: 16, keysPerThread: 2, isUnpacked: false, isHalf: true },
] as const satisfies TileTiling[];

/** Like {@linkcode chooseTiling}, for a paged cache: takes {@linkcode HALF_TILES} where they fit. */
export function choosePagedTiling(gpu: GpuContext, shape: HeadShape): AttentionTiling {
  const tiling = chooseTiling(gpu, shape);
  if (gpu.isFallbackAdapter || !gpu.hasF16 || shape.elem !== "f16") return tiling;
  return { ...tiling, tile: findTile(gpu, shape, HALF_TILES) ?? tiling.tile };
}

/**
 * Chooses the tiling for a shape on a device.
 *
 * @throws {RangeError} when the kernels cannot run the shape.
 */
export function chooseTiling(gpu: GpuContext, shape: HeadShape): AttentionTiling {
  checkHeads(shape);
  return gpu.isFallbackAdapter ? chooseFallback(gpu, shape) : chooseForCard(gpu, shape);
}

function chooseForCard(gpu: GpuContext, shape: HeadShape): AttentionTiling {
  const headFours = shape.headSize / 4;
  const threadsPerValue = Math.min(32, Math.max(8, 2 ** Math.ceil(Math.log2(headFours))));
  const decode = {
    rows: spreadRows(shape, MAX_DECODE_ROWS),
    threads: DECODE_GROUPS * threadsPerValue,
    threadsPerKey: headFours % 4 === 0 ? 4 : headFours % 2 === 0 ? 2 : 1,
    keysPerThread: 1,
    threadsPerValue,
    roundsQueries: true,
  };
  return {
    decode,
    tile: findTile(gpu, shape, [...CARD_TILES, ...TILES]),
    maxDecodedRows: 128,
    targetWorkgroups: 256,
    minSplitKeys: 128,
  };
}

/** On a software adapter, each core runs one workgroup at a time, and large tiles only take space in its cache. */
function chooseFallback(gpu: GpuContext, shape: HeadShape): AttentionTiling {
  // For large heads, queries and sums of eight rows would exceed 16 KiB.
  const rows = spreadRows(shape, shape.headSize > 128 ? 4 : 8);
  // A load costs far more than a product. With fewer threads per row, each load serves more products, as long as the
  // thread's sums fit into registers.
  const threadsPerRow = shape.headSize > 64 ? 8 : shape.headSize > 32 ? 4 : 2;
  const tiles = TILES.map((tile) => ({
    ...tile,
    threadsPerRow,
    keysPerThread: tile.keysPerThread * tile.threadsPerRow / threadsPerRow,
  }));
  return {
    decode: { rows, threads: 32, threadsPerKey: 1, keysPerThread: 1, threadsPerValue: 4 },
    tile: findTile(gpu, shape, tiles),
    maxDecodedRows: 2 * rows,
    targetWorkgroups: navigator.hardwareConcurrency,
    minSplitKeys: 1024,
  };
}

/** Rows per workgroup, at most `most`, if a token's rows are divided evenly among as few workgroups as possible. */
function spreadRows({ heads, kvHeads }: HeadShape, most: number): number {
  const group = heads / kvHeads;
  return Math.ceil(group / Math.ceil(group / most));
}

function findTile(
  { limits }: GpuContext,
  { headSize, elem }: HeadShape,
  tiles: readonly TileTiling[],
): TileTiling | undefined {
  return tiles.find((tile) =>
    tileThreads(tile) <= limits.maxComputeInvocationsPerWorkgroup &&
    tileBytes(headSize / 4, 4 * elemBytes(elem), tile) <= limits.maxComputeWorkgroupStorageSize
  );
}

/**
 * Checks heads; the SIMD kernels use it too.
 *
 * @throws {RangeError} when the kernels cannot run the heads.
 */
export function checkHeads({ heads, kvHeads, headSize }: HeadShape): void {
  if (headSize < 8 || headSize > 256 || headSize % 4 !== 0) {
    throw new RangeError(
      `Hearth's attention runs head sizes from 8 to 256 that are multiples of 4, not ${headSize}.`,
    );
  }
  if (heads % kvHeads !== 0) {
    throw new RangeError(`${kvHeads} KV heads do not divide ${heads} query heads.`);
  }
}

/** Checks the shape of attention over a paged cache. @throws {RangeError} when the kernels cannot run it. */
export function checkShape(shape: AttentionShape): void {
  checkHeads(shape);
  if (shape.blockSize >= 1) return;
  throw new RangeError(`A KV block holds at least one token, not ${shape.blockSize}.`);
}

/** Bytes of the scale that one head of one token has in a cache of 8 bits. */
const SCALE_BYTES = 4;
/** Number of elements that a workgroup of `kv_write` takes, which must be whole heads. */
const WRITTEN_ELEMENTS = 256;

/** The blocks in which layers store keys and values. Their number may grow. */
export interface CachePool {
  readonly numBlocks: number;
  /** Maximum number of blocks that the pool may grow to; `numBlocks` if absent. */
  readonly maxBlocks?: number | undefined;
}

/** The pool of the layers that share one window. */
export interface WindowPool extends CachePool {
  /** Number of keys that a query sees in these layers, including its own. */
  readonly window: number;
}

/** Index of the pool for a layer with this window; a window of 0 means none. Index 0 is the main pool. */
export function choosePool(window: number, windows: readonly WindowPool[] = []): number {
  return windows.findIndex((pool) => pool.window === window) + 1;
}

type CachedHead = Pick<AttentionShape, "headSize" | "elem" | "isQuantized">;

/** Bytes of one token's key, or value, of one head. */
export function cachedHeadBytes({ headSize, elem, isQuantized }: CachedHead): number {
  return isQuantized ? headSize + SCALE_BYTES : headSize * elemBytes(elem);
}

/** WGSL that declares the step's plan, the type `cached`, and functions that read the cache. */
export function cacheSource({ isQuantized = false }: CachedHead): string {
  return expand(cacheTemplate, { IS_QUANTIZED: isQuantized });
}

/** Distance in the cache from one token's head to the next token's, in units of `cached`. */
export function cacheStride({ headSize, isQuantized }: CachedHead): number {
  return headSize / 4 + (isQuantized ? 1 : 0);
}

/** Checks the size of heads. @throws {RangeError} when heads of this size cannot be cached in 8 bits. */
export function checkQuantized({ headSize, isQuantized }: CachedHead): void {
  if (!isQuantized || WRITTEN_ELEMENTS % headSize === 0) return;
  throw new RangeError(
    `Keys and values of heads of ${headSize} cannot be kept in 8 bits: ` +
      `that takes head sizes that divide ${WRITTEN_ELEMENTS}.`,
  );
}
