/**
 * Placeholder tokens whose embeddings come from an encoder, as those of an image.
 *
 * @module
 */
import type { Tensor } from "../device/ort/ort.ts";

/** The encoder's output for one image. */
export interface EmbeddingSource {
  /**
   * Its rows, `[…, hidden]`, encoded now unless they are cached. They may be gone after the next `await`.
   *
   * @throws the encoder's error.
   */
  rows(): Promise<Tensor>;
}

/** Tokens of one sequence in a step that take their embeddings from a source, one row each. */
export interface EmbeddingSpan {
  readonly sequenceId: number;
  /** The first of them among the packed tokens of the step. */
  readonly firstToken: number;
  readonly numTokens: number;
  readonly source: EmbeddingSource;
  /** The source's row for the first of them. */
  readonly firstRow: number;
}

/** The media of some sequences could not be encoded; the step's other sequences are not affected. */
export class EncoderError extends Error {
  override readonly name = "EncoderError";
  readonly sequenceIds: readonly number[];

  /** @param cause what the encoder threw. */
  constructor(sequenceIds: readonly number[], cause: unknown) {
    super(`What sequences ${sequenceIds.join(", ")} read could not be encoded.`, { cause });
    this.sequenceIds = sequenceIds;
  }
}
