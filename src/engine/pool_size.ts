/**
 * How large the pool of KV blocks is to be: it grows when sequences need more, and shrinks when they long have not.
 * Pure.
 *
 * @module
 */
import type { PoolLimits } from "../decoder/decoder.ts";

/** What the next step would like of the pool. */
export interface PoolDemand {
  /** Blocks that it lacks even if all cached ones are given up; at most 0 if it lacks none. */
  readonly numMissing: number;
  /** Cached blocks of other prefixes that it would give up; at most 0 if none. */
  readonly numEvicted: number;
}

/** How long the device is not asked again after it refused memory. */
const RETRY_MS = 30_000;
/** A pool that was at most half used for so long shrinks: people think longer than that, but not often. */
const SHRINK_AFTER_MS = 10 * 60_000;
/** Growth in one go, relative to the present size; the less, the more the device refuses. */
const GROWTH = [2, 1.25, 1.05];

export class PoolSize {
  readonly #limits: PoolLimits;
  readonly #most: number;
  #numBlocks: number;
  #refusedAtMs = -Infinity;
  /** When more than half of it was last in use. */
  #neededAtMs = 0;

  constructor(limits: PoolLimits) {
    this.#limits = limits;
    this.#numBlocks = limits.numBlocks;
    this.#most = mostBlocks(limits);
  }

  get numBlocks(): number {
    return this.#numBlocks;
  }

  /** Most blocks that it can be given at present. */
  mostAt(nowMs: number): number {
    return nowMs - this.#refusedAtMs < RETRY_MS ? this.#numBlocks : this.#most;
  }

  /**
   * Sizes to ask the device for, one after the other until it gives one; none where the present one will do. The last may
   * be less than what is missing.
   */
  sizesFor({ numMissing, numEvicted }: PoolDemand, nowMs: number): number[] {
    const most = this.mostAt(nowMs);
    if (numMissing > 0) return this.#upTo(most, this.#numBlocks + numMissing);
    // Known prefixes are worth some memory, not all that there is.
    const roomy = Math.min(most, this.restingSize);
    return numEvicted > 0 ? this.#upTo(roomy, this.#numBlocks + 1) : [];
  }

  #upTo(most: number, least: number): number[] {
    const [large, ...smaller] = GROWTH.map((factor) => Math.ceil(factor * this.#numBlocks));
    const sizes = [Math.max(large!, least), ...smaller, least].map((size) => Math.min(size, most));
    return [...new Set(sizes)].filter((size) => size > this.#numBlocks).sort((a, b) => b - a);
  }

  /** The device has given this size. */
  set(numBlocks: number, nowMs: number): void {
    this.#numBlocks = numBlocks;
    this.#neededAtMs = nowMs;
  }

  /** The device has refused every size. */
  refuse(nowMs: number): void {
    this.#refusedAtMs = nowMs;
  }

  /** Learns how many blocks sequences hold. */
  observe(numUsedBlocks: number, nowMs: number): void {
    if (numUsedBlocks > this.#numBlocks / 2) this.#neededAtMs = nowMs;
  }

  /**
   * How many milliseconds until it should shrink to {@linkcode restingSize} unless it is needed; never if `undefined`.
   */
  shrinksIn(nowMs: number): number | undefined {
    if (this.#numBlocks <= this.restingSize) return undefined;
    return Math.max(0, this.#neededAtMs + SHRINK_AFTER_MS - nowMs);
  }

  /** What a pool that nobody needs may keep, for prefixes that are asked for again. */
  get restingSize(): number {
    const { numBlocks, roomyBlocks = numBlocks } = this.#limits;
    return roomyBlocks;
  }
}

/** The most blocks a decoder's pool may have. */
export function mostBlocks({ numBlocks, maxBlocks = numBlocks }: PoolLimits): number {
  return maxBlocks;
}
