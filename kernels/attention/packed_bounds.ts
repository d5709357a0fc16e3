/**
 * Which rows belong together in a batch of sequences that lie one after the other.
 *
 * @module
 */

/** Bounds of a batch. Sequences may share keys, and need not have as many keys as queries. */
export interface PackedBounds {
  readonly numSequences: number;
  /** i32 `[numSequences + 1]`: the first row of each one's queries, and the end. */
  readonly queryStarts: Int32Array;
  /** i32 `[numSequences]`: the row of each one's first key. */
  readonly keyStarts: Int32Array;
  /** i32 `[numSequences]`, each at least 1. */
  readonly keyLengths: Int32Array;
}

/** The most a batch may hold. */
export interface PackedLimits {
  /** Rows of queries. */
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

/** Rows of queries, all sequences together. */
export function numQueryRows({ numSequences, queryStarts }: PackedBounds): number {
  return queryStarts[numSequences]!;
}
