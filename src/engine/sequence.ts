import type { EmbeddingSource } from "../decoder/embedding_span.ts";
import { Int32List } from "./int32_list.ts";
import { PromptScoring } from "./prompt_scoring.ts";
import { type SamplingOptions, SamplingState } from "./sampling_state.ts";

/**
 * - `waiting`: in the queue, new or preempted; holds no block.
 * - `running`: holds blocks and takes part in steps.
 * - `ended`: finished or cancelled; holds nothing.
 */
type SequenceStatus = "waiting" | "running" | "ended";

/** Where media (an image, a sound) stand in a prompt: their placeholder tokens do not tell them apart. */
export interface MediaSpan {
  /** First placeholder token. */
  readonly start: number;
  /** One past the last placeholder token. */
  readonly end: number;
  /** Identifies the media: equal keys, equal content (a digest of the bytes and of their preprocessing). */
  readonly key: string;
  /** Supplies the placeholders' embeddings, one row per token. */
  readonly source?: EmbeddingSource | undefined;
  /** The source's row for the first placeholder. */
  readonly firstRow?: number | undefined;
}

/** Positions of a sequence's tokens for a rotary embedding in sections: time, height, width. */
export interface SectionPositions {
  /** i32 `[promptTokens]` each. */
  readonly prompt: readonly [Int32Array, Int32Array, Int32Array];
  /** Added, in all sections, to the index of each token after the prompt. */
  readonly offset: number;
}

/** A sequence's blocks in layers with a window. */
export interface WindowTable {
  /** The blocks in order; those before `first` were given back. */
  readonly blockIds: Int32List;
  first: number;
}

/** What a sequence is made from. */
export interface SequenceOptions extends SamplingOptions {
  readonly id: number;
  /** The same for all samples of one request. */
  readonly requestId: number;
  /** Only sequences of the same scope share blocks: 0 for all, or one of its own for each request. */
  readonly cacheScope: number;
  /** Copied. */
  readonly promptTokens: Int32Array;
  /** Most tokens of prompt and completion. */
  readonly maxLength: number;
  readonly media?: readonly MediaSpan[] | undefined;
  /** Positions of its tokens, if they differ from their indices. */
  readonly sectionPositions?: SectionPositions | undefined;
  /** Encoder input that its tokens attend to. */
  readonly encoderInput?: object | undefined;
  /** Score its prompt's tokens, with this many of the most likely ones each. */
  readonly promptLogprobs?: number | undefined;
}

/** The scope of long sequences that were made with a scope. */
export function longScope(scope: number): number {
  return -1 - scope;
}

/** One sequence of tokens that grows by a token at a time: a prompt and its completion. */
export class Sequence {
  readonly id: number;
  readonly requestId: number;
  /** The scope that it was made with. */
  readonly scope: number;
  readonly numPromptTokens: number;
  readonly media: readonly MediaSpan[];
  readonly sectionPositions: SectionPositions | undefined;
  readonly encoderInput: object | undefined;
  /** Prompt, then completion. */
  readonly tokens: Int32List;
  /** The blocks of the KV cache that hold its tokens, in order; kept by the block manager. */
  readonly blockIds = new Int32List();
  /** Its blocks in layers with a window, by window; kept by the block manager. */
  readonly windowTables: WindowTable[] = [];
  /** How its next token is chosen. */
  readonly sampling: SamplingState;
  /** Where its prompt's tokens are to be scored. */
  readonly scoring: PromptScoring | undefined;

  /** Most tokens of prompt and completion. */
  maxLength: number;
  status: SequenceStatus = "waiting";
  /** Leading tokens whose keys and values are in its blocks. */
  numComputed = 0;
  /** Leading blocks that are full and findable by other sequences. */
  numSealedBlocks = 0;
  /** The slot of what it keeps beside keys and values, while it runs. */
  stateSlot: number | undefined;
  /** Whether a step that has not been committed changes its state. */
  isComputing = false;
  /** Whether its tokens have the angles of long sequences: see `DecoderLimits.longFrom`. */
  isLong = false;
  /** Prompt tokens that were found in the cache when it first ran; `undefined` until then. */
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

  /** Only sequences of the same scope share blocks; keys with other angles are of another. */
  get cacheScope(): number {
    return this.isLong ? longScope(this.scope) : this.scope;
  }

  /** Tokens of prompt and completion. */
  get length(): number {
    return this.tokens.length;
  }

  /** Whether it has reached its maximum length. */
  get isFull(): boolean {
    return this.tokens.length >= this.maxLength;
  }

  /** @throws {RangeError} when the sequence is full. */
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
