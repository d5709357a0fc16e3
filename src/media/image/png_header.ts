/**
 * A PNG file's header chunk, and the layout of its rows.
 *
 * @module
 */
import { invalidImage, viewData } from "./format.ts";
import { hasText } from "../signature.ts";

/** The header chunk. */
export interface PngHeader {
  readonly width: number;
  readonly height: number;
  /** Bits of a sample: 1, 2, 4, 8 or 16. */
  readonly depth: number;
  readonly colorType: PngColorType;
  readonly isInterlaced: boolean;
}

/** Grey, RGB, palette, grey with alpha, RGB with alpha. */
type PngColorType = 0 | 2 | 3 | 4 | 6;

const DEPTHS: Readonly<Record<PngColorType, readonly number[]>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
};

/** Samples of a pixel. */
export const PNG_SAMPLES: Readonly<Record<PngColorType, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

/** A part of the image with its own rows: all of it, or one of the seven passes of an interlaced one. */
export interface PngPass {
  readonly width: number;
  readonly height: number;
  readonly rowBytes: number;
  /** The pixel `(x, y)` of the pass is `(left + x * stepX, top + y * stepY)` of the image. */
  readonly left: number;
  readonly top: number;
  readonly stepX: number;
  readonly stepY: number;
}

/** Adam7: left, top and steps of each pass. */
const PASSES = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

/** @throws {HearthError} `invalid_media` when it is missing or invalid. */
export function readPngHeader(file: Uint8Array): PngHeader {
  if (!hasText(file, 12, "IHDR")) throw invalidImage("The PNG file has no header.");
  const view = viewData(file);
  const width = view.getUint32(16);
  const height = view.getUint32(20);
  const depth = view.getUint8(24);
  const colorType = view.getUint8(25) as PngColorType;
  const isKnown = DEPTHS[colorType]?.includes(depth) && view.getUint16(26) === 0 &&
    view.getUint8(28) <= 1;
  if (!isKnown) {
    throw invalidImage(
      `The PNG file's header is damaged: no image has colour type ${colorType} at ${depth} bits.`,
    );
  }
  return { width, height, depth, colorType, isInterlaced: view.getUint8(28) === 1 };
}

/** All of an image, or the passes of an interlaced one that hold pixels. */
export function listPasses(
  { width, height, depth, colorType, isInterlaced }: PngHeader,
): PngPass[] {
  const grids = isInterlaced ? PASSES : [[0, 0, 1, 1]] as const;
  const passes = grids.map(([left, top, stepX, stepY]) => {
    const passWidth = Math.ceil((width - left) / stepX);
    const rowBytes = Math.ceil(passWidth * PNG_SAMPLES[colorType] * depth / 8);
    const passHeight = Math.ceil((height - top) / stepY);
    return { width: passWidth, height: passHeight, rowBytes, left, top, stepX, stepY };
  });
  return passes.filter((pass) => pass.width > 0 && pass.height > 0);
}
