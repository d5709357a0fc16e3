/**
 * The boxes of lines of text, which may be rotated, and cutting lines out of a page. Pure.
 *
 * @module
 */
import { crop, type Pixels } from "../../media/pixels.ts";

/** A point. `x` increases to the right and `y` downwards. */
export type Point = readonly [x: number, y: number];

/** A rotated rectangle as in OpenCV's `minAreaRect`. */
export interface RotatedRectangle {
  readonly center: Point;
  /** Unit vector along the width, within 45° of pointing right. */
  readonly direction: Point;
  /** Size along the direction. */
  readonly width: number;
  readonly height: number;
}

/** The corners of a line in an image. */
export interface LineBox {
  readonly topLeft: Point;
  readonly topRight: Point;
  readonly bottomRight: Point;
  readonly bottomLeft: Point;
}

export function distance([ax, ay]: Point, [bx, by]: Point): number {
  return Math.hypot(bx - ax, by - ay);
}

/** Computes a point's coordinates along a unit vector and across it. */
export function toAxes([x, y]: Point, [ux, uy]: Point): Point {
  return [x * ux + y * uy, y * ux - x * uy];
}

/** Computes a point from its coordinates along and across a unit vector: the inverse of {@linkcode toAxes}. */
export function fromAxes([along, across]: Point, [ux, uy]: Point): Point {
  return [along * ux - across * uy, along * uy + across * ux];
}

/** Computes a rectangle's corners, as OpenCV's `boxPoints` does, and scales their coordinates. */
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
 * Finds the rectangle of the smallest area around points. One of its sides lies on a side of their convex hull.
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
  const hull = findConvexHull(points);
  let best: RotatedRectangle | undefined;
  hull.forEach((corner, index) => {
    const next = hull[(index + 1) % hull.length]!;
    const length = distance(corner, next);
    if (length === 0) return;
    const side: Point = [(next[0] - corner[0]) / length, (next[1] - corner[1]) / length];
    const rectangle = fitRectangle(hull, rotateUpright(side));
    const area = rectangle.width * rectangle.height;
    if (best === undefined || area < best.width * best.height) best = rectangle;
  });
  return best!;
}

/** Rotates a vector by a multiple of 90°, so that it is within 45° of pointing right. */
function rotateUpright([x, y]: Point): Point {
  if (Math.abs(x) >= Math.abs(y)) return x > 0 ? [x, y] : [-x, -y];
  return y > 0 ? [y, -x] : [-y, x];
}

