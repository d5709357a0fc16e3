/**
 * The error for rows without a token to choose.
 *
 * @module
 */

/** Every token of some rows is masked out, or their logits are NaN or -infinity. */
export class NothingToSampleError extends Error {
  override readonly name = "NothingToSampleError";
  /** Indices into the rows of the call. */
  readonly rows: readonly number[];

  constructor(rows: readonly number[]) {
    super(
      `No token can be sampled for row ${rows.join(", ")}: each logit is NaN or -infinity, ` +
        "or the token mask and the biases exclude it.",
    );
    this.rows = rows;
  }
}
