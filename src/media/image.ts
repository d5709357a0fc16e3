/**
 * Decodes an image file of any common format.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import { type ImageHeader, readImageHeader } from "./image_header.ts";
import { applyOrientation, invalidImage } from "./image/format.ts";
import { dropOpaqueAlpha, type Pixels } from "./pixels.ts";

/** Default limit for an image's pixels. */
export const DEFAULT_MAX_IMAGE_PIXELS = 64e6;
/** An image with more pixels counts as large: such images must not occupy all threads. */
export const MAX_SMALL_IMAGE_PIXELS = 32e6;

/**
 * Longest side, as in JPEG. Decoding a line one pixel high with a whole image's pixels would take a thousand times the
 * work.
 */
const MAX_SIDE = 65_535;

/** Limits and options of decoding. */
export interface DecodeImageOptions {
  /** Largest width × height; {@linkcode DEFAULT_MAX_IMAGE_PIXELS} if absent. */
  readonly maxPixels?: number | undefined;
  /** Whether to return an alpha channel even if all its pixels are opaque, which saves a pass over large images. */
  readonly keepsAlpha?: boolean | undefined;
}

/**
 * Decodes an image; of an animation or of several pages, the first one. The format is detected from the content. The
 * image is turned upright as its Exif orientation says. Grey and palettes become RGB, 16-bit samples keep their upper 8
 * bits, and CMYK becomes RGB without a colour profile. An image that is too large is refused after reading its header,
 * before memory is allocated.
 *
 * @returns 3 channels, or 4 if a pixel is not opaque or `keepsAlpha` is set; owned by the caller.
 * @throws {HearthError} `invalid_media` when the file is not an image, damaged, truncated, over the limit, or has a
 * side of more than 65,535 pixels.
 */
export async function decodeImage(
  bytes: Uint8Array,
  { maxPixels = DEFAULT_MAX_IMAGE_PIXELS, keepsAlpha = false }: DecodeImageOptions = {},
): Promise<Pixels> {
  const file = bytes as Uint8Array<ArrayBuffer>;
  const header = readImageHeader(file);
  const { width, height, orientation } = header;
  if (width * height > maxPixels) {
    const limit = `at most ${toMegapixels(maxPixels)} are allowed (--max-image-megapixels)`;
    throw invalidImage(
      `The ${header.format.name} image has ${width} × ${height} pixels, ` +
        `${toMegapixels(width * height)} megapixels; ${limit}.`,
    );
  }
  if (Math.max(width, height) > MAX_SIDE) {
    throw invalidImage(
      `The ${header.format.name} image has ${width} × ${height} pixels; a side may have at most ` +
        `${MAX_SIDE}.`,
    );
  }
  const pixels = await decode(file, header);
  const upright = applyOrientation(pixels, orientation);
  return keepsAlpha ? upright : dropOpaqueAlpha(upright);
}

function toMegapixels(numPixels: number): string {
  return (numPixels / 1e6).toLocaleString("en", { maximumSignificantDigits: 4 });
}

/** Runs the decoder of a format. Any error of it means that the file is damaged, unless memory ran out. */
async function decode(file: Uint8Array<ArrayBuffer>, header: ImageHeader): Promise<Pixels> {
  try {
    return await header.format.decode(file, header);
  } catch (error) {
    if (error instanceof HearthError) throw error;
    if (error instanceof RangeError && /allocation failed/i.test(error.message)) throw error;
    throw invalidImage(
      `The ${header.format.name} file is damaged or cut off and cannot be decoded.`,
      error,
    );
  }
}
