/**
 * Lines of text as they lie on a page, in reading order, and as they are cut out of it. Pure.
 *
 * @module
 */
import { crop } from "../../media/crop.ts";
import type { Pixels } from "../../media/pixels.ts";
import { rectify } from "../../media/rectify.ts";
import { type LineBox, type Point, toAxes } from "./rotated_rectangle.ts";

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

/** A line cut out of the image at `box`. */
export interface LineCut {
  readonly pixels: Pixels;
  readonly box: LineBox;
}

/** A line with at least this share of the image's height is the only one. */
const CLOSE_CUT = 0.5;
/** Images with a larger ratio of width to height may be single lines. */
const LINE_ASPECT = 2;
/** Lines with a larger ratio of height to width are vertical. */
const STANDING_ASPECT = 1.5;

/**
 * Whether an image is one line of text, cropped so closely that a detector, which needs margins, may find only parts of
 * it.
 */
export function isOneLine(image: Pixels, rows: readonly (readonly LineBox[])[]): boolean {
  const [row, ...others] = rows;
  if (others.length > 0 || image.width < LINE_ASPECT * image.height) return false;
  const heights = (row ?? []).map((box) => uprightBoxOf(box, 0))
    .map(({ top, bottom }) => bottom - top);
  return row === undefined || Math.max(...heights) >= CLOSE_CUT * image.height;
}

/** An image of one line whole, and cropped to the line, which makes letters larger. */
export function waysToCut(image: Pixels, [row]: readonly (readonly LineBox[])[]): LineCut[] {
  const whole = { pixels: image, box: levelBox({ ...image, top: 0, bottom: image.height }) };
  if (row === undefined) return [whole];
  const boxes = row.map((box) => uprightBoxOf(box, 0));
  const top = Math.max(0, Math.floor(Math.min(...boxes.map((box) => box.top))));
  const bottom = Math.min(image.height, Math.ceil(Math.max(...boxes.map((box) => box.bottom))));
  const pixels = crop(image, [0, top, image.width, bottom]);
  return [whole, { pixels, box: levelBox({ ...image, top, bottom }) }];
}

/** Over the whole width. */
function levelBox(
  { width, top, bottom }: { readonly width: number; readonly top: number; readonly bottom: number },
): LineBox {
  return {
    topLeft: [0, top],
    topRight: [width, top],
    bottomRight: [width, bottom],
    bottomLeft: [0, bottom],
  };
}

/** The rotation of a page in radians: the median of its lines', weighted by length. */
export function skewOf(boxes: readonly LineBox[]): number {
  const lines = boxes.map(({ topLeft, topRight }) => ({
    angle: Math.atan2(topRight[1] - topLeft[1], topRight[0] - topLeft[0]),
    length: distance(topLeft, topRight),
  })).sort((a, b) => a.angle - b.angle);
  let rest = lines.reduce((sum, { length }) => sum + length, 0) / 2;
  return lines.find(({ length }) => (rest -= length) <= 0)?.angle ?? 0;
}

/** The box around a line on the page turned upright. */
export function uprightBoxOf(
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

export function cutOut(image: Pixels, box: LineBox): Pixels {
  const { topLeft, topRight, bottomRight, bottomLeft } = snap(box);
  const width = Math.max(1, Math.round(distance(topLeft, topRight)));
  const height = Math.max(1, Math.round(distance(topLeft, bottomLeft)));
  if (height < STANDING_ASPECT * width) {
    return rectify(image, { topLeft, topRight, bottomLeft, width, height });
  }
  // Vertical text, read from below: its right side becomes the top.
  return rectify(image, {
    topLeft: topRight,
    topRight: bottomRight,
    bottomLeft: topLeft,
    width: height,
    height: width,
  });
}

/** Snaps horizontal lines to whole pixels, so that cropping does not blur them. */
function snap(box: LineBox): LineBox {
  const { topLeft, topRight, bottomRight, bottomLeft } = box;
  if (Math.abs(topLeft[1] - topRight[1]) >= 0.5) return box;
  const [left, top] = [Math.round(topLeft[0]), Math.round(topLeft[1])];
  const [right, bottom] = [Math.round(bottomRight[0]), Math.round(bottomRight[1])];
  if (Math.abs(topLeft[0] - bottomLeft[0]) >= 0.5) return box;
  return {
    topLeft: [left, top],
    topRight: [right, top],
    bottomRight: [right, bottom],
    bottomLeft: [left, bottom],
  };
}

function distance([ax, ay]: Point, [bx, by]: Point): number {
  return Math.hypot(bx - ax, by - ay);
}
