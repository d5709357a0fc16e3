/**
 * The error for rows without a token to choose.
 *
 * @module
 */

/** Thrown when all tokens of some rows are masked out, or their logits are NaN or -infinity. */
export class NothingToSampleError extends Error {
  override readonly name = "NothingToSampleError";
  /** Indices of these rows in the call. */
  readonly rows: readonly number[];

  constructor(rows: readonly number[]) {
    super(
      `No token can be sampled for row ${rows.join(", ")}: each logit is NaN or -infinity, ` +
        "or the token mask and the biases exclude it.",
    );
    this.rows = rows;
  }
}
