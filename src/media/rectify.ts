/**
 * Crops rotated rectangles out of images, and turns them upright.
 *
 * @module
 */
import type { Pixels } from "./pixels.ts";

/** A point in an image: pixel `x` covers `x` to `x + 1`. */
type Point = readonly [x: number, y: number];

/**
 * Crops the part of an image between four corners, with bilinear interpolation. Outside of the image, its edge is
 * repeated.
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
