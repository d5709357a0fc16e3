/**
 * Decides how large the pool of KV blocks should be. It grows when sequences need more, and shrinks when it has been
 * little used for long. Pure.
 *
 * @module
 */
import type { PoolLimits } from "../decoder/decoder.ts";

/** What the next step needs from the pool. */
export interface PoolDemand {
  /** Blocks that are missing even if all cached blocks are evicted; at most 0 if none is. */
  readonly numMissing: number;
  /** Cached blocks of other prefixes that would be evicted; at most 0 if none would. */
  readonly numEvicted: number;
}

/** After the device refused memory, how long until it is asked again. */
const RETRY_MS = 30_000;
/**
 * A pool that was at most half used for this long shrinks. People rarely think longer than this between two messages.
 */
const SHRINK_AFTER_MS = 10 * 60_000;
/** Factors by which the pool grows at a time; the device is asked for the next smaller one whenever it refuses. */
const GROWTH = [2, 1.25, 1.05];

export class PoolSize {
  readonly #limits: PoolLimits;
  readonly #most: number;
  #numBlocks: number;
  #refusedAtMs = -Infinity;
  /** When more than half of the pool was last in use. */
  #neededAtMs = 0;

  constructor(limits: PoolLimits) {
    this.#limits = limits;
    this.#numBlocks = limits.numBlocks;
    this.#most = mostBlocks(limits);
  }

  get numBlocks(): number {
    return this.#numBlocks;
  }

  /** Most blocks that the pool can have at present. */
  mostAt(nowMs: number): number {
    return nowMs - this.#refusedAtMs < RETRY_MS ? this.#numBlocks : this.#most;
  }

  /**
   * Sizes to ask the device for, in order, until it grants one; none if the present size is enough. The last one may be
   * smaller than needed.
   */
  sizesFor({ numMissing, numEvicted }: PoolDemand, nowMs: number): number[] {
    const most = this.mostAt(nowMs);
    if (numMissing > 0) return this.#upTo(most, this.#numBlocks + numMissing);
    // Cached prefixes are worth some memory, but not all of it.
    const roomy = Math.min(most, this.restingSize);
    return numEvicted > 0 ? this.#upTo(roomy, this.#numBlocks + 1) : [];
  }

  #upTo(most: number, least: number): number[] {
    const [large, ...smaller] = GROWTH.map((factor) => Math.ceil(factor * this.#numBlocks));
    const sizes = [Math.max(large!, least), ...smaller, least].map((size) => Math.min(size, most));
    return [...new Set(sizes)].filter((size) => size > this.#numBlocks).sort((a, b) => b - a);
  }

  /** Called when the device has granted a size. */
  set(numBlocks: number, nowMs: number): void {
    this.#numBlocks = numBlocks;
    this.#neededAtMs = nowMs;
  }

  /** Called when the device has refused every size. */
  refuse(nowMs: number): void {
    this.#refusedAtMs = nowMs;
  }

  /** Records how many blocks sequences hold. */
  observe(numUsedBlocks: number, nowMs: number): void {
    if (numUsedBlocks > this.#numBlocks / 2) this.#neededAtMs = nowMs;
  }

  /**
   * Milliseconds until the pool should shrink to {@linkcode restingSize} unless it is needed; `undefined` for never.
   */
  shrinksIn(nowMs: number): number | undefined {
    if (this.#numBlocks <= this.restingSize) return undefined;
    return Math.max(0, this.#neededAtMs + SHRINK_AFTER_MS - nowMs);
  }

  /** Size of a pool that is not in use, which keeps cached prefixes for later requests. */
  get restingSize(): number {
    const { numBlocks, roomyBlocks = numBlocks } = this.#limits;
    return roomyBlocks;
  }
}

/** The most blocks that a decoder's pool may have. */
export function mostBlocks({ numBlocks, maxBlocks = numBlocks }: PoolLimits): number {
  return maxBlocks;
}
