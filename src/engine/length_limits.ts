/**
 * Limits on the length of sequences and on the size of the pools of KV blocks. The error for a prompt that is too long
 * says what the limit is, why, and which setting may change it. Pools grow when sequences need more, and shrink when
 * they have been little used for a while. Pure.
 *
 * @module
 */
import { HearthError, type Setting } from "../base/errors.ts";
import { mostWindowBlocks } from "../decoder/paged_limits.ts";
import type { DecoderLimits, LengthLimit, PoolLimits } from "../decoder/decoder.ts";

const REASONS: Readonly<
  Record<LengthLimit | "model", { readonly why: string; readonly setting?: Setting }>
> = {
  model: { why: "as many as it was trained for" },
  maxModelLength: { why: "as many as this server allows", setting: "maxModelLength" },
  kvCacheMb: { why: "as many as its memory for keys and values can hold", setting: "kvCacheMb" },
  buffer: { why: "as many as a buffer of its device can hold", setting: "kvCacheDtype" },
  memory: { why: "as many as the free memory can hold", setting: "kvCacheDtype" },
};

/** The longest sequences that the context and the largest pools can hold. */
export class LengthLimits {
  readonly #limits: DecoderLimits;
  /** Most blocks that each pool can have: the main one, then those of windows. */
  readonly #mostBlocks: number[];

  constructor(limits: DecoderLimits) {
    this.#limits = limits;
    this.#mostBlocks = [limits, ...limits.windows ?? []].map(mostBlocks);
  }

  /** Sets the most blocks that a pool can have; 0 is the main one, the others are those of windows. */
  setPool(pool: number, mostBlocks: number): void {
    this.#mostBlocks[pool] = mostBlocks;
  }

  /** Most tokens of prompt and completion in one sequence. */
  get longest(): number {
    // The last token of a completion is never computed, so it needs no slot.
    return Math.min(this.#limits.contextLength, this.mostComputed + 1);
  }

  /**
   * Most tokens of a sequence that the pools can hold. A window pool that can hold a window and one token can hold any
   * sequence.
   */
  get mostComputed(): number {
    const { blockSize, windows = [] } = this.#limits;
    const [main, ...ofWindows] = this.#mostBlocks as [number, ...number[]];
    const short = ofWindows.filter((most, i) =>
      most < mostWindowBlocks({ blockSize, window: windows[i]!.window, maxBatchTokens: 1 })
    );
    return Math.min(main, ...short) * blockSize;
  }

  /** Longest prompt if at most `maxTokens` tokens are to follow. */
  longestPrompt(maxTokens: number): number {
    if (maxTokens > 0) return this.longest - 1;
    return Math.min(this.#limits.contextLength, this.mostComputed);
  }

  /** Creates the error `context_length_exceeded`. */
  tooLong(numPromptTokens: number, maxTokens = Infinity): HearthError {
    const wantsAnswer = maxTokens > 0;
    const most = wantsAnswer ? this.longest : this.longestPrompt(0);
    const { contextLength, lengthLimit } = this.#limits;
    const reason = most < contextLength ? "memory" : lengthLimit;
    const answer = wantsAnswer ? ", and the answer needs at least one more" : "";
    const { why, setting } = REASONS[reason ?? "model"];
    // Clients look for the words "maximum context length is".
    return new HearthError(
      "context_length_exceeded",
      `This model's maximum context length is ${most} tokens, ${why}; ` +
        `the prompt has ${numPromptTokens}${answer}.`,
      { setting },
    );
  }
}

/** What the next step needs from a pool. */
export interface PoolDemand {
  /** Blocks that are missing even if all cached blocks are evicted; 0 or less if none are. */
  readonly numMissing: number;
  /** Cached blocks of other prefixes that would be evicted; 0 or less if none would be. */
  readonly numEvicted: number;
}

/** How long after the device refused memory it is asked again. */
const RETRY_MS = 30_000;
/**
 * A pool shrinks after being at most half used for this long. People rarely think longer than this between two
 * messages.
 */
const SHRINK_AFTER_MS = 10 * 60_000;
/** Factors by which a pool grows. If the device refuses one, it is asked for the next smaller one. */
const GROWTH = [2, 1.25, 1.05];

/** The size of one pool of KV blocks. */
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

  /** Size to which an idle pool shrinks, which still keeps cached prefixes for later requests. */
  get restingSize(): number {
    const { numBlocks, roomyBlocks = numBlocks } = this.#limits;
    return roomyBlocks;
  }
}

/** The most blocks that a decoder's pool may have. */
export function mostBlocks({ numBlocks, maxBlocks = numBlocks }: PoolLimits): number {
  return maxBlocks;
}
