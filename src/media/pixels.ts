/**
 * A decoded image.
 *
 * @module
 */

/** Number of channels: 1 for grey, 2 for grey and alpha, 3 for RGB, 4 for RGBA. */
export type Channels = 1 | 2 | 3 | 4;

/**
 * A decoded image: rows from the top, pixels from the left, channels interleaved; alpha is straight, not premultiplied.
 */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly channels: Channels;
  /** u8 `[height, width, channels]`. */
  readonly data: Uint8Array<ArrayBuffer>;
}

/** A part of an image in whole pixels. */
type Box = readonly [left: number, top: number, right: number, bottom: number];

/** By how many pixels an image is widened on each side. */
interface Margins {
  readonly left?: number;
  readonly top?: number;
  readonly right?: number;
  readonly bottom?: number;
  /** The border's level in each channel; zeros if absent. */
  readonly color?: readonly number[];
}

/**
 * Copies the part of an image within a box; what lies outside of the image is 0.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * const row = { width: 3, height: 1, channels: 1, data: Uint8Array.of(7, 8, 9) } as const;
 * assert.deepEqual([...crop(row, [1, 0, 4, 1]).data], [8, 9, 0]);
 * ```
 */
export function crop(pixels: Pixels, [left, top, right, bottom]: Box): Pixels {
  const { width, height } = pixels;
  return pad(pixels, { left: -left, top: -top, right: right - width, bottom: bottom - height });
}

/**
 * Copies the middle of an image, half a pixel further left and up if the margin is odd. Smaller images get a border of
 * 0.
 */
export function centerCrop(
  pixels: Pixels,
  { width, height }: { width: number; height: number },
): Pixels {
  const left = Math.floor((pixels.width - width) / 2);
  const top = Math.floor((pixels.height - height) / 2);
  return crop(pixels, [left, top, left + width, top + height]);
}

/**
 * Copies an image and widens it by a border; negative margins crop it.
 *
 * @throws {RangeError} when a margin is not an integer or nothing would be left.
 */
export function pad(
  pixels: Pixels,
  { left = 0, top = 0, right = 0, bottom = 0, color }: Margins,
): Pixels {
  const { channels } = pixels;
  const width = pixels.width + left + right;
  const height = pixels.height + top + bottom;
  if (![left, top, width, height].every(Number.isInteger) || width < 1 || height < 1) {
    throw new RangeError(`An image cannot be cropped or padded to ${width} × ${height} pixels.`);
  }
  const data = new Uint8Array(width * height * channels);
  if (color?.some((level) => level !== 0)) {
    for (let i = 0; i < data.length; i++) data[i] = color[i % channels] ?? 0;
  }
  const firstColumn = Math.max(0, -left);
  const endColumn = Math.min(pixels.width, width - left);
  const endRow = Math.min(pixels.height, height - top);
  for (let row = Math.max(0, -top); row < endRow && firstColumn < endColumn; row++) {
    const from = row * pixels.width;
    data.set(
      pixels.data.subarray((from + firstColumn) * channels, (from + endColumn) * channels),
      ((row + top) * width + firstColumn + left) * channels,
    );
  }
  return { width, height, channels, data };
}
