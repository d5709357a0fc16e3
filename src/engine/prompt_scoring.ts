/**
 * Log-probabilities of a prompt's tokens (`prompt_logprobs`).
 *
 * @module
 */
import { GREEDY, type SampledToken, type SampleRow } from "../decoder/decoder.ts";

/** Larger than any difference of logits, so that greedy sampling chooses the token with this bias. */
const CERTAIN = 1e30;

/** Which tokens of one prompt are yet to be scored. Each but the first is, by the row of logits of the one before it. */
export class PromptScoring {
  readonly #tokens: Int32Array;
  readonly #topLogprobs: number;
  /** Leading tokens whose rows have been seen; one that is preempted computes them again, and is not scored twice. */
  #numScored = 0;

  /** @param promptTokens not copied. @param topLogprobs how many most likely tokens to report with each, 0 to 20. */
  constructor(promptTokens: Int32Array, topLogprobs: number) {
    this.#tokens = promptTokens;
    this.#topLogprobs = topLogprobs;
  }

  /** How many tokens from `start` on a step may compute, of which it can give `maxRows` rows of logits. */
  maxTokens(start: number, maxRows: number): number {
    if (this.#numScored >= this.#tokens.length - 1) return Infinity;
    return Math.max(0, this.#numScored - start) + maxRows;
  }

  /** The rows that are scored when tokens `start` to `end` are computed: their last, but for the prompt's last. */
  rows(start: number, end: number): SampleRow[] {
    const first = Math.max(start, this.#numScored);
    const last = Math.min(end, this.#tokens.length - 1);
    return Array.from(
      { length: Math.max(0, last - first) },
      (_, i) => makeRow(this.#tokens[first + i + 1]!, this.#topLogprobs),
    );
  }

  /** Takes the sampler's result for the next row. @returns the same, of the prompt's token. */
  take<Token extends SampledToken>(sampled: Token): Token {
    const tokenId = this.#tokens[++this.#numScored]!;
    // Nothing makes a token likely whose logit is -infinity.
    return sampled.tokenId === tokenId ? sampled : { ...sampled, tokenId, logprob: -Infinity };
  }
}

/** A row that chooses a given token; its log-probability is the model's own, as the bias does not count in it. */
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
