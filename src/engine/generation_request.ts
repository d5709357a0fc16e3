/**
 * A request to the engine.
 *
 * @module
 */
import type { SamplingParams } from "../decoder/decoder.ts";
import type { DryOptions } from "./dry_penalty.ts";
import type { Grammar } from "./grammar/grammar.ts";
import type { MediaSpan, SectionPositions } from "./sequence.ts";
import type { TokenRules } from "./token_rules.ts";

/** A prompt, and the completions wanted of it. */
export interface GenerationRequest {
  /** Token ids of the prompt, which the engine copies. */
  readonly promptTokens: Int32Array;
  /** Sampling parameters, one per completion, each with its own seed. The completions share the prompt's blocks. */
  readonly samples: readonly SamplingParams[];
  /**
   * Most tokens per completion; up to the end of the context if absent. With 0 the prompt may fill the whole context;
   * one token is still sampled, and ends the completion.
   */
  readonly maxTokens?: number | undefined;
  readonly logitBias?: ReadonlyMap<number, number> | undefined;
  /** A penalty on tokens that would continue a repetition. */
  readonly dry?: DryOptions | undefined;
  /** Tokens that a completion must have before one of `endTokenIds` may be chosen. */
  readonly minTokens?: number | undefined;
  /** Tokens that end a completion. */
  readonly endTokenIds?: readonly number[] | undefined;
  /**
   * How many of the most likely tokens to report with each chosen one, 0 to 20; if absent, no log-probabilities are
   * reported.
   */
  readonly topLogprobs?: number | undefined;
  /**
   * How many of the most likely tokens to report with each token of the prompt, 0 to 20; if absent, the prompt is not
   * scored.
   */
  readonly promptLogprobs?: number | undefined;
  /** A grammar that each completion must match. */
  readonly grammar?: Grammar | undefined;
  /** Media spans, in order and without overlap. */
  readonly media?: readonly MediaSpan[] | undefined;
  /** Positions for a rotary embedding in sections; if absent, the indices in the sequence. */
  readonly sectionPositions?: SectionPositions | undefined;
  /**
   * For encoder-decoders: the encoder input that all tokens of the request attend to. It is encoded when the request
   * runs; the same object is only encoded once while its keys and values are kept.
   */
  readonly encoderInput?: object | undefined;
  /** Creates the token rules of each sample. */
  readonly rules?: ((sampleIndex: number) => TokenRules) | undefined;
}
