/**
 * Dynamic time warping of a text along time: each token takes consecutive frames, in order. Pure.
 *
 * @see H. Sakoe, S. Chiba: Dynamic Programming Algorithm Optimization for Spoken Word Recognition, 1978
 * @module
 */

/** Alignment scores of tokens and frames. */
export interface Affinity {
  /** f32 `[numRows, numColumns]`, higher where a row belongs to a column. */
  readonly values: Float32Array;
  readonly numRows: number;
  readonly numColumns: number;
}

const BOTH = 0;
const NEXT_ROW = 1;
const NEXT_COLUMN = 2;

/**
 * The path from the first row and column to the last of both, by one row, one column or both at a time, whose values
 * have the largest sum.
 *
 * @returns the column in which each row begins, never falling; the first is 0.
 *
 * @example
 * ```ts
 * import { warpRows } from "./time_warp.ts";
 * const values = Float32Array.of(1, 1, 0, 0, 0, 1);
 * warpRows({ values, numRows: 2, numColumns: 3 }); // [0, 2]
 * ```
 */
export function warpRows({ values, numRows, numColumns }: Affinity): number[] {
  const steps = new Uint8Array(numRows * numColumns);
  let above = new Float64Array(numColumns);
  let own = new Float64Array(numColumns);
  for (let row = 0; row < numRows; row++) {
    for (let column = 0; column < numColumns; column++) {
      const position = row * numColumns + column;
      const fromBoth = row > 0 && column > 0 ? above[column - 1]! : -Infinity;
      const fromRow = row > 0 ? above[column]! : -Infinity;
      const fromColumn = column > 0 ? own[column - 1]! : -Infinity;
      const best = Math.max(fromBoth, fromRow, fromColumn);
      steps[position] = best === fromColumn ? NEXT_COLUMN : best === fromBoth ? BOTH : NEXT_ROW;
      own[column] = values[position]! + (position === 0 ? 0 : best);
    }
    [above, own] = [own, above];
  }
  const begins = Array<number>(numRows).fill(0);
  for (let row = numRows - 1, column = numColumns - 1; row > 0;) {
    const step = steps[row * numColumns + column];
    if (step !== NEXT_COLUMN) begins[row--] = column;
    if (step !== NEXT_ROW) column--;
  }
  return begins;
}