function fitRectangle(hull: readonly Point[], direction: Point): RotatedRectangle {
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

/** Finds the corners of the convex hull in order (Andrew's monotone chain). */
function findConvexHull(points: readonly Point[]): Point[] {
  const sorted = points.toSorted(([ax, ay], [bx, by]) => ax - bx || ay - by);
  return [...computeHalfHull(sorted), ...computeHalfHull(sorted.toReversed())];
}

function computeHalfHull(points: readonly Point[]): Point[] {
  const hull: Point[] = [];
  for (const point of points) {
    while (hull.length >= 2 && computeCrossProduct(hull.at(-2)!, hull.at(-1)!, point) <= 0) {
      hull.pop();
    }
    hull.push(point);
  }
  hull.pop();
  return hull;
}

/** Positive if `c` is to the right of the line from `a` to `b`, since `y` increases downwards. */
function computeCrossProduct([ax, ay]: Point, [bx, by]: Point, [cx, cy]: Point): number {
  return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
}

/** Lines with at least this ratio of height to width are treated as text that runs down or up the page. */
export const STANDING_ASPECT = 1.5;

/** Whether a line runs down or up the page. */
export function isStanding({ topLeft, topRight, bottomLeft }: LineBox): boolean {
  return distance(topLeft, bottomLeft) >= STANDING_ASPECT * distance(topLeft, topRight);
}

/** A box whose sides are horizontal and vertical. */
export interface UprightBox {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Computes the upright box around a line after the page is rotated back by its skew, in radians. */
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

/** The pixels of a line, cut out of the image at `box`. */
export interface LineCut {
  readonly pixels: Pixels;
  readonly box: LineBox;
}

/** A line with at least this share of the image's height makes the image a closely cropped line. */
const CLOSE_CUT = 0.5;
/** Images with at least this ratio of width to height may be single lines. */
const LINE_ASPECT = 2;

/**
 * Whether an image is a closely cropped line of text. In such an image the detector, which needs margins, may find only
 * parts of the line.
 */
export function isOneLine(image: Pixels, rows: readonly (readonly LineBox[])[]): boolean {
  const [row, ...others] = rows;
  if (others.length > 0 || image.width < LINE_ASPECT * image.height) return false;
  const heights = (row ?? []).map((box) => toUprightBox(box, 0))
    .map(({ top, bottom }) => bottom - top);
  return row === undefined || Math.max(...heights) >= CLOSE_CUT * image.height;
}

/**
 * Makes variants of an image of one line: the whole image and, if a line was found, the image cropped to the height of
 * the line. In the cropped image the letters fill more of the height.
 */
export function cutBothWays(image: Pixels, [row]: readonly (readonly LineBox[])[]): LineCut[] {
  const { width, height } = image;
  const whole = { left: 0, top: 0, right: width, bottom: height };
  const cuts = [{ pixels: image, box: toCorners(whole) }];
  if (row === undefined) return cuts;
  const boxes = row.map((box) => toUprightBox(box, 0));
  const top = Math.max(0, Math.floor(Math.min(...boxes.map((box) => box.top))));
  const bottom = Math.min(height, Math.ceil(Math.max(...boxes.map((box) => box.bottom))));
  const pixels = crop(image, [0, top, width, bottom]);
  return [...cuts, { pixels, box: toCorners({ ...whole, top, bottom }) }];
}

function toCorners({ left, top, right, bottom }: UprightBox): LineBox {
  return {
    topLeft: [left, top],
    topRight: [right, top],
    bottomRight: [right, bottom],
    bottomLeft: [left, bottom],
  };
}

/**
 * Cuts a line out of an image, rotated so that its text runs from left to right, although perhaps upside down.
 *
 * @param standingAspect lines with at least this ratio of height to width run down or up the page.
 */
export function cutOut(image: Pixels, box: LineBox, standingAspect = STANDING_ASPECT): Pixels {
  const { topLeft, topRight, bottomRight, bottomLeft } = snap(box);
  const width = Math.max(1, Math.round(distance(topLeft, topRight)));
  const height = Math.max(1, Math.round(distance(topLeft, bottomLeft)));
  if (height < standingAspect * width) {
    return rectify(image, { topLeft, topRight, bottomLeft, width, height });
  }
  // The text is assumed to run down the page, so the right side of the box becomes the top.
  return rectify(image, {
    topLeft: topRight,
    topRight: bottomRight,
    bottomLeft: topLeft,
    width: height,
    height: width,
  });
}

/** Rounds the box of a horizontal line to whole pixels, so that cutting does not blur the line. */
function snap(box: LineBox): LineBox {
  const { topLeft, topRight, bottomRight, bottomLeft } = box;
  if (Math.abs(topLeft[1] - topRight[1]) >= 0.5) return box;
  if (Math.abs(topLeft[0] - bottomLeft[0]) >= 0.5) return box;
  const [left, top] = [Math.round(topLeft[0]), Math.round(topLeft[1])];
  const [right, bottom] = [Math.round(bottomRight[0]), Math.round(bottomRight[1])];
  return toCorners({ left, top, right, bottom });
}

/**
 * Cuts a parallelogram out of an image, with bilinear interpolation. Outside the image, its edge pixels are repeated.
 * Pixel `x` covers the coordinates from `x` to `x + 1`.
 */
export function rectify(pixels: Pixels, options: {
  readonly topLeft: Point;
  readonly topRight: Point;
  readonly bottomLeft: Point;
  readonly width: number;
  readonly height: number;
}): Pixels {
  const { topLeft, topRight, bottomLeft, width, height } = options;
  const { channels } = pixels;
  const data = new Uint8Array(width * height * channels);
  const [rightX, rightY] = step(topLeft, topRight, width);
  const [downX, downY] = step(topLeft, bottomLeft, height);
  for (let row = 0, to = 0; row < height; row++) {
    for (let column = 0; column < width; column++, to += channels) {
      const x = topLeft[0] + rightX * (column + 0.5) + downX * (row + 0.5) - 0.5;
      const y = topLeft[1] + rightY * (column + 0.5) + downY * (row + 0.5) - 0.5;
      blend(pixels, [x, y], data.subarray(to, to + channels));
    }
  }
  return { width, height, channels, data };
}

/** Computes the step per pixel from one corner to another. */
function step([fromX, fromY]: Point, [toX, toY]: Point, count: number): Point {
  return [(toX - fromX) / count, (toY - fromY) / count];
}

function blend({ width, height, channels, data }: Pixels, [x, y]: Point, into: Uint8Array): void {
  const [left, top] = [Math.floor(x), Math.floor(y)];
  const [shareX, shareY] = [x - left, y - top];
  const column = (at: number) => Math.min(width - 1, Math.max(0, at)) * channels;
  const row = (at: number) => Math.min(height - 1, Math.max(0, at)) * width * channels;
  const [x0, x1, y0, y1] = [column(left), column(left + 1), row(top), row(top + 1)];
  for (let channel = 0; channel < channels; channel++) {
    const upper = data[y0 + x0 + channel]! * (1 - shareX) + data[y0 + x1 + channel]! * shareX;
    const lower = data[y1 + x0 + channel]! * (1 - shareX) + data[y1 + x1 + channel]! * shareX;
    into[channel] = Math.round(upper * (1 - shareY) + lower * shareY);
  }
}
