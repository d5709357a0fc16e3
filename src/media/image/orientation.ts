/**
 * Turns an image upright by its Exif orientation.
 *
 * @module
 */
import type { Pixels } from "../pixels.ts";

/** Exif's numbers: which side of the stored image is the top, and which the left. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

/** A file's number as an orientation; invalid ones mean upright. */
export function toOrientation(value: number | undefined): Orientation {
  return value !== undefined && value >= 1 && value <= 8 && Number.isInteger(value)
    ? value as Orientation
    : 1;
}

/** Whether width and height are swapped. */
export function isTurned(orientation: Orientation): boolean {
  return orientation >= 5;
}

/** Side of the squares that are turned one after the other: of both images their rows stay in the core's cache. */
const TILE = 32;

/** The image upright; the same object where it is already. */
export function applyOrientation(pixels: Pixels, orientation: Orientation): Pixels {
  if (orientation === 1) return pixels;
  const { width, height, channels, data } = pixels;
  const turned = isTurned(orientation);
  const [toWidth, toHeight] = turned ? [height, width] : [width, height];
  const mirrorsX = [2, 3, 7, 8].includes(orientation);
  const mirrorsY = [3, 4, 6, 7].includes(orientation);
  // In pixels of the source, from one of the result to the next and to the one below.
  const toRight = mirrorsX ? -1 : 1;
  const toBelow = mirrorsY ? -width : width;
  const start = (mirrorsX ? width - 1 : 0) + (mirrorsY ? (height - 1) * width : 0);
  const [stepX, stepY] = turned ? [toBelow, toRight] : [toRight, toBelow];

  const to = new Uint8Array(width * height * channels);
  const turn = { width: toWidth, height: toHeight, start, stepX, stepY };
  if (channels === 4 && data.byteOffset % 4 === 0) turnWords(viewWords(data), viewWords(to), turn);
  else turnBytes(data, to, { ...turn, channels });
  return { width: toWidth, height: toHeight, channels, data: to };
}

interface Turn {
  /** Width of the result. */
  readonly width: number;
  readonly height: number;
  /** Where its first pixel is in the source, how far the next is from it, and the one below; in pixels. */
  readonly start: number;
  readonly stepX: number;
  readonly stepY: number;
}

function viewWords({ buffer, byteOffset, length }: Uint8Array<ArrayBuffer>): Uint32Array {
  return new Uint32Array(buffer, byteOffset, length / 4);
}

/** Pixel by pixel. */
function turnWords(
  from: Uint32Array,
  to: Uint32Array,
  { width, height, start, stepX, stepY }: Turn,
): void {
  for (let top = 0; top < height; top += TILE) {
    const bottom = Math.min(height, top + TILE);
    for (let left = 0; left < width; left += TILE) {
      const right = Math.min(width, left + TILE);
      for (let y = top; y < bottom; y++) {
        let at = start + y * stepY + left * stepX;
        const end = y * width + right;
        for (let into = y * width + left; into < end; into++, at += stepX) to[into] = from[at]!;
      }
    }
  }
}

/** Byte by byte, for rarely turned images. */
function turnBytes(
  from: Uint8Array,
  to: Uint8Array,
  { width, height, start, stepX, stepY, channels }: Turn & Pick<Pixels, "channels">,
): void {
  const step = stepX * channels;
  let into = 0;
  for (let y = 0; y < height; y++) {
    let at = (start + y * stepY) * channels;
    for (let x = 0; x < width; x++, at += step) {
      for (let channel = 0; channel < channels; channel++) to[into++] = from[at + channel]!;
    }
  }
}
