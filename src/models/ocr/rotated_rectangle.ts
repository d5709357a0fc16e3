/**
 * Rotated rectangles, as OpenCV's `minAreaRect` and `boxPoints` give them. Pure.
 *
 * @module
 */

/** Coordinates to the right and downwards. */
export type Point = readonly [x: number, y: number];

export interface RotatedRectangle {
  readonly center: Point;
  /** Unit vector along the width, within 45° of pointing right. */
  readonly direction: Point;
  /** Extent along the direction. */
  readonly width: number;
  readonly height: number;
}

/** The corners of a line in its image. */
export interface LineBox {
  readonly topLeft: Point;
  readonly topRight: Point;
  readonly bottomRight: Point;
  readonly bottomLeft: Point;
}

export function distance([ax, ay]: Point, [bx, by]: Point): number {
  return Math.hypot(bx - ax, by - ay);
}

/** A point's coordinates along a unit vector and across it. */
export function toAxes([x, y]: Point, [ux, uy]: Point): Point {
  return [x * ux + y * uy, y * ux - x * uy];
}

/** The inverse of {@linkcode toAxes}. */
export function fromAxes([along, across]: Point, [ux, uy]: Point): Point {
  return [along * ux - across * uy, along * uy + across * ux];
}

/** A rectangle's corners, their coordinates multiplied by `scale`. */
export function boxPoints(rectangle: RotatedRectangle, [scaleX, scaleY]: Point): LineBox {
  const { center: [x, y], direction, width, height } = rectangle;
  const corner = (along: -1 | 1, across: -1 | 1): Point => {
    const [dx, dy] = fromAxes([along * width / 2, across * height / 2], direction);
    return [(x + dx) * scaleX, (y + dy) * scaleY];
  };
  return {
    topLeft: corner(-1, -1),
    topRight: corner(1, -1),
    bottomRight: corner(1, 1),
    bottomLeft: corner(-1, 1),
  };
}

/**
 * The rectangle of the smallest area around points; one of its sides lies on their hull's.
 *
 * @param points at least 3, not all on one line.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { width, height, center } = minAreaRect([[0, 0], [4, 0], [4, 2], [0, 2], [1, 1]]);
 * assert.deepEqual({ width, height, center }, { width: 4, height: 2, center: [2, 1] });
 * ```
 */
export function minAreaRect(points: readonly Point[]): RotatedRectangle {
  const hull = convexHull(points);
  let best: RotatedRectangle | undefined;
  hull.forEach((corner, index) => {
    const next = hull[(index + 1) % hull.length]!;
    const length = distance(corner, next);
    if (length === 0) return;
    const side: Point = [(next[0] - corner[0]) / length, (next[1] - corner[1]) / length];
    const rectangle = rectangleAlong(hull, upright(side));
    const area = rectangle.width * rectangle.height;
    if (best === undefined || area < best.width * best.height) best = rectangle;
  });
  return best!;
}

/** The same axes, described by a vector within 45° of pointing right. */
function upright([x, y]: Point): Point {
  if (Math.abs(x) >= Math.abs(y)) return x > 0 ? [x, y] : [-x, -y];
  return y > 0 ? [y, -x] : [-y, x];
}

function rectangleAlong(hull: readonly Point[], direction: Point): RotatedRectangle {
  const points = hull.map((point) => toAxes(point, direction));
  const [alongs, acrosses] = [points.map(([along]) => along), points.map(([, across]) => across)];
  const [left, right] = [Math.min(...alongs), Math.max(...alongs)];
  const [top, bottom] = [Math.min(...acrosses), Math.max(...acrosses)];
  return {
    center: fromAxes([(left + right) / 2, (top + bottom) / 2], direction),
    direction,
    width: right - left,
    height: bottom - top,
  };
}

/** Corners of the convex hull in order (Andrew's monotone chain). */
function convexHull(points: readonly Point[]): Point[] {
  const sorted = points.toSorted(([ax, ay], [bx, by]) => ax - bx || ay - by);
  return [...halfHull(sorted), ...halfHull(sorted.toReversed())];
}

function halfHull(points: readonly Point[]): Point[] {
  const hull: Point[] = [];
  for (const point of points) {
    while (hull.length >= 2 && crossProduct(hull.at(-2)!, hull.at(-1)!, point) <= 0) hull.pop();
    hull.push(point);
  }
  hull.pop();
  return hull;
}

/** Positive if `c` is to the left of the line from `a` to `b`. */
function crossProduct([ax, ay]: Point, [bx, by]: Point, [cx, cy]: Point): number {
  return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
}
