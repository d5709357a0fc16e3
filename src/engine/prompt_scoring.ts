/**
 * Log-probabilities of a prompt's tokens (`prompt_logprobs`).
 *
 * @module
 */
import { GREEDY, type SampledToken, type SampleRow } from "../decoder/decoder.ts";

/** Larger than any difference of logits, so that greedy sampling chooses the token with this bias. */
const CERTAIN = 1e30;

/**
 * Tracks which tokens of a prompt have been scored. Each token but the first is scored with the row of logits of the
 * token before it.
 */
export class PromptScoring {
  readonly #tokens: Int32Array;
  readonly #topLogprobs: number;
  /** Leading tokens whose rows were seen. After a preemption they are computed again, but not scored again. */
  #numScored = 0;

  /**
   * @param promptTokens not copied.
   * @param topLogprobs how many of the most likely tokens to report for each, 0 to 20.
   */
  constructor(promptTokens: Int32Array, topLogprobs: number) {
    this.#tokens = promptTokens;
    this.#topLogprobs = topLogprobs;
  }

  /** How many tokens from `start` on a step may compute if it can return `maxRows` rows of logits. */
  maxTokens(start: number, maxRows: number): number {
    if (this.#numScored >= this.#tokens.length - 1) return Infinity;
    return Math.max(0, this.#numScored - start) + maxRows;
  }

  /**
   * The rows to score when tokens `start` to `end` are computed: the last ones, but not that of the prompt's last
   * token.
   */
  rows(start: number, end: number): SampleRow[] {
    const first = Math.max(start, this.#numScored);
    const last = Math.min(end, this.#tokens.length - 1);
    return Array.from(
      { length: Math.max(0, last - first) },
      (_, i) => makeRow(this.#tokens[first + i + 1]!, this.#topLogprobs),
    );
  }

  /** Takes the sampler's result for the next row. @returns the result for the prompt's token. */
  take<Token extends SampledToken>(sampled: Token): Token {
    const tokenId = this.#tokens[++this.#numScored]!;
    // No bias makes a token likely whose logit is -infinity.
    return sampled.tokenId === tokenId ? sampled : { ...sampled, tokenId, logprob: -Infinity };
  }
}

/** Makes a row that chooses a given token. The log-probability is the model's own, because it ignores biases. */
function makeRow(tokenId: number, topLogprobs: number): SampleRow {
  return {
    params: GREEDY,
    tokenIndex: 0,
    topLogprobs,
    adjustments: {
      length: 1,
      tokenIds: Uint32Array.of(tokenId),
      completionCounts: new Uint32Array(1),
      inContext: new Uint32Array(1),
      bias: Float32Array.of(CERTAIN),
    },
  };
}
