/**
 * The layout of keys and values in a paged cache on a GPU.
 *
 * @module
 */
import { elemBytes } from "../../src/gpu/kernel.ts";
import type { AttentionShape } from "./attention_shape.ts";
import { expand } from "../common/expand.ts";
import source from "./kv_cache.wgsl" with { type: "text" };

/** Bytes of the scale for one head of one token. */
const SCALE_BYTES = 4;
/** Number of elements that a workgroup of `kv_write` holds; a head must fit. */
const WRITTEN_ELEMENTS = 256;

/** The blocks in which layers store keys and values. Their number may grow. */
export interface CachePool {
  readonly numBlocks: number;
  /** Most blocks that the pool may grow to; `numBlocks` if absent. */
  readonly maxBlocks?: number | undefined;
}

/** The pool of the layers that share one window. */
export interface WindowPool extends CachePool {
  /** Number of keys that a query sees in these layers, including its own. */
  readonly window: number;
}

/** Index of the pool for a layer with this window (0 for none). Index 0 is the main pool. */
export function choosePool(window: number, windows: readonly WindowPool[] = []): number {
  return windows.findIndex((pool) => pool.window === window) + 1;
}

type CachedHead = Pick<AttentionShape, "headSize" | "elem" | "isQuantized">;

/** Bytes of one token's key, or value, of one head. */
export function cachedHeadBytes({ headSize, elem, isQuantized }: CachedHead): number {
  return isQuantized ? headSize + SCALE_BYTES : headSize * elemBytes(elem);
}

/** WGSL that declares the step's plan and `cached`, and functions that read it. */
export function cacheSource({ isQuantized = false }: CachedHead): string {
  return expand(source, { IS_QUANTIZED: isQuantized });
}

/** Distance from a head of a token to the next one's, in units of `cached`. */
export function cacheStride({ headSize, isQuantized }: CachedHead): number {
  return headSize / 4 + (isQuantized ? 1 : 0);
}

/** @throws {RangeError} when heads of this size cannot be cached in 8 bits. */
export function checkQuantized({ headSize, isQuantized }: CachedHead): void {
  if (!isQuantized || WRITTEN_ELEMENTS % headSize === 0) return;
  throw new RangeError(
    `Keys and values of heads of ${headSize} cannot be kept in 8 bits: ` +
      `that takes head sizes that divide ${WRITTEN_ELEMENTS}.`,
  );
}
