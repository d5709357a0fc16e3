/**
 * Images with transparency on a white ground.
 *
 * @module
 */
import type { Pixels } from "./pixels.ts";

/** The image on a white ground: 2 channels become 1, 4 become 3. Without alpha it is the same image. */
export function onWhite(pixels: Pixels): Pixels {
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
