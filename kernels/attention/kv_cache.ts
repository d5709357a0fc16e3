/**
 * The layout of keys and values in a paged cache on a GPU.
 *
 * @module
 */
import { elemBytes } from "../../src/gpu/kernel.ts";
import type { AttentionShape } from "./attention_shape.ts";
import plainSource from "./kv_cache_plain.wgsl" with { type: "text" };
import quantizedSource from "./kv_cache_q8.wgsl" with { type: "text" };

/** Bytes of the scale of a head of a token. */
const SCALE_BYTES = 4;
/** Elements that a workgroup of the kernel that writes the cache holds: a head must fit. */
const WRITTEN_ELEMENTS = 256;

/** Blocks that layers keep keys and values in, which may become more. */
export interface CachePool {
  readonly numBlocks: number;
  /** Most blocks that the pool may be enlarged to; `numBlocks` if absent. */
  readonly maxBlocks?: number | undefined;
}

/** The pool of the layers with one window. */
export interface WindowPool extends CachePool {
  /** Keys that a query sees in these layers, its own included. */
  readonly window: number;
}

/** The index of the pool that a layer with a window, or 0 for none, keeps its keys and values in: 0 is the main one. */
export function choosePool(window: number, windows: readonly WindowPool[] = []): number {
  return windows.findIndex((pool) => pool.window === window) + 1;
}

type CachedHead = Pick<AttentionShape, "headSize" | "elem" | "isQuantized">;

/** Bytes of the keys, or of the values, of one token and head. */
export function cachedHeadBytes({ headSize, elem, isQuantized }: CachedHead): number {
  return isQuantized ? headSize + SCALE_BYTES : headSize * elemBytes(elem);
}

/** Declares `cached`, and how it is read. */
export function cacheSource({ isQuantized }: CachedHead): string {
  return isQuantized ? quantizedSource : plainSource;
}

/** Distance from a head of a token to the next, in units of `cached`. */
export function cacheStride({ headSize, isQuantized }: CachedHead): number {
  return headSize / 4 + (isQuantized ? 1 : 0);
}

/** @throws {RangeError} when heads of that size cannot be cached in 8 bits. */
export function checkQuantized({ headSize, isQuantized }: CachedHead): void {
  if (!isQuantized || WRITTEN_ELEMENTS % headSize === 0) return;
  throw new RangeError(
    `Keys and values of heads of ${headSize} cannot be kept in 8 bits: ` +
      `that takes head sizes that divide ${WRITTEN_ELEMENTS}.`,
  );
}
