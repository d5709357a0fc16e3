/**
 * How long sequences may be, and the error of a prompt that is too long: what the limit is, why, and which setting may
 * change it.
 *
 * @module
 */
import { HearthError, type Setting } from "../base/errors.ts";
import { mostWindowBlocks } from "../decoder/cache_pools.ts";
import type { DecoderLimits, LengthLimit } from "../decoder/decoder.ts";
import { mostBlocks } from "./pool_size.ts";

const REASONS: Readonly<
  Record<LengthLimit | "model", { readonly why: string; readonly setting?: Setting }>
> = {
  model: { why: "as many as it was made for" },
  maxModelLength: { why: "as many as this server allows", setting: "maxModelLength" },
  kvCacheMb: { why: "as many as its memory for keys and values holds", setting: "kvCacheMb" },
  buffer: { why: "as many as a buffer of its device holds", setting: "kvCacheDtype" },
  memory: { why: "as many as the free memory has room for", setting: "kvCacheDtype" },
};

/** The longest sequences: what the context and the largest pools hold. */
export class LengthLimits {
  readonly #limits: DecoderLimits;
  /** Blocks that each pool can be given: the main one, then those of windows. */
  readonly #mostBlocks: number[];

  constructor(limits: DecoderLimits) {
    this.#limits = limits;
    this.#mostBlocks = [limits, ...limits.windows ?? []].map(mostBlocks);
  }

  /** Sets how many blocks a pool can be given; 0 is the main one, the others are those of windows. */
  setPool(pool: number, mostBlocks: number): void {
    this.#mostBlocks[pool] = mostBlocks;
  }

  /** Most tokens of prompt and completion in one sequence. */
  get longest(): number {
    // The last token of a completion is never computed, so it needs no slot.
    return Math.min(this.#limits.contextLength, this.mostComputed + 1);
  }

  /** Most tokens of a sequence that the pools hold. One that holds a window and a token more holds any sequence. */
  get mostComputed(): number {
    const { blockSize, windows = [] } = this.#limits;
    const [main, ...ofWindows] = this.#mostBlocks as [number, ...number[]];
    const short = ofWindows.filter((most, i) =>
      most < mostWindowBlocks({ blockSize, window: windows[i]!.window, maxBatchTokens: 1 })
    );
    return Math.min(main, ...short) * blockSize;
  }

  /** Most tokens of a prompt that at most `maxTokens` follow. */
  longestPrompt(maxTokens: number): number {
    if (maxTokens > 0) return this.longest - 1;
    return Math.min(this.#limits.contextLength, this.mostComputed);
  }

  /** The error `context_length_exceeded`. */
  tooLong(numPromptTokens: number, maxTokens = Infinity): HearthError {
    const wantsAnswer = maxTokens > 0;
    const most = wantsAnswer ? this.longest : this.longestPrompt(0);
    const { contextLength, lengthLimit } = this.#limits;
    const reason = most < contextLength ? "memory" : lengthLimit;
    const answer = wantsAnswer ? ", and the answer takes one at least" : "";
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
