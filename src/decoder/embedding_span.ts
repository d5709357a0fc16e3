/**
 * Placeholder tokens whose embeddings come from an encoder, such as those of an image.
 *
 * @module
 */
import type { Tensor } from "../device/ort/ort.ts";

/** The encoder's output for one image. */
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
  /** Index of the first one among the packed tokens of the step. */
  readonly firstToken: number;
  readonly numTokens: number;
  readonly source: EmbeddingSource;
  /** Row of the source for the first one. */
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
