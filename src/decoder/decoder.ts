/**
 * The interface of decoders. The engine makes a decoder run a packed step of many sequences, and choose their next
 * tokens.
 *
 * @module
 */
import type { SampledToken, SampleRow } from "../../kernels/sample/sample_row.ts";
import type { SavedState } from "../../kernels/states/state_step.ts";
import type { Tensor } from "../device/ort/ort.ts";

export { GREEDY } from "../../kernels/sample/sample_row.ts";

export type {
  SampledToken,
  SampleRow,
  SamplingParams,
  TokenAdjustments,
} from "../../kernels/sample/sample_row.ts";

/** The reason why sequences must be shorter than those that the model was trained for. */
export type LengthLimit = "maxModelLength" | "kvCacheMb" | "memory" | "buffer";

/** Sizes of a pool of blocks of the KV cache. */
export interface PoolLimits {
  /** Number of blocks at the start. */
  readonly numBlocks: number;
  /** Number of blocks up to which the pool grows rather than evict cached prefixes; `numBlocks` if absent. */
  readonly roomyBlocks?: number | undefined;
  /** Number of blocks up to which the pool grows if sequences need them; `numBlocks` if absent. */
  readonly maxBlocks?: number | undefined;
}

/** Sizes of the pool for layers with one window size. */
export interface WindowLimits extends PoolLimits {
  /** Tokens that a token attends to in these layers, including itself. */
  readonly window: number;
}

/**
 * The limits of a decoder, which do not change after it is loaded. The pool sizes are those for layers that attend to
 * the whole sequence.
 */
export interface DecoderLimits extends PoolLimits {
  /** Maximum number of tokens of prompt and completion in one sequence. */
  readonly contextLength: number;
  /** Context length that the model was trained for; `contextLength` if absent. */
  readonly modelLength?: number | undefined;
  readonly vocabSize: number;
  /** Maximum number of sequences in one step, and of rows of logits. */
  readonly maxSequences: number;
  /** Maximum number of tokens in one step, over all sequences. */
  readonly maxBatchTokens: number;
  /** Pools for layers with a sliding window; none if absent. */
  readonly windows?: readonly WindowLimits[] | undefined;
  /**
   * The reason for the limit on the length of sequences; if absent, the limit is the length that the model was trained
   * for.
   */
  readonly lengthLimit?: LengthLimit | undefined;
  /** Tokens per block. */
  readonly blockSize: number;
  /** Whether several sequences may refer to one block (prefix caching). */
  readonly sharesBlocks: boolean;
  /** Longest sequence that uses the rotation angles for short ones: see `GraphCut.longFrom`. */
  readonly longFrom?: number | undefined;
  /** Number of slots for recurrent states; absent if sequences have none. */
  readonly numStateSlots?: number | undefined;
}

/** The part of one sequence in a step. */
export interface StepSequence {
  readonly sequenceId: number;
  /** Whether the sequence computes only the token that was chosen last, and none of its prompt. */
  readonly isDecoding?: boolean | undefined;
  /** Present if this step computes the sequence's last token, so that a new one is sampled. */
  readonly sample?: SampleRow | undefined;
  /** Further rows of logits to compute, for tokens before the one that samples; none if absent. */
  readonly scored?: readonly SampleRow[] | undefined;
  /**
   * Input of the encoder that the sequence's tokens attend to. Sequences with the same object share keys and values.
   */
  readonly encoderInput?: object | undefined;
  /** Slot with the keys and values of that input, which the decoder assigns. */
  readonly encoderSlot?: number | undefined;
  /** Slot in which the recurrent state after some of its tokens is saved; if absent, only the last state is kept. */
  readonly savedState?: SavedState | undefined;
}

/**
 * One scheduled step: the tokens of all its sequences, packed on one axis. The typed arrays belong to the caller, may
 * be longer than their valid part, and are reused after `run` resolves.
 */
