/**
 * Colours times their alpha and back, rounded as Pillow rounds them: transparent pixels must not lend their colour
 * to their neighbours when an image is resized.
 *
 * @module
 */
import { isOpaque } from "./opaque.ts";
import type { Pixels } from "./pixels.ts";

/** Straight to premultiplied alpha; the last of 2 or 4 channels is alpha. RGBA that is opaque is returned as it is. */
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

/** Premultiplied to straight alpha; the last of 2 or 4 channels is alpha. RGBA that is opaque is returned as it is. */
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
