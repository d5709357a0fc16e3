/**
 * Limits on the length of sequences. The error for a prompt that is too long says what the limit is, why, and which
 * setting may change it. Pure.
 *
 * @module
 */
import { HearthError, type Setting } from "../base/errors.ts";
import { countMostWindowBlocks } from "../decoder/paged_limits.ts";
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
  /** Maximum number of blocks that each pool can have: the main pool, then the window pools. */
  readonly #mostBlocks: number[];

  constructor(limits: DecoderLimits) {
    this.#limits = limits;
    this.#mostBlocks = [limits, ...limits.windows ?? []].map(mostBlocks);
  }

  /** Sets the maximum number of blocks of a pool: 0 is the main pool, the others are window pools. */
  setPool(pool: number, mostBlocks: number): void {
    this.#mostBlocks[pool] = mostBlocks;
  }

  /** Maximum number of tokens of prompt and completion in one sequence. */
  get longest(): number {
    // The last token of a completion is never computed, so it needs no slot.
    return Math.min(this.#limits.contextLength, this.mostComputed + 1);
  }

  /**
   * Maximum number of tokens of a sequence that the pools can hold. A window pool that can hold a window and one token
   * can hold any sequence.
   */
  get mostComputed(): number {
    const { blockSize, windows = [] } = this.#limits;
    const [main, ...ofWindows] = this.#mostBlocks as [number, ...number[]];
    const short = ofWindows.filter((most, i) =>
      most < countMostWindowBlocks({ blockSize, window: windows[i]!.window, maxBatchTokens: 1 })
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

/** Maximum number of blocks that a decoder's pool may have. */
export function mostBlocks({ numBlocks, maxBlocks = numBlocks }: PoolLimits): number {
  return maxBlocks;
}
