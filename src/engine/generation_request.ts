/**
 * What the engine is asked to generate.
 *
 * @module
 */
import type { SamplingParams } from "../decoder/decoder.ts";
import type { DryOptions } from "./dry_penalty.ts";
import type { Grammar } from "./grammar/grammar.ts";
import type { MediaSpan, SectionPositions } from "./sequence.ts";
import type { TokenRules } from "./token_rules.ts";

/** A prompt and the samples wanted of its completion. */
export interface GenerationRequest {
  /** Copied. */
  readonly promptTokens: Int32Array;
  /** One per completion wanted, each with its own seed; the completions share the prompt's blocks. */
  readonly samples: readonly SamplingParams[];
  /**
   * Most tokens per completion; to the end of the context when absent. With 0 the prompt alone may fill the context;
   * one token is sampled all the same, and the completion ends with it.
   */
  readonly maxTokens?: number | undefined;
  readonly logitBias?: ReadonlyMap<number, number> | undefined;
  /** A penalty on what would go on a repetition. */
  readonly dry?: DryOptions | undefined;
  /** None of `endTokenIds` is chosen until a completion has this many tokens. */
  readonly minTokens?: number | undefined;
  /** Tokens that would end a completion. */
  readonly endTokenIds?: readonly number[] | undefined;
  /** How many most likely tokens to report with each chosen one, 0 to 20; absent: no log-probabilities at all. */
  readonly topLogprobs?: number | undefined;
  /** Score the prompt's tokens, and report so many of the most likely with each, 0 to 20. */
  readonly promptLogprobs?: number | undefined;
  /** What each completion must match. */
  readonly grammar?: Grammar | undefined;
  /** Media spans in order, none within another. */
  readonly media?: readonly MediaSpan[] | undefined;
  /** Positions for a rotary embedding in sections; the indices in the sequence if absent. */
  readonly sectionPositions?: SectionPositions | undefined;
  /**
   * Encoder input that all tokens of the request attend to, for encoder-decoders. It is encoded when the request runs;
   * equal objects are encoded once, as long as their keys and values are kept.
   */
  readonly encoderInput?: object | undefined;
  /** Creates the token rules of each sample. */
  readonly rules?: ((sampleIndex: number) => TokenRules) | undefined;
}
