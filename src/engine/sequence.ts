/**
 * A request to the engine, and the sequences that it generates.
 *
 * @module
 */
import {
  type EmbeddingSource,
  GREEDY,
  type SampledToken,
  type SampleRow,
  type SamplingParams,
} from "../decoder/decoder.ts";
import { Int32List } from "./int32_list.ts";
import { type SamplingOptions, SamplingState } from "./sampling_state.ts";
import type { DryOptions, TokenRules } from "./token_rules.ts";
import type { Grammar } from "./grammar/grammar.ts";

/**
 * Status of a sequence:
 *
 * - `waiting`: in the queue, new or preempted; holds no blocks.
 * - `running`: holds blocks and takes part in steps.
 * - `ended`: finished or cancelled; holds nothing.
 */
type SequenceStatus = "waiting" | "running" | "ended";

/** The position of media (an image, a sound) in a prompt. Different media may have equal placeholder tokens. */
export interface MediaSpan {
  /** First placeholder token. */
  readonly start: number;
  /** Index after the last placeholder token. */
  readonly end: number;
  /** A digest of the media's bytes and preprocessing: equal keys mean equal content. */
  readonly key: string;
  /** Supplies the placeholders' embeddings, one row per token. */
  readonly source?: EmbeddingSource | undefined;
  /** Row of the source for the first placeholder. */
  readonly firstRow?: number | undefined;
}

/** Positions of a sequence's tokens for a rotary embedding in sections: time, height, width. */
export interface SectionPositions {
  /** Positions of the prompt's tokens, i32 `[promptTokens]` for each section. */
  readonly prompt: readonly [Int32Array, Int32Array, Int32Array];
  /** Difference, in all sections, between position and index of the tokens after the prompt. */
  readonly offset: number;
}

/** The blocks of a sequence in layers with a window. */
export interface WindowTable {
  /** The blocks in order; those before `first` have been released. */
  readonly blockIds: Int32List;
  first: number;
}

export interface SequenceOptions extends SamplingOptions {
  readonly id: number;
  /** Id of the request, shared by its samples. */
  readonly requestId: number;
  /**
   * Only sequences of the same scope share blocks. The scope is 0 for requests that share blocks with others; any other
   * request has a scope of its own.
   */
  readonly cacheScope: number;
  /** Token ids of the prompt, which are copied. */
  readonly promptTokens: Int32Array;
  /** Maximum number of tokens of prompt and completion. */
  readonly maxLength: number;
  readonly media?: readonly MediaSpan[] | undefined;
  /** Positions of the tokens, if they differ from their indices. */
  readonly sectionPositions?: SectionPositions | undefined;
  /** Encoder input that the tokens attend to. */
  readonly encoderInput?: object | undefined;
  /** How many of the most likely tokens to report for each token of the prompt; if absent, the prompt is not scored. */
  readonly promptLogprobs?: number | undefined;
}

/** The cache scope of sequences that have become long, by the scope that they were created with. */
export function toLongScope(scope: number): number {
  return -1 - scope;
}

/** A sequence of tokens: a prompt, then its completion, which grows by one token at a time. */
export class Sequence {
  readonly id: number;
  readonly requestId: number;
  /** The scope that the sequence was created with. */
  readonly scope: number;
  readonly numPromptTokens: number;
  readonly media: readonly MediaSpan[];
  readonly sectionPositions: SectionPositions | undefined;
  readonly encoderInput: object | undefined;
  /** Prompt, then completion. */
  readonly tokens: Int32List;
  /** The blocks of the KV cache that hold the tokens, in order. Maintained by the block manager. */
  readonly blockIds = new Int32List();
  /** The blocks in layers with a window, for each window pool. Maintained by the block manager. */
  readonly windowTables: WindowTable[] = [];
  /** Decides how the next token is chosen. */
  readonly sampling: SamplingState;
  /** Tracks the scoring of the prompt; absent if it is not scored. */
  readonly scoring: PromptScoring | undefined;

