/**
 * What the engine needs of a decoder: run one packed step for many sequences and choose their next tokens.
 *
 * @module
 */
import type { SampledToken, SampleRow } from "../../kernels/sample/sample_row.ts";
import type { EmbeddingSpan } from "./embedding_span.ts";

export { GREEDY } from "../../kernels/sample/sample_row.ts";

export type {
  SampledToken,
  SampleRow,
  SamplingParams,
  TokenAdjustments,
} from "../../kernels/sample/sample_row.ts";

/** What keeps sequences shorter than the model was made for: settings, or the memory for keys and values. */
export type LengthLimit = "maxModelLength" | "kvCacheMb" | "memory" | "buffer";

/** Sizes of a pool of blocks of the KV cache. */
export interface PoolLimits {
  /** Blocks at first. */
  readonly numBlocks: number;
  /** Blocks that it may be enlarged to rather than that known prefixes are given up; `numBlocks` if absent. */
  readonly roomyBlocks?: number | undefined;
  /** Most blocks that it may be enlarged to, where sequences need them; `numBlocks` if absent. */
  readonly maxBlocks?: number | undefined;
}

/** The pool of the layers with one window. At its largest it holds the window of a sequence and the tokens of a step. */
export interface WindowLimits extends PoolLimits {
  /** Tokens that a token sees in these layers, itself included. */
  readonly window: number;
}

/**
 * What a decoder can hold and run at once; fixed when it is loaded. The pool is that of the layers that see all of a
 * sequence.
 */
export interface DecoderLimits extends PoolLimits {
  /** Most tokens of prompt and completion in one sequence. */
  readonly contextLength: number;
  /** Tokens that the model was made for; `contextLength` if absent. */
  readonly modelLength?: number | undefined;
  readonly vocabSize: number;
  /** Most sequences in one step, and most rows of logits. */
  readonly maxSequences: number;
  /** Most tokens in one step, over all sequences. */
  readonly maxBatchTokens: number;
  /** Pools of layers that keep only the last tokens of a sequence; none if absent. */
  readonly windows?: readonly WindowLimits[] | undefined;
  /** Why sequences are not longer; as long as the model was made for if absent. */
  readonly lengthLimit?: LengthLimit | undefined;
  /** Tokens per block. */
  readonly blockSize: number;
  /** Whether several sequences may refer to one block (prefix caching). */
  readonly sharesBlocks: boolean;
  /** Tokens of the longest sequence whose angles are by position alone: see `GraphCut.longFrom`. */
  readonly longFrom?: number | undefined;
  /** Slots for what sequences keep beside keys and values; absent where they keep nothing else. */
  readonly numStateSlots?: number | undefined;
}

/** One sequence's share of a step. */
interface StepSequence {
  readonly sequenceId: number;
  /** Whether it computes the one token that was chosen last, and none of its prompt. */
  readonly isDecoding?: boolean | undefined;
  /** Present when this step computes the sequence's last token, so that a new one is sampled. */
  readonly sample?: SampleRow | undefined;
  /** Further rows wanted, of the tokens before the one that samples; none if absent. */
  readonly scored?: readonly SampleRow[] | undefined;
  /** Input of the encoder whose output its tokens attend to; equal objects share keys and values. */
  readonly encoderInput?: object | undefined;
  /** Where the keys and values of that input are; known where the step runs. */
  readonly encoderSlot?: number | undefined;
}

/**
 * One scheduled step: the tokens of all its sequences packed on one axis.
 * The typed arrays belong to the caller, may be longer than what is valid, and are reused after `run` resolves.
 */
