/**
 * What image formats share: their interface, the error for a damaged file, and the orientations of Exif.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import type { Pixels } from "../pixels.ts";

/** The content of a file's header. */
export interface ImageSize {
  /** Width as stored. With orientations 5 to 8, the image is shown turned by a quarter. */
  readonly width: number;
  /** Height as stored. */
  readonly height: number;
  readonly orientation: Orientation;
}

/** A format of image files. Any error thrown by its functions means that the file is damaged. */
export interface ImageFormat {
  readonly name: string;
  /** Whether a file has this format, by its first bytes. */
  readonly matches: (file: Uint8Array) => boolean;
  /** Reads the size from the header, without allocating memory for pixels. */
  readonly readSize: (file: Uint8Array<ArrayBuffer>) => ImageSize;
  /**
   * Decodes the first image as it is stored, ignoring its orientation.
   *
   * @param size result of `readSize`; the decoded image must have this size.
   */
  readonly decode: (file: Uint8Array<ArrayBuffer>, size: ImageSize) => Pixels | Promise<Pixels>;
}

/** The error for a file that is not an image, or that is incomplete. */
export function invalidImage(message: string, cause?: unknown): HearthError {
  return new HearthError("invalid_media", message, { cause });
}

/** A view that reads numbers of a file, and throws beyond its end. */
export function viewData(file: Uint8Array): DataView {
  return new DataView(file.buffer, file.byteOffset, file.byteLength);
}

/** Exif's numbers for which side of the stored image is the top, and which is the left. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

/** Reads a file's number as an orientation; invalid numbers mean upright. */
export function toOrientation(value: number | undefined): Orientation {
  return value !== undefined && value >= 1 && value <= 8 && Number.isInteger(value)
    ? value as Orientation
    : 1;
}

/** Whether the orientation swaps width and height. */
export function swapsSides(orientation: Orientation): boolean {
  return orientation >= 5;
}

/**
 * Side of the square tiles that are rotated one after the other, so that the rows of both images stay in the core's
 * cache.
 */
const TILE = 32;

/** Turns an image upright; if it already is, returns the same object. */
export function applyOrientation(pixels: Pixels, orientation: Orientation): Pixels {
  if (orientation === 1) return pixels;
  const { width, height, channels, data } = pixels;
  const turned = swapsSides(orientation);
  const [toWidth, toHeight] = turned ? [height, width] : [width, height];
  const mirrorsX = [2, 3, 7, 8].includes(orientation);
  const mirrorsY = [3, 4, 6, 7].includes(orientation);
  // Distances in the source, in pixels: between neighbours in a row of the result, and between rows.
  const toRight = mirrorsX ? -1 : 1;
  const toBelow = mirrorsY ? -width : width;
  const start = (mirrorsX ? width - 1 : 0) + (mirrorsY ? (height - 1) * width : 0);
  const [stepX, stepY] = turned ? [toBelow, toRight] : [toRight, toBelow];

  const to = new Uint8Array(width * height * channels);
  const turn = { width: toWidth, height: toHeight, start, stepX, stepY };
  if (channels === 4 && data.byteOffset % 4 === 0) {
    rotateWords(viewWords(data), viewWords(to), turn);
  } else rotateBytes(data, to, { ...turn, channels });
  return { width: toWidth, height: toHeight, channels, data: to };
}

interface Turn {
  /** Width of the result. */
  readonly width: number;
  readonly height: number;
  /** Index in the source of the result's first pixel, and the distances to its neighbour and to the pixel below. */
  readonly start: number;
  readonly stepX: number;
  readonly stepY: number;
}

function viewWords({ buffer, byteOffset, length }: Uint8Array<ArrayBuffer>): Uint32Array {
  return new Uint32Array(buffer, byteOffset, length / 4);
}

/** Rotates pixel by pixel. */
function rotateWords(
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

/** Rotates byte by byte, for images that are rarely rotated. */
function rotateBytes(
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