  /** Maximum number of tokens of prompt and completion. */
  maxLength: number;
  status: SequenceStatus = "waiting";
  /** Leading tokens whose keys and values are in the blocks. */
  numComputed = 0;
  /** Leading blocks that are full and findable by other sequences. */
  numSealedBlocks = 0;
  /** Slot of the recurrent state, while the sequence runs. */
  stateSlot: number | undefined;
  /** Whether a step that has not been committed changes the state. */
  isComputing = false;
  /** Whether the tokens have the rotation angles of long sequences: see `DecoderLimits.longFrom`. */
  isLong = false;
  /** Prompt tokens found in the cache when the sequence first ran; `undefined` until then. */
  numCachedTokens: number | undefined;

  constructor(options: SequenceOptions) {
    this.id = options.id;
    this.requestId = options.requestId;
    this.scope = options.cacheScope;
    this.numPromptTokens = options.promptTokens.length;
    this.maxLength = options.maxLength;
    this.media = options.media ?? [];
    this.sectionPositions = options.sectionPositions;
    this.encoderInput = options.encoderInput;
    this.tokens = new Int32List(options.promptTokens);
    this.sampling = new SamplingState(options.promptTokens, options);
    const { promptLogprobs } = options;
    this.scoring = promptLogprobs === undefined
      ? undefined
      : new PromptScoring(options.promptTokens.slice(), promptLogprobs);
  }

  /** Only sequences of the same scope share blocks. Keys with the angles of long sequences belong to another scope. */
  get cacheScope(): number {
    return this.isLong ? toLongScope(this.scope) : this.scope;
  }

  /** Tokens of prompt and completion. */
  get length(): number {
    return this.tokens.length;
  }

  /** Whether it has reached its maximum length. */
  get isFull(): boolean {
    return this.tokens.length >= this.maxLength;
  }

  /** Appends a token. @throws {RangeError} when the sequence is full. */
  push(tokenId: number): void {
    if (this.isFull) {
      throw new RangeError(
        `Sequence ${this.id} has all of its ${this.maxLength} tokens and should have been finished.`,
      );
    }
    this.tokens.push(tokenId);
    this.sampling.push(tokenId);
  }
}

/** A prompt, and how its completions are generated. */
export interface GenerationRequest {
  /** Token ids of the prompt, which the engine copies. */
  readonly promptTokens: Int32Array;
  /** Sampling parameters, one per completion, each with its own seed. The completions share the prompt's blocks. */
  readonly samples: readonly SamplingParams[];
  /**
   * Maximum number of tokens per completion; up to the end of the context if absent. With 0 the prompt may fill the
   * whole context; one token is still sampled, and ends the completion.
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
   * runs. While its keys and values are kept, the same object is not encoded again.
   */
  readonly encoderInput?: object | undefined;
  /** Creates the token rules of each sample. */
  readonly rules?: ((sampleIndex: number) => TokenRules) | undefined;
}

/** A bias larger than any difference of logits: greedy sampling always chooses the token that has it. */
const CERTAIN = 1e30;

/**
 * Tracks which tokens of a prompt have been scored (`prompt_logprobs`). Each token but the first is scored with the row
 * of logits of the token before it.
 */
class PromptScoring {
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

  /** Number of tokens, beginning at `start`, that a step may compute if it can return `maxRows` rows of logits. */
  maxTokens(start: number, maxRows: number): number {
    if (this.#numScored >= this.#tokens.length - 1) return Infinity;
    return Math.max(0, this.#numScored - start) + maxRows;
  }

  /**
   * Makes the rows of logits that score the prompt when tokens `start` to `end` are computed. The row of the prompt's
   * last token is not among them.
   */
  rows(start: number, end: number): SampleRow[] {
    const first = Math.max(start, this.#numScored);
    const last = Math.min(end, this.#tokens.length - 1);
    return Array.from(
      { length: Math.max(0, last - first) },
      (_, i) => makeRow(this.#tokens[first + i + 1]!, this.#topLogprobs),
    );
  }

  /** Takes the sampler's result for the next row. @returns the result for the token that the row scores. */
  take<Token extends SampledToken>(sampled: Token): Token {
    const tokenId = this.#tokens[++this.#numScored]!;
    // A token whose logit is -infinity is not chosen whatever its bias.
    return sampled.tokenId === tokenId ? sampled : { ...sampled, tokenId, logprob: -Infinity };
  }
}

/** Makes a row that always chooses the given token. Its log-probability is the model's own, which ignores biases. */
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
