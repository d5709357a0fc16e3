/**
 * Images of any channels as RGBA.
 *
 * @module
 */
import type { Pixels } from "./pixels.ts";

const OPAQUE = 255;

/** The image with red, green, blue and alpha; one that has them already is returned as it is. */
export function toRgba(pixels: Pixels): Pixels {
  const { width, height, channels, data: from } = pixels;
  if (channels === 4) return pixels;
  const data = new Uint8Array(4 * width * height);
  const words = new Uint32Array(data.buffer);
  const [green, blue] = channels === 3 ? [1, 2] : [0, 0];
  const view = new DataView(data.buffer);
  // Whole words are written twice as fast as bytes, in the order of the machine.
  const isLittleEndian = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;
  for (let pixel = 0, at = 0; pixel < words.length; pixel++, at += channels) {
    const alpha = channels === 2 ? from[at + 1]! : OPAQUE;
    const word = from[at]! | from[at + green]! << 8 | from[at + blue]! << 16 | alpha << 24;
    if (isLittleEndian) words[pixel] = word;
    else view.setUint32(4 * pixel, word, true);
  }
  return { width, height, channels: 4, data };
}
