/**
 * Removes an alpha channel that is opaque everywhere.
 *
 * @module
 */
import { BAND_BYTES, PixelRoom } from "./pixel_simd.ts";
import type { Pixels } from "./pixels.ts";

const BAND_PIXELS = BAND_BYTES / 4;

/** An image without its alpha, in its own memory; the same image if some pixel is not opaque, or it has no alpha. */
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

/** Whether every pixel of RGBA is opaque. */
export function isOpaque({ data }: Pixels): boolean {
  const room = new PixelRoom();
  const input = room.reserve(4 * BAND_PIXELS);
  using memory = room.open();
  const { kernels, bytes } = memory;
  for (let at = 0; at < data.length; at += 4 * BAND_PIXELS) {
    const band = data.subarray(at, at + 4 * BAND_PIXELS);
    bytes.set(band, input);
    // Bytes read beyond the last pixel.
    bytes.fill(255, input + band.length, input + band.length + 12);
    if (!kernels.isOpaque(input, band.length / 4)) return false;
  }
  return true;
}
