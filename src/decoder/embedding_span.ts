/**
 * Tokens whose embeddings an encoder makes: they stand where an image is to be seen.
 *
 * @module
 */
import type { Tensor } from "../onnx/ort.ts";

/** What an encoder makes of one image. */
export interface EmbeddingSource {
  /**
   * Its rows, `[…, hidden]`, encoded now if they are not at hand. They may be gone after the next `await`.
   *
   * @throws what keeps them from being made.
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

/** What some sequences read besides tokens could not be encoded; the others of the step are not to blame. */
export class EncoderError extends Error {
  override readonly name = "EncoderError";
  readonly sequenceIds: readonly number[];

  /** @param cause what the encoder threw. */
  constructor(sequenceIds: readonly number[], cause: unknown) {
    super(`What sequences ${sequenceIds.join(", ")} read could not be encoded.`, { cause });
    this.sequenceIds = sequenceIds;
  }
}
