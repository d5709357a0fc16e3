/**
 * The sampler's input and result for one row of logits: shared by the `sample` kernel, its CPU reference and everything
 * above them.
 *
 * @module
 */

import type { TokenRule } from "./token_rule.ts";

/** How the next token of one sequence is chosen. All values have been validated. */
export interface SamplingParams {
  /** 0 means greedy: the exact argmax, with the lowest token id among equals. */
  readonly temperature: number;
  /** Keep the `topK` most likely tokens; 0 keeps all. */
  readonly topK: number;
  /** Keep the smallest set of most likely tokens whose probability reaches `topP`; 1 keeps all. */
  readonly topP: number;
  /** Keep tokens at least `minP` times as likely as the most likely one; 0 keeps all. */
  readonly minP: number;
  /**
   * Keep tokens whose logit is at most this many standard deviations of all logits below the largest; 0 or absent keeps
   * all.
   */
  readonly topNSigma?: number | undefined;
  /** Subtracted from a token's logit for each time it occurs in the completion. */
  readonly frequencyPenalty: number;
  /** Subtracted once from the logit of every token that occurs in the completion. */
  readonly presencePenalty: number;
  /** Positive logits of tokens in prompt or completion are divided by it, negative ones multiplied; 1 turns it off. */
  readonly repetitionPenalty: number;
  /** Number of most recent tokens of prompt and completion that the repetition penalty applies to; all if absent. */
  readonly repetitionWindow?: number | undefined;
  /** Seed of this sequence's random stream, an unsigned 32-bit integer. */
  readonly seed: number;
}

/** Always the most likely token: nothing cut off, nothing penalised. */
export const GREEDY: SamplingParams = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repetitionPenalty: 1,
  seed: 0,
};

/**
 * Tokens of a row whose logits change before sampling, each at most once, as a structure of arrays. The first `length`
 * entries are valid; the owner reuses the arrays between steps.
 */
export interface TokenAdjustments {
  readonly length: number;
  /** u32 token ids. */
  readonly tokenIds: Uint32Array;
  /** How often each token occurs in the completion. */
  readonly completionCounts: Uint32Array;
  /**
   * 1 if the repetition penalty applies, since the token occurs in prompt or completion (within the window); else 0.
   */
  readonly inContext: Uint32Array;
  /** Added to the logit after the penalties. */
  readonly bias: Float32Array;
}

/** One row of logits to sample from. */
export interface SampleRow {
  readonly params: SamplingParams;
  /** Index within its completion of the token to choose: the counter of the random stream. */
  readonly tokenIndex: number;
  /** Penalties and biases by token; absent if there are none. */
  readonly adjustments?: TokenAdjustments | undefined;
  /** Token `t` is allowed if bit `t` of word `t >> 5` is set. u32 `[ceil(vocabSize / 32)]`. */
  readonly mask?: Uint32Array | undefined;
  /** Whisper's rules for the row, if they are applied before sampling. */
  readonly rule?: TokenRule | undefined;
  /**
   * How many of the most likely tokens to report with their log-probabilities, 0 to 20; if absent, no
   * log-probabilities.
   */
  readonly topLogprobs?: number | undefined;
}

/** A chosen token. Log-probabilities are the model's among allowed tokens, before penalties, bias and temperature. */
export interface SampledToken {
  readonly tokenId: number;
  /** `undefined` if the row does not request it. */
  readonly logprob: number;
  /** Most likely first; as many as requested, or all that are allowed. */
  readonly top: readonly { readonly tokenId: number; readonly logprob: number }[];
}
