/**
 * What is made of a picture whose alpha is known: the subject alone, on a colour, its outline, its surroundings cut off.
 *
 * @module
 */
import { crop } from "../../media/crop.ts";
import type { Pixels } from "../../media/pixels.ts";
import type { MatteOptions } from "../task.ts";

/** Alpha from which on a pixel counts as part of the subject when the picture is cropped. */
const LEAST_ALPHA = 8;

/**
 * The result that the options ask for.
 *
 * @param pixels RGBA; changed where a background is laid behind it.
 * @returns RGBA, or grey for a mask; a picture without a subject is not cropped.
 */
export function makeCutOut(pixels: Pixels, options: MatteOptions): Pixels {
  const { background, maskOnly, crop: isCropped } = options;
  const box = isCropped ? subjectBox(pixels) : undefined;
  const kept = box === undefined ? pixels : crop(pixels, box);
  if (maskOnly) return alphaOf(kept);
  if (background !== undefined) layBehind(kept, background);
  return kept;
}

/** The smallest box that holds the subject; `undefined` where there is none. */
function subjectBox(
  { width, height, data }: Pixels,
): [left: number, top: number, right: number, bottom: number] | undefined {
  let [left, top, right, bottom] = [width, height, 0, 0];
  for (let y = 0, at = 3; y < height; y++) {
    for (let x = 0; x < width; x++, at += 4) {
      if (data[at]! < LEAST_ALPHA) continue;
      if (x < left) left = x;
      if (x >= right) right = x + 1;
      if (y < top) top = y;
      bottom = y + 1;
    }
  }
  return right === 0 ? undefined : [left, top, right, bottom];
}

function alphaOf({ width, height, data }: Pixels): Pixels {
  const alpha = new Uint8Array(width * height);
  for (let i = 0; i < alpha.length; i++) alpha[i] = data[4 * i + 3]!;
  return { width, height, channels: 1, data: alpha };
}

/** In place; the result is opaque. */
function layBehind({ data }: Pixels, background: readonly number[]): void {
  for (let at = 0; at < data.length; at += 4) {
    const alpha = data[at + 3]!;
    data[at + 3] = 255;
    if (alpha === 255) continue;
    for (let channel = 0; channel < 3; channel++) {
      const sum = data[at + channel]! * alpha + background[channel]! * (255 - alpha);
      data[at + channel] = Math.round(sum / 255);
    }
  }
}
