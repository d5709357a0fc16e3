/**
 * Turns a picture the way its Exif orientation says it is to be looked at.
 *
 * @module
 */
import type { Pixels } from "../pixels.ts";

/** Exif's numbers: which side of the stored picture is the top, and which the left. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

/** A number from a file as an orientation; those that mean nothing mean upright. */
export function toOrientation(value: number | undefined): Orientation {
  return value !== undefined && value >= 1 && value <= 8 && Number.isInteger(value)
    ? value as Orientation
    : 1;
}

/** Whether width and height change places. */
export function isTurned(orientation: Orientation): boolean {
  return orientation >= 5;
}

/** The picture upright; the same object where it is already. */
export function applyOrientation(pixels: Pixels, orientation: Orientation): Pixels {
  if (orientation === 1) return pixels;
  const { width, height, channels } = pixels;
  const mirrorsX = [2, 3, 7, 8].includes(orientation);
  const mirrorsY = [3, 4, 6, 7].includes(orientation);
  const isTransposed = isTurned(orientation);
  const toWidth = isTransposed ? height : width;
  const toHeight = isTransposed ? width : height;
  const data = new Uint8Array(pixels.data.length);
  // Bytes from one pixel of a row of the result to the next, in the source.
  const step = (isTransposed ? mirrorsY ? -width : width : mirrorsX ? -1 : 1) * channels;
  let to = 0;
  for (let y = 0; y < toHeight; y++) {
    const column = isTransposed ? (mirrorsX ? width - 1 - y : y) : mirrorsX ? width - 1 : 0;
    const row = isTransposed ? (mirrorsY ? height - 1 : 0) : mirrorsY ? height - 1 - y : y;
    let from = (row * width + column) * channels;
    for (let x = 0; x < toWidth; x++, from += step) {
      for (let channel = 0; channel < channels; channel++) {
        data[to++] = pixels.data[from + channel]!;
      }
    }
  }
  return { width: toWidth, height: toHeight, channels, data };
}
