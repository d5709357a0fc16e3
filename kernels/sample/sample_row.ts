/**
 * The sampler's input and result for one row of logits: shared by the `sample` kernel, its CPU reference and everything
 * above them.
 *
 * @module
 */

import type { TokenRule } from "./token_rule.ts";

/** How the next token of one sequence is chosen. All values are already validated. */
export interface SamplingParams {
  /** 0 is greedy: the exact argmax, the lowest token id among equals. */
  readonly temperature: number;
  /** Keep the `topK` most likely tokens; 0 keeps all. */
  readonly topK: number;
  /** Keep the smallest set of most likely tokens whose probability reaches `topP`; 1 keeps all. */
  readonly topP: number;
  /** Keep tokens at least `minP` times as likely as the most likely one; 0 keeps all. */
  readonly minP: number;
  /** Keep tokens whose logit is at most so many standard deviations of all logits below the largest; 0 or absent: all. */
  readonly topNSigma?: number | undefined;
  /** Added once per completion token that equals the candidate, subtracted from its logit. */
  readonly frequencyPenalty: number;
  /** Subtracted once from the logit of every token the completion already holds. */
  readonly presencePenalty: number;
  /** Divides positive and multiplies negative logits of tokens in prompt or completion; 1 is off. */
  readonly repetitionPenalty: number;
  /** Most recent tokens of prompt and completion that the repetition penalty applies to; all if absent. */
  readonly repetitionWindow?: number | undefined;
  /** Seed of this sequence's random stream, an unsigned 32-bit integer. */
  readonly seed: number;
}

/** The most likely token: nothing cut off, nothing penalised. */
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
 * Tokens of a row whose logits change before sampling, structure of arrays, each token at most once.
 * The first `length` entries are valid; the owner reuses the arrays between steps.
 */
export interface TokenAdjustments {
  readonly length: number;
  /** u32 token ids. */
  readonly tokenIds: Uint32Array;
  /** How often the completion holds the token. */
  readonly completionCounts: Uint32Array;
  /** 1 where the repetition penalty applies, as prompt or completion holds the token (within its window), else 0. */
  readonly inContext: Uint32Array;
  /** Added to the logit after the penalties. */
  readonly bias: Float32Array;
}

/** One row of logits to sample from. */
export interface SampleRow {
  readonly params: SamplingParams;
  /** Index of the token being chosen within its completion: the counter of the random stream. */
  readonly tokenIndex: number;
  /** Penalties and biases by token; absent when none applies. */
  readonly adjustments?: TokenAdjustments | undefined;
  /** Bit `t` of word `t >> 5` set: token `t` is allowed. u32 `[ceil(vocabSize / 32)]`. */
  readonly mask?: Uint32Array | undefined;
  /** Whisper's rules for the row, if its decoder applies them before sampling. */
  readonly rule?: TokenRule | undefined;
  /** How many most likely tokens to report with their log-probabilities, 0 to 20; absent: not the chosen one's either. */
  readonly topLogprobs?: number | undefined;
}

/** A chosen token. Log-probabilities are those of the model among allowed tokens: before penalties, bias and temperature. */
export interface SampledToken {
  readonly tokenId: number;
  /** Undefined if the row wants none. */
  readonly logprob: number;
  /** Most likely first; as many as wanted, or all that are allowed. */
  readonly top: readonly { readonly tokenId: number; readonly logprob: number }[];
}
