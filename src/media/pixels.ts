/**
 * A decoded image.
 *
 * @module
 */

/** What each pixel holds: grey, grey and alpha, RGB, or RGB and alpha. */
export type Channels = 1 | 2 | 3 | 4;

/** Rows from the top, pixels from the left, channels interleaved; alpha is straight, not premultiplied. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly channels: Channels;
  /** u8 `[height, width, channels]`. */
  readonly data: Uint8Array<ArrayBuffer>;
}

/** A part of an image, in whole pixels: left, top, right, bottom. */
type Box = readonly [left: number, top: number, right: number, bottom: number];

/** How far an image is widened, in pixels. */
interface Margins {
  readonly left?: number;
  readonly top?: number;
  readonly right?: number;
  readonly bottom?: number;
  /** A level for each channel; zeros if absent. */
  readonly color?: readonly number[];
}

/**
 * The part of an image in a box; what lies outside of the image is 0. The result is new.
 *
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const row = { width: 3, height: 1, channels: 1, data: Uint8Array.of(7, 8, 9) } as const;
 * assert.deepEqual([...crop(row, [1, 0, 4, 1]).data], [8, 9, 0]);
 * ```
 */
export function crop(pixels: Pixels, [left, top, right, bottom]: Box): Pixels {
  const { width, height } = pixels;
  return pad(pixels, { left: -left, top: -top, right: right - width, bottom: bottom - height });
}

/**
 * The middle of an image, half a pixel further left and up if the margin is odd; the result is new. Smaller images get
 * a border of 0.
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
 * Widens an image by a border; negative margins cut it. The result is new.
 *
 * @throws {RangeError} when a margin is no integer or nothing would be left.
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
