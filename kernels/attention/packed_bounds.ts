/**
 * The bounds of sequences that lie one after the other in a batch.
 *
 * @module
 */

/** The bounds of a batch. Sequences may share keys, and may have a different number of keys than of queries. */
export interface PackedBounds {
  readonly numSequences: number;
  /** i32 `[numSequences + 1]`: the first row of each sequence's queries, then the end. */
  readonly queryStarts: Int32Array;
  /** i32 `[numSequences]`: the row of each sequence's first key. */
  readonly keyStarts: Int32Array;
  /** i32 `[numSequences]`: the number of each sequence's keys, at least 1. */
  readonly keyLengths: Int32Array;
}

/** Limits for a batch. */
export interface PackedLimits {
  /** Most rows of queries. */
  readonly maxRows: number;
  readonly maxSequences: number;
}

/**
 * Bounds of sequences whose queries and keys are the same rows.
 *
 * @example
 * ```ts
 * import { selfBounds } from "./packed_bounds.ts";
 * import assert from "node:assert/strict";
 * assert.deepEqual([...selfBounds([3, 1]).queryStarts], [0, 3, 4]);
 * ```
 */
export function selfBounds(lengths: readonly number[]): PackedBounds {
  const queryStarts = new Int32Array(lengths.length + 1);
  lengths.forEach((length, s) => queryStarts[s + 1] = queryStarts[s]! + length);
  return {
    numSequences: lengths.length,
    queryStarts,
    keyStarts: queryStarts.subarray(0, lengths.length),
    keyLengths: Int32Array.from(lengths),
  };
}

/** Number of rows of queries in all sequences together. */
export function numQueryRows({ numSequences, queryStarts }: PackedBounds): number {
  return queryStarts[numSequences]!;
}
