import assert from "node:assert/strict";
import { makeNormal } from "../../../kernels/exact_sampling.ts";
import { warpRows } from "../../../../src/models/asr/timed_words.ts";

function warp(rows: readonly (readonly number[])[]): number[] {
  return warpRows({
    values: Float32Array.from(rows.flat()),
    numRows: rows.length,
    numColumns: rows[0]!.length,
  });
}

Deno.test("warpRows() returns the column at which each row begins", () => {
  assert.deepEqual(warp([[9, 9, -1, -1], [-1, -1, 9, -1], [-1, -1, -1, 9]]), [0, 2, 3]);
  assert.deepEqual(warp([[1, 1, 1]]), [0]);
  assert.deepEqual(warp([[0], [1], [0]]), [0, 0, 0]);
  // The second row fits no column: it gets one that fits no other row.
  assert.deepEqual(warp([[5, 5, -9, -9], [-9, -9, -9, -9], [-9, -9, 5, 5]]), [0, 1, 2]);
});

/** The largest sum of all paths, by exhaustive search. */
function bestSum(rows: readonly (readonly number[])[], row = 0, column = 0): number {
  const own = rows[row]?.[column];
  if (own === undefined) return -Infinity;
  if (row === rows.length - 1 && column === rows[0]!.length - 1) return own;
  return own + Math.max(
    bestSum(rows, row + 1, column + 1),
    bestSum(rows, row + 1, column),
    bestSum(rows, row, column + 1),
  );
}

/** The largest sum of the paths whose rows begin in these columns. */
function computeSum(rows: readonly (readonly number[])[], begins: readonly number[]): number {
  let sum = 0;
  for (const [row, values] of rows.entries()) {
    const begin = begins[row]!;
    const next = begins[row + 1];
    // A row ends in the first column of the next row, or in the column before it.
    const last = next === undefined ? values.length - 1 : next - 1;
    for (let column = begin; column <= Math.max(begin, last); column++) sum += values[column]!;
    if (next !== undefined && next > begin && values[next]! > 0) sum += values[next]!;
  }
  return sum;
}

Deno.test("warpRows() finds the best of all paths", () => {
  const normal = makeNormal(5);
  for (let round = 0; round < 200; round++) {
    const [numRows, numColumns] = [1 + round % 4, 1 + Math.floor(round / 4) % 6];
    const rows = Array.from(
      { length: numRows },
      () => Array.from({ length: numColumns }, () => Math.fround(normal())),
    );
    const begins = warp(rows);
    assert.equal(begins[0], 0);
    assert.ok(begins.every((begin, row) => row === 0 || begin >= begins[row - 1]!));
    const want = bestSum(rows);
    assert.ok(
      Math.abs(computeSum(rows, begins) - want) < 1e-5,
      JSON.stringify({ rows, begins, want }),
    );
  }
});