export interface StepBatch {
  readonly sequences: readonly StepSequence[];
  readonly numTokens: number;
  /** Token ids: i32 `[numTokens]`. */
  readonly tokenIds: Int32Array;
  /** Position of each token in its own sequence: i32 `[numTokens]`. */
  readonly positions: Int32Array;
  /** Row of each token in rotary tables: i32 `[numTokens]`; absent when all equal `positions`. */
  readonly anglePositions?: Int32Array | undefined;
  /**
   * Position of each token in its completion, counted from 1; 0 or less for tokens of the prompt: i32 `[numTokens]`.
   */
  readonly completionPositions?: Int32Array | undefined;
  /**
   * Positions for a rotary embedding in sections (time, height, width): i32 `[numTokens]` each; absent when all three
   * equal `positions`.
   */
  readonly sectionPositions?: readonly [Int32Array, Int32Array, Int32Array] | undefined;
  /** Packed tokens whose embeddings come from an encoder, in order; absent when there are none. */
  readonly embeddings?: readonly EmbeddingSpan[] | undefined;
  /**
   * Sequence `s` has the tokens from `queryStarts[s]` to `queryStarts[s + 1]`, excluded: i32 `[sequences.length + 1]`.
   */
  readonly queryStarts: Int32Array;
  /** Number of keys that each sequence has after this step, including its new tokens: i32 `[sequences.length]`. */
  readonly kvLengths: Int32Array;
  /** Blocks of each sequence in order: i32 `[sequences.length, maxBlocksPerSequence]`, row-major. */
  readonly blockTables: Int32Array;
  /** Block tables for each of the decoder's windows. Entries of blocks that have left the window are meaningless. */
  readonly windowTables?: readonly Int32Array[] | undefined;
  readonly maxBlocksPerSequence: number;
  /** Slot of each sequence's state, if the model has any: i32 `[sequences.length]`; slots 0, 1, 2 … if absent. */
  readonly stateSlots?: Int32Array | undefined;
  /** Copies between state slots to make before the step, in order. */
  readonly stateCopies?: readonly { readonly from: number; readonly to: number }[] | undefined;
}

/** Lists the rows of logits that a sequence needs: those of its last tokens in the step. */
export function listRows({ scored = [], sample }: StepSequence): readonly SampleRow[] {
  return sample === undefined ? scored : [...scored, sample];
}

/** Suspends a prefill step between its parts, and runs decode steps in the meantime. */
export interface Suspension {
  /** Milliseconds until the step should be suspended; infinite while no sequence waits for a next token. */
  readonly remainingMs: number;
  /**
   * Called when a part of the step has run, or was queued on the device.
   *
   * @param nextMs least duration of the next part; 0 if absent.
   * @returns a promise that resolves when the step may continue; `undefined` if it may continue at once.
   * @throws {Error} when the step must be given up.
   */
  endPart(nextMs?: number): Promise<void> | undefined;
}

/** The limits within which a decoder makes room for next tokens while it reads a prompt. */
export interface SuspensionLimits {
  /** Maximum number of prompt tokens that a step can compute together with next tokens without taking much longer. */
  readonly mostBeside: number;
  /** Whether the device works asynchronously, so that the host cannot measure how long a part of a step takes. */
  readonly isQueued: boolean;
}

/** A loaded decoder. `Token` is the result for a row of logits. */
export interface Decoder<Token extends SampledToken = SampledToken> {
  readonly limits: DecoderLimits;
  /** Absent if steps cannot be suspended. */
  readonly suspension?: SuspensionLimits | undefined;
  /** Length of a prompt that makes the device compile the programs that most prompts need; 24 if absent. */
  readonly warmUpTokens?: number | undefined;
  /**
   * Runs a step, writes its keys and values, and samples. Only one step runs at a time, except for decode steps while a
   * prefill step is suspended.
   *
   * @param suspension present for a prefill step, which only reads prompts.
   * @returns the tokens chosen from the requested rows, at most `limits.maxSequences`, in the order of
   * `batch.sequences`.
   * @throws {DeviceLostError} when the device is lost; the decoder is then unusable.
   */
  run(batch: StepBatch, suspension?: Suspension): Promise<Token[]>;
  /**
   * Changes the number of blocks of a pool of the KV cache, and keeps the content of blocks that remain. Called between
   * steps, and while a step is suspended.
   *
   * @param pool 0 is the main one, the others are those of `limits.windows`.
   * @returns false if the device has no memory for it, in which case the cache is unchanged. A decoder without this
   * method has a cache of fixed size.
   */
  resizeCache?(numBlocks: number, pool: number): Promise<boolean>;
  /** Frees all device memory. */
  dispose(): Promise<void>;
}

/** The encoder's output for one image or recording. */
export interface EmbeddingSource {
  /**
   * The output's rows, `[…, hidden]`, which are encoded now unless they are cached. They may be freed after the next
   * `await`.
   *
   * @throws the encoder's error.
   */
  rows(): Promise<Tensor>;
}

/** Tokens of one sequence in a step that take their embeddings from a source, one row each. */
export interface EmbeddingSpan {
  readonly sequenceId: number;
  /** Index of the first token among the packed tokens of the step. */
  readonly firstToken: number;
  readonly numTokens: number;
  readonly source: EmbeddingSource;
  /** Row of the source for the first token. */
  readonly firstRow: number;
}

/** The media of some sequences could not be encoded. Other sequences in the step are not affected. */
export class EncoderError extends Error {
  override readonly name = "EncoderError";
  readonly sequenceIds: readonly number[];

  /** @param cause what the encoder threw. */
  constructor(sequenceIds: readonly number[], cause: unknown) {
    super(`The input of sequences ${sequenceIds.join(", ")} could not be encoded.`, { cause });
    this.sequenceIds = sequenceIds;
  }
}
