/**
 * Images as pixels in memory, with alpha or without.
 *
 * @module
 */
import { BAND_BYTES, PixelRoom } from "./pixel_simd.ts";

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

const BAND_PIXELS = BAND_BYTES / 4;

/**
 * Converts straight alpha to premultiplied, rounded as in Pillow: otherwise transparent pixels would lend their colour
 * to their neighbours when an image is resized. The last of 2 or 4 channels is alpha. Opaque RGBA is returned
 * unchanged.
 */
export function premultiply(pixels: Pixels): Pixels {
  if (pixels.channels === 4 && isOpaque(pixels)) return pixels;
  const { channels } = pixels;
  const data = pixels.data.slice();
  for (let alphaAt = channels - 1; alphaAt < data.length; alphaAt += channels) {
    const alpha = data[alphaAt]!;
    if (alpha === 255) continue;
    for (let i = alphaAt - channels + 1; i < alphaAt; i++) {
      const product = data[i]! * alpha + 128;
      data[i] = ((product >> 8) + product) >> 8;
    }
  }
  return { ...pixels, data };
}

/**
 * Converts premultiplied alpha to straight. The last of 2 or 4 channels is alpha. Opaque RGBA is returned unchanged.
 */
export function unpremultiply(pixels: Pixels): Pixels {
  if (pixels.channels === 4 && isOpaque(pixels)) return pixels;
  const { channels } = pixels;
  const data = pixels.data.slice();
  for (let alphaAt = channels - 1; alphaAt < data.length; alphaAt += channels) {
    const alpha = data[alphaAt]!;
    if (alpha === 0 || alpha === 255) continue;
    for (let i = alphaAt - channels + 1; i < alphaAt; i++) {
      data[i] = Math.min(255, Math.trunc(255 * data[i]! / alpha));
    }
  }
  return { ...pixels, data };
}

/** Drops the alpha channel of an opaque image, reusing its memory. Other images are returned unchanged. */
export function dropOpaqueAlpha(pixels: Pixels): Pixels {
  if (pixels.channels !== 4 || !isOpaque(pixels)) return pixels;
  const { width, height, data } = pixels;
  const room = new PixelRoom();
  const input = room.reserve(4 * BAND_PIXELS);
  const output = room.reserve(3 * BAND_PIXELS);
  using memory = room.open();
  const { kernels, bytes } = memory;
  const end = width * height;
  for (let pixel = 0; pixel < end; pixel += BAND_PIXELS) {
    const numPixels = Math.min(BAND_PIXELS, end - pixel);
    bytes.set(data.subarray(4 * pixel, 4 * (pixel + numPixels)), input);
    kernels.dropAlpha(input, numPixels, output);
    data.set(bytes.subarray(output, output + 3 * numPixels), 3 * pixel);
  }
  return { width, height, channels: 3, data: data.subarray(0, 3 * end) };
}

/** Whether every pixel of an RGBA image is opaque. */
export function isOpaque({ data }: Pixels): boolean {
  const room = new PixelRoom();
  const input = room.reserve(4 * BAND_PIXELS);
  using memory = room.open();
  const { kernels, bytes } = memory;
  for (let at = 0; at < data.length; at += 4 * BAND_PIXELS) {
    const band = data.subarray(at, at + 4 * BAND_PIXELS);
    bytes.set(band, input);
    // The kernel also reads these bytes beyond the last pixel.
    bytes.fill(255, input + band.length, input + band.length + 12);
    if (!kernels.isOpaque(input, band.length / 4)) return false;
  }
  return true;
}

/** Composites an image on white: 2 channels become 1, 4 become 3. An image without alpha is returned unchanged. */
export function compositeOnWhite(pixels: Pixels): Pixels {
  const { width, height, channels, data } = pixels;
  if (channels % 2 === 1) return pixels;
  const numColors = channels - 1;
  const opaque = new Uint8Array(width * height * numColors);
  for (let from = 0, to = 0; to < opaque.length; from += channels) {
    const alpha = data[from + numColors]!;
    for (let color = 0; color < numColors; color++) {
      opaque[to++] = Math.round((data[from + color]! * alpha + 255 * (255 - alpha)) / 255);
    }
  }
  return { width, height, channels: numColors as 1 | 3, data: opaque };
}

/** Converts an image to RGBA; one that already is RGBA is returned unchanged. */
export function toRgba(pixels: Pixels): Pixels {
  const { width, height, channels, data: from } = pixels;
  if (channels === 4) return pixels;
  const data = new Uint8Array(4 * width * height);
  const words = new Uint32Array(data.buffer);
  const [green, blue] = channels === 3 ? [1, 2] : [0, 0];
  // Writing words is twice as fast as writing bytes. Every machine that Deno runs on is little-endian.
  for (let pixel = 0, at = 0; pixel < words.length; pixel++, at += channels) {
    const alpha = channels === 2 ? from[at + 1]! : 255;
    words[pixel] = from[at]! | from[at + green]! << 8 | from[at + blue]! << 16 | alpha << 24;
  }
  return { width, height, channels: 4, data };
}
