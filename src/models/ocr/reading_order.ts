/**
 * Lines of text in reading order. Pure.
 *
 * @module
 */
import { distance, type LineBox, toAxes } from "./rotated_rectangle.ts";

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
 * assert.deepEqual(groupRows([price, below, name], (it) => it), [[name, price], [below]]);
 * ```
 */
export function groupRows<T>(items: readonly T[], getBox: (item: T) => UprightBox): T[][] {
  const middle = (item: T) => getBox(item).top + getBox(item).bottom;
  const rows: T[][] = [];
  for (const item of items.toSorted((a, b) => middle(a) - middle(b))) {
    const row = rows.at(-1);
    if (row?.some((other) => isBeside(getBox(item), getBox(other)))) row.push(item);
    else rows.push([item]);
  }
  return rows.map((row) => row.toSorted((a, b) => getBox(a).left - getBox(b).left));
}

/** Whether two boxes are in one row. */
function isBeside(a: UprightBox, b: UprightBox): boolean {
  const shared = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  const lower = Math.min(a.bottom - a.top, b.bottom - b.top);
  return shared >= SHARED_HEIGHT * lower;
}

/** The rotation of a page in radians: the median of its lines', weighted by length. */
export function estimateSkew(boxes: readonly LineBox[]): number {
  const lines = boxes.map(({ topLeft, topRight }) => ({
    angle: Math.atan2(topRight[1] - topLeft[1], topRight[0] - topLeft[0]),
    length: distance(topLeft, topRight),
  })).sort((a, b) => a.angle - b.angle);
  let rest = lines.reduce((sum, { length }) => sum + length, 0) / 2;
  return lines.find(({ length }) => (rest -= length) <= 0)?.angle ?? 0;
}

/** The box around a line on the page turned upright. */
export function toUprightBox(
  { topLeft, topRight, bottomRight, bottomLeft }: LineBox,
  skew: number,
): UprightBox {
  const corners = [topLeft, topRight, bottomRight, bottomLeft]
    .map((corner) => toAxes(corner, [Math.cos(skew), Math.sin(skew)]));
  const [xs, ys] = [corners.map(([x]) => x), corners.map(([, y]) => y)];
  return {
    left: Math.min(...xs),
    top: Math.min(...ys),
    right: Math.max(...xs),
    bottom: Math.max(...ys),
  };
}
