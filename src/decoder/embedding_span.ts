/**
 * Tokens whose embeddings an encoder makes: they stand where a picture is to be seen.
 *
 * @module
 */
import type { Tensor } from "../onnx/ort.ts";

/** What an encoder makes of one picture. */
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

/** The rows of one sequence could not be made; the others of the step are not to blame. */
export class EmbeddingError extends Error {
  override readonly name = "EmbeddingError";
  readonly sequenceId: number;

  /** @param cause what the source threw. */
  constructor(sequenceId: number, cause: unknown) {
    super(`The embeddings of sequence ${sequenceId} could not be made.`, { cause });
    this.sequenceId = sequenceId;
  }
}
