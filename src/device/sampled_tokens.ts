/**
 * The tokens of a step that is sampled in several parts.
 *
 * @module
 */
import { NothingToSampleError } from "../../kernels/sample/sample_error.ts";
import type { SampledToken } from "../../kernels/sample/sample_row.ts";

/** Collects the tokens of all parts, and the rows of the step that allow no token. */
export class SampledTokens {
  readonly #tokens: SampledToken[] = [];
  readonly #empty: number[] = [];
  #numRows = 0;

  /** Adds a part with `numRows` rows. */
  add(numRows: number, sample: () => readonly SampledToken[]): void {
    try {
      this.#tokens.push(...sample());
    } catch (error) {
      if (!(error instanceof NothingToSampleError)) throw error;
      for (const row of error.rows) this.#empty.push(this.#numRows + row);
    }
    this.#numRows += numRows;
  }

  /** Returns all tokens. @throws {NothingToSampleError} when a row of any part allows no token. */
  finish(): SampledToken[] {
    if (this.#empty.length > 0) throw new NothingToSampleError(this.#empty);
    return this.#tokens;
  }
}
