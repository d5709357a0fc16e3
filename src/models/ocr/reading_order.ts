/**
 * Boxes of text in reading order: rows from the top, in each from the left. Pure.
 *
 * @module
 */

/** A box with upright sides. */
export interface UprightBox {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Least vertical overlap of boxes in one row, as a share of the lower one's height. */
const SHARED_HEIGHT = 0.5;

/**
 * The boxes' rows.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const box = (left: number, top: number) => ({ left, top, right: left + 40, bottom: top + 10 });
 * const [price, below, name] = [box(60, 2), box(0, 20), box(0, 0)];
 * assert.deepEqual(rowsOf([price, below, name], (it) => it), [[name, price], [below]]);
 * ```
 */
export function rowsOf<T>(items: readonly T[], boxOf: (item: T) => UprightBox): T[][] {
  const middle = (item: T) => boxOf(item).top + boxOf(item).bottom;
  const rows: T[][] = [];
  for (const item of items.toSorted((a, b) => middle(a) - middle(b))) {
    const row = rows.at(-1);
    if (row?.some((other) => isBeside(boxOf(item), boxOf(other)))) row.push(item);
    else rows.push([item]);
  }
  return rows.map((row) => row.toSorted((a, b) => boxOf(a).left - boxOf(b).left));
}

/** Whether two boxes are in one row. */
function isBeside(a: UprightBox, b: UprightBox): boolean {
  const shared = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  const lower = Math.min(a.bottom - a.top, b.bottom - b.top);
  return shared >= SHARED_HEIGHT * lower;
}