export interface StepBatch {
  readonly sequences: readonly StepSequence[];
  readonly numTokens: number;
  /** i32 `[numTokens]`. */
  readonly tokenIds: Int32Array;
  /** i32 `[numTokens]`: position of each token in its own sequence. */
  readonly positions: Int32Array;
  /** i32 `[numTokens]`: row of each token in rotary tables; absent when all are `positions`. */
  readonly anglePositions?: Int32Array | undefined;
  /** i32 `[numTokens]`: position of each token in its completion, from 1 on; 0 and less in the prompt. */
  readonly completionPositions?: Int32Array | undefined;
  /**
   * Positions for a rotary embedding in sections (time, height, width), i32 `[numTokens]` each; absent when all three
   * equal `positions`.
   */
  readonly sectionPositions?: readonly [Int32Array, Int32Array, Int32Array] | undefined;
  /** Packed tokens whose embeddings an encoder supplies, in order; absent when there are none. */
  readonly embeddings?: readonly EmbeddingSpan[] | undefined;
  /** i32 `[sequences.length + 1]`: sequence `s` owns tokens `queryStarts[s]` to `queryStarts[s + 1]`. */
  readonly queryStarts: Int32Array;
  /** i32 `[sequences.length]`: keys each sequence sees after this step, its own new tokens included. */
  readonly kvLengths: Int32Array;
  /** i32 `[sequences.length, maxBlocksPerSequence]`, row-major: the blocks of each sequence in order. */
  readonly blockTables: Int32Array;
  /** The same for each of the decoder's windows; what stands for blocks that fell out of it means nothing. */
  readonly windowTables?: readonly Int32Array[] | undefined;
  readonly maxBlocksPerSequence: number;
  /** i32 `[sequences.length]`: the slot of each sequence's states, where it has such; absent: slots 0, 1, 2 … */
  readonly stateSlots?: Int32Array | undefined;
  /** Slots whose states others get before the step, in their order. */
  readonly stateCopies?: readonly { readonly from: number; readonly to: number }[] | undefined;
}

/** Number of rows of logits that a sequence wants: those of its last tokens in the step. */
export function listRows({ scored = [], sample }: StepSequence): readonly SampleRow[] {
  return sample === undefined ? scored : [...scored, sample];
}

/** Suspends a step of prompts between its parts, and runs steps of next tokens meanwhile. */
export interface Suspension {
  /** How long the step may go on until it is suspended, in milliseconds; infinite while nobody waits for a next token. */
  readonly remainingMs: number;
  /**
   * A part of the step has run, or was handed to the device.
   *
   * @param nextMs time that the next part takes at least; 0 if absent.
   * @returns when the step may go on; `undefined` if it may at once.
   * @throws {Error} when the step is given up.
   */
  endPart(nextMs?: number): Promise<void> | undefined;
}

/** How a decoder lets next tokens through while it reads a prompt. */
export interface SuspensionLimits {
  /** Tokens of prompts that a step computes beside next tokens in little more time. */
  readonly mostBeside: number;
  /** Whether the device runs behind the host, so that clocks do not tell how long a part of a step took. */
  readonly isQueued: boolean;
}

/** A loaded decoder. `Token` is the result for a sequence whose last token was computed. */
export interface Decoder<Token extends SampledToken = SampledToken> {
  readonly limits: DecoderLimits;
  /** Absent if steps are not suspended. */
  readonly suspension?: SuspensionLimits | undefined;
  /** Tokens of a prompt after which the device has compiled what most prompts need; 24 if absent. */
  readonly warmUpTokens?: number | undefined;
  /**
   * Runs the step, writes its keys and values, and samples. One runs at a time, except for steps of next tokens while one
   * of prompts is suspended.
   *
   * @param suspension for a step of prompts alone.
   * @returns what was chosen from the wanted rows, at most `limits.maxSequences`, in the order of `batch.sequences`.
   * @throws {DeviceLostError} when the device is gone; the decoder is of no further use then.
   */
  run(batch: StepBatch, suspension?: Suspension): Promise<Token[]>;
  /**
   * Changes the number of blocks of a pool of the KV cache; what the blocks hold that stay is kept. Called between steps,
   * and while one is suspended.
   *
   * @param pool 0 is the main one, the others are those of `limits.windows`.
   * @returns false if the device has no memory for it: the cache is as it was. A decoder without it keeps its size.
   */
  resizeCache?(numBlocks: number, pool: number): Promise<boolean>;
  /** Frees all device memory. */
  dispose(): Promise<void>;
}
