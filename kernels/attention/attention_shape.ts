/**
 * The shape of a model's attention, and the kernels' tiling on a device.
 *
 * @module
 */
import type { GpuContext } from "../../src/gpu/device.ts";
import { type Elem, elemBytes } from "../../src/gpu/kernel.ts";
import { tileBytes, tileThreads, type TileTiling } from "./attention_tile.ts";
import type { DecodeTiling } from "./paged_attention_decode.ts";

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
  /** Whether the cache holds keys and values in 8 bits, with a scale for each token and head. */
  readonly isQuantized?: boolean | undefined;
}

/** How the kernels divide their work on a device. */
export interface AttentionTiling {
  readonly decode: DecodeTiling;
  /** Absent where workgroup memory holds no tile. */
  readonly tile?: TileTiling | undefined;
  /** Rows of a sequence up to which it is decoded, with few rows per workgroup, and not tiled. */
  readonly maxDecodedRows: number;
  /** Decode workgroups that keep the device busy: below this many, key ranges are split. */
  readonly targetWorkgroups: number;
  /** Keys below which a range is not worth splitting. */
  readonly minSplitKeys: number;
}

/** An H200 decodes groups of 7, 4 and 2 heads soonest in twos: a workgroup waits for less. */
const MAX_DECODE_ROWS = 2;
/** Groups of threads that share a value, on a graphics card. */
const DECODE_GROUPS = 8;
/** Tiles for any device, best first. */
const TILES = [
  { rows: 32, quads: 1, threadsPerRow: 8, keysPerThread: 4, isUnpacked: false },
  { rows: 32, quads: 1, threadsPerRow: 8, keysPerThread: 2, isUnpacked: false },
  { rows: 16, quads: 1, threadsPerRow: 8, keysPerThread: 4, isUnpacked: false },
  { rows: 16, quads: 1, threadsPerRow: 8, keysPerThread: 2, isUnpacked: false },
  { rows: 8, quads: 1, threadsPerRow: 8, keysPerThread: 2, isUnpacked: false },
  { rows: 4, quads: 1, threadsPerRow: 8, keysPerThread: 1, isUnpacked: false },
] as const satisfies TileTiling[];
/** Tiles that a graphics card tries first: eight rows per thread share its loads, and halves are unpacked slowly. */
const CARD_TILES = [
  { rows: 64, quads: 2, threadsPerRow: 16, keysPerThread: 2, isUnpacked: true },
  { rows: 64, quads: 2, threadsPerRow: 16, keysPerThread: 2, isUnpacked: false },
  { rows: 32, quads: 2, threadsPerRow: 16, keysPerThread: 2, isUnpacked: true },
] as const satisfies TileTiling[];

/**
 * Before those for prompts of models in half precision, whose queries see no keys that come later: products in f16, sums
 * of a few in f16 and of all in f32. Sums over all positions of an encoder lose too much by it.
 */
const HALF_TILES = [
  { rows: 64, quads: 2, threadsPerRow: 16, keysPerThread: 4, isUnpacked: false, isHalf: true },
  { rows: 64, quads: 2, threadsPerRow: 16, keysPerThread: 2, isUnpacked: false, isHalf: true },
] as const satisfies TileTiling[];

/** Like {@linkcode chooseTiling}, for a paged cache. */
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

/** Each core of a software adapter runs one workgroup at a time, and large tiles only cost it cache. */
function chooseFallback(gpu: GpuContext, shape: HeadShape): AttentionTiling {
  // Queries and sums of eight rows of large heads would be more than 16 KiB.
  const rows = spreadRows(shape, shape.headSize > 128 ? 4 : 8);
  // A load costs far more than a product: the fewer threads share rows, the more products each of their loads serves,
  // as long as registers hold what a thread sums up.
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

/** The rows of a token over as few workgroups as hold `most` each, evenly. */
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

/** Like {@linkcode checkHeads}, for a paged cache. */
export function checkShape(shape: AttentionShape): void {
  checkHeads(shape);
  if (shape.blockSize >= 1) return;
  throw new RangeError(`A KV block holds at least one token, not ${shape.blockSize}.`);
}
