/**
 * Cuts lines of text out of a page. Pure.
 *
 * @module
 */
import { crop, type Pixels } from "../../media/pixels.ts";
import { STANDING_ASPECT, toUprightBox, type UprightBox } from "./page_order.ts";
import { distance, type LineBox, type Point } from "./rotated_rectangle.ts";

/** A line cut out of the image at `box`. */
export interface LineCut {
  readonly pixels: Pixels;
  readonly box: LineBox;
}

/** A line of at least this share of the image's height must be the only one. */
const CLOSE_CUT = 0.5;
/** Wider images than this ratio of width to height may be single lines. */
const LINE_ASPECT = 2;

/** Whether an image is one line of text, cropped closely: a detector needs margins, and may find only parts of it. */
export function isOneLine(image: Pixels, rows: readonly (readonly LineBox[])[]): boolean {
  const [row, ...others] = rows;
  if (others.length > 0 || image.width < LINE_ASPECT * image.height) return false;
  const heights = (row ?? []).map((box) => toUprightBox(box, 0))
    .map(({ top, bottom }) => bottom - top);
  return row === undefined || Math.max(...heights) >= CLOSE_CUT * image.height;
}

/** Cuts an image of one line in two variants: whole, and cropped to the line, which makes letters larger. */
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
 * The pixels of a line, with text from left to right or upside down.
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
  // The text runs down the page: its right side becomes the top.
  return rectify(image, {
    topLeft: topRight,
    topRight: bottomRight,
    bottomLeft: topLeft,
    width: height,
    height: width,
  });
}

/** Rounds the box of a horizontal line to whole pixels, so that cropping does not blur it. */
function snap(box: LineBox): LineBox {
  const { topLeft, topRight, bottomRight, bottomLeft } = box;
  if (Math.abs(topLeft[1] - topRight[1]) >= 0.5) return box;
  if (Math.abs(topLeft[0] - bottomLeft[0]) >= 0.5) return box;
  const [left, top] = [Math.round(topLeft[0]), Math.round(topLeft[1])];
  const [right, bottom] = [Math.round(bottomRight[0]), Math.round(bottomRight[1])];
  return toCorners({ left, top, right, bottom });
}

/**
 * Crops the part of an image between four corners, with bilinear interpolation. Outside of the image, its edge is
 * repeated. Pixel `x` covers the coordinates `x` to `x + 1`.
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

/** The step per pixel from one corner to another. */
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
