/**
 * The smallest rotated rectangle around points. Pure.
 *
 * @module
 */

/** Right, down. */
export type Point = readonly [x: number, y: number];

/** A rotated rectangle. */
export interface Rectangle {
  readonly center: Point;
  /** Unit vector along the width, within 45° of rightwards. */
  readonly direction: Point;
  /** Along the direction. */
  readonly width: number;
  readonly height: number;
}

/** The convex hull of points, in order (Andrew's monotone chain). */
export function hullOf(points: readonly Point[]): Point[] {
  const sorted = points.toSorted(([ax, ay], [bx, by]) => ax - bx || ay - by);
  return [...halfHull(sorted), ...halfHull(sorted.toReversed())];
}

function halfHull(points: readonly Point[]): Point[] {
  const hull: Point[] = [];
  for (const point of points) {
    while (hull.length >= 2 && turn(hull.at(-2)!, hull.at(-1)!, point) <= 0) hull.pop();
    hull.push(point);
  }
  hull.pop();
  return hull;
}

/** Positive if `c` is to the left of the line from `a` to `b`. */
function turn([ax, ay]: Point, [bx, by]: Point, [cx, cy]: Point): number {
  return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
}

/**
 * The rectangle of the smallest area around a hull; one of its sides lies on the hull's.
 *
 * @param hull at least 3 corners.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { width, height, center } = smallestRectangle(hullOf([[0, 0], [4, 0], [4, 2], [0, 2], [1, 1]]));
 * assert.deepEqual({ width, height, center }, { width: 4, height: 2, center: [2, 1] });
 * ```
 */
export function smallestRectangle(hull: readonly Point[]): Rectangle {
  let best: Rectangle | undefined;
  hull.forEach(([ax, ay], index) => {
    const [bx, by] = hull[(index + 1) % hull.length]!;
    const length = Math.hypot(bx - ax, by - ay);
    if (length === 0) return;
    const rectangle = rectangleAlong(hull, upright([(bx - ax) / length, (by - ay) / length]));
    const area = rectangle.width * rectangle.height;
    if (best === undefined || area < best.width * best.height) best = rectangle;
  });
  return best!;
}

/** The same axes, the first within 45° of rightwards. */
function upright([x, y]: Point): Point {
  if (Math.abs(x) >= Math.abs(y)) return x > 0 ? [x, y] : [-x, -y];
  return y > 0 ? [y, -x] : [-y, x];
}

function rectangleAlong(hull: readonly Point[], direction: Point): Rectangle {
  const [ux, uy] = direction;
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of hull) {
    const along = x * ux + y * uy;
    const across = y * ux - x * uy;
    left = Math.min(left, along);
    right = Math.max(right, along);
    top = Math.min(top, across);
    bottom = Math.max(bottom, across);
  }
  const [along, across] = [(left + right) / 2, (top + bottom) / 2];
  return {
    center: [along * ux - across * uy, along * uy + across * ux],
    direction,
    width: right - left,
    height: bottom - top,
  };
}
