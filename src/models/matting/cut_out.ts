/**
 * Results of background removal: the subject alone, on a colour, its mask, or cropped.
 *
 * @module
 */
import { crop } from "../../media/crop.ts";
import type { Pixels } from "../../media/pixels.ts";
import type { MatteOptions } from "../task.ts";

/** Alpha from which on a pixel counts as part of the subject when the image is cropped. */
const LEAST_ALPHA = 8;

/**
 * The result by the options.
 *
 * @param pixels RGBA; changed if a background is composited.
 * @returns RGBA, or grey for a mask; an image without a subject is not cropped.
 */
export function makeCutOut(pixels: Pixels, options: MatteOptions): Pixels {
  const { background, maskOnly, crop: isCropped } = options;
  const box = isCropped ? subjectBox(pixels) : undefined;
  const kept = box === undefined ? pixels : crop(pixels, box);
  if (maskOnly) return alphaOf(kept);
  if (background !== undefined) layBehind(kept, background);
  return kept;
}

/** The smallest box that holds the subject; `undefined` if there is none. Most of its inside is never read. */
function subjectBox(
  { width, height, data }: Pixels,
): [left: number, top: number, right: number, bottom: number] | undefined {
  const isSubject = (x: number, y: number) => data[4 * (y * width + x) + 3]! >= LEAST_ALPHA;
  /** The first column from `from` on, short of `to`; `to` if there is none. */
  const find = (y: number, from: number, to: number) => {
    const step = from < to ? 1 : -1;
    let x = from;
    while (x !== to && !isSubject(x, y)) x += step;
    return x;
  };
  const isEmpty = (y: number) => find(y, 0, width) === width;
  let [top, bottom] = [0, height];
  while (top < height && isEmpty(top)) top++;
  if (top === height) return undefined;
  while (isEmpty(bottom - 1)) bottom--;
  let [left, last] = [width, -1];
  for (let y = top; y < bottom; y++) {
    left = find(y, 0, left);
    last = find(y, width - 1, last);
  }
  return [left, top, last + 1, bottom];
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
