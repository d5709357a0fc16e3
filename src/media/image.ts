/**
 * Reads image files of any common format: their pixels and, from their headers, the format, the size and the colour
 * profile (ICC.1), which defines the colours of pixel values.
 *
 * @module
 */
import { HearthError, invalidMedia } from "../base/errors.ts";
import type { ImageFormat, ImageSize } from "./image/format.ts";
import { applyOrientation, readTiffTags, TIFF_TAG } from "./image/tiff_tags.ts";
import { describeUnread, hasText, viewData } from "./file_bytes.ts";
import { dropOpaqueAlpha, type Pixels } from "./pixels.ts";
import { AVIF, HEIC } from "./image/heif.ts";
import { BMP, DIB } from "./image/bmp.ts";
import { GIF } from "./image/gif.ts";
import { JPEG } from "./image/jpeg.ts";
import { PNG } from "./image/png.ts";
import { TIFF } from "./image/tiff.ts";
import { WEBP } from "./image/webp.ts";
import { inflateSync } from "node:zlib";
import { joinBytes } from "../base/bytes.ts";
import { listPrimaryProperties } from "./image/heif_items.ts";

/** Formats in the order in which they are tried. */
const FORMATS: readonly ImageFormat[] = [JPEG, PNG, WEBP, GIF, AVIF, HEIC, TIFF, BMP, DIB];

/** An image file's header. */
interface ImageHeader extends ImageSize {
  readonly format: ImageFormat;
}

/**
 * Reads an image file's header, without decoding pixels or allocating memory for them.
 *
 * @throws {HearthError} `invalid_media` when it is not an image, or its header is damaged.
 */
export function readImageHeader(file: Uint8Array<ArrayBuffer>): ImageHeader {
  if (file.length === 0) throw invalidMedia("The image file is empty.");
  const format = FORMATS.find(({ matches }) => matches(file));
  if (format === undefined) {
    const read = FORMATS.map(({ name }) => name);
    throw invalidMedia(describeUnread(file, "image", read));
  }
  const size = readSize(format, file);
  if (size.width < 1 || size.height < 1) {
    throw invalidMedia(
      `The ${format.name} file is damaged: its image has ${size.width} × ${size.height} pixels.`,
    );
  }
  return { format, ...size };
}

function readSize(format: ImageFormat, file: Uint8Array<ArrayBuffer>): ImageSize {
  try {
    const { width, height, orientation } = format.readSize(file);
    return { width, height, orientation };
  } catch (error) {
    if (error instanceof HearthError) throw error;
    throw invalidMedia(`The ${format.name} file is damaged: its header is cut off.`, error);
  }
}

/** Number of pixels from an image file's header; 0 if the header is invalid, which the decoder will report. */
export function countPixels(file: Uint8Array<ArrayBuffer>): number {
  try {
    const { width, height } = readImageHeader(file);
    return width * height;
  } catch {
    return 0;
  }
}

/** Default limit for an image's pixels. */
export const DEFAULT_MAX_IMAGE_PIXELS = 64e6;
/** An image with more pixels counts as large: such images must not occupy all threads. */
export const MAX_SMALL_IMAGE_PIXELS = 32e6;

/**
 * Longest side, as in JPEG. An image of one row with as many pixels as a photograph would take a thousand times the
 * work.
 */
const MAX_SIDE = 65_535;

/** Limits and options of decoding. */
export interface DecodeImageOptions {
  /** Largest width × height; {@linkcode DEFAULT_MAX_IMAGE_PIXELS} if absent. */
  readonly maxPixels?: number | undefined;
  /** Whether to keep the file's alpha channel even if all pixels are opaque, which saves a pass over large images. */
  readonly keepsAlpha?: boolean | undefined;
}

/**
 * Decodes an image, or the first image of an animation or of several pages. The format is detected from the content.
 * The image is rotated upright as its Exif orientation says. Grey and palettes become RGB, 16-bit samples keep their
 * upper 8 bits, and CMYK becomes RGB without a colour profile. An image that is too large is refused after reading its
 * header, before memory is allocated.
 *
 * @returns 3 channels, or 4 if a pixel is not opaque, or if the file has an alpha channel and `keepsAlpha` is set;
 * owned by the caller.
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
    throw invalidMedia(
      `The ${header.format.name} image has ${width} × ${height} pixels, ` +
        `${toMegapixels(width * height)} megapixels; ${limit}.`,
    );
  }
  if (Math.max(width, height) > MAX_SIDE) {
    throw invalidMedia(
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

/** Runs a format's decoder. Any error that it throws means that the file is damaged, unless memory ran out. */
async function decode(file: Uint8Array<ArrayBuffer>, header: ImageHeader): Promise<Pixels> {
  try {
    return await header.format.decode(file, header);
  } catch (error) {
    if (error instanceof HearthError) throw error;
    if (error instanceof RangeError && /allocation failed/i.test(error.message)) throw error;
    throw invalidMedia(
      `The ${header.format.name} file is damaged or cut off and cannot be decoded.`,
      error,
    );
  }
}

/** Largest profile; most have from 500 bytes to a few hundred kilobytes. */
const MAX_PROFILE_BYTES = 4 * 2 ** 20;
/** Offset of the colour space in a profile's header. */
const COLOR_SPACE_AT = 16;
/** Offset of the signature in a profile's header. */
const MARK_AT = 36;

const READERS: Readonly<Record<string, (file: Uint8Array<ArrayBuffer>) => Uint8Array | undefined>> =
  { PNG: readPng, JPEG: readJpeg, WebP: readWebp, AVIF: readHeif, HEIC: readHeif, TIFF: readTiff };

/**
 * A file's RGB profile. Grey and CMYK profiles are ignored, because pixels are decoded to RGB.
 *
 * @returns `undefined` if there is none, or if it is damaged, since the image can be used without it.
 */
export function readColorProfile(file: Uint8Array<ArrayBuffer>): Uint8Array | undefined {
  try {
    const profile = READERS[readImageHeader(file).format.name]?.(file);
    const isRgb = profile !== undefined && profile.length <= MAX_PROFILE_BYTES &&
      hasText(profile, COLOR_SPACE_AT, "RGB ") && hasText(profile, MARK_AT, "acsp");
    return isRgb ? profile : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Finds the profile among the chunks of a PNG file (length, type, data, checksum). The profile's chunk comes before the
 * pixels, and begins with the profile's name.
 */
function readPng(file: Uint8Array): Uint8Array | undefined {
  const view = viewData(file);
  for (let at = 8; at + 8 <= file.length && !hasText(file, at + 4, "IDAT");) {
    const length = view.getUint32(at);
    if (hasText(file, at + 4, "iCCP")) {
      const data = file.subarray(at + 8, at + 8 + length);
      const packed = data.subarray(data.indexOf(0) + 2);
      return new Uint8Array(inflateSync(packed, { maxOutputLength: MAX_PROFILE_BYTES }));
    }
    at += 12 + length;
  }
  return undefined;
}

/**
 * Joins a JPEG file's profile segments of at most 64 KiB. Each gives its number, counted from 1, and the number of
 * segments.
 */
function readJpeg(file: Uint8Array): Uint8Array | undefined {
  const NAME = "ICC_PROFILE\0";
  const view = viewData(file);
  const parts: Uint8Array[] = [];
  // The image itself begins with marker DA.
  for (let at = 2; at + 4 <= file.length && file[at] === 0xff && file[at + 1] !== 0xda;) {
    const length = view.getUint16(at + 2);
    if (file[at + 1] === 0xe2 && hasText(file, at + 4, NAME)) {
      const from = at + 4 + NAME.length;
      parts[file[from]!] = file.subarray(from + 2, at + 2 + length);
    }
    at += 2 + length;
  }
  const whole = joinBytes(parts.filter((part) => part !== undefined));
  return whole.length === 0 ? undefined : whole;
}

function readWebp(file: Uint8Array): Uint8Array | undefined {
  const view = viewData(file);
  for (let at = 12; at + 8 <= file.length;) {
    const length = view.getUint32(at + 4, true);
    if (hasText(file, at, "ICCP")) return file.subarray(at + 8, at + 8 + length);
    at += 8 + length + length % 2;
  }
  return undefined;
}

/**
 * Finds a profile in a colour box, which begins with its kind: `prof` and `rICC` are profiles, `nclx` only names a
 * colour space.
 */
function readHeif(file: Uint8Array<ArrayBuffer>): Uint8Array | undefined {
  for (const { type, view } of listPrimaryProperties(file, "HEIF")) {
    const bytes = new Uint8Array(file.buffer, view.byteOffset, view.byteLength);
    if (type === "colr" && (hasText(bytes, 0, "prof") || hasText(bytes, 0, "rICC"))) {
      return bytes.subarray(4);
    }
  }
  return undefined;
}

function readTiff(file: Uint8Array): Uint8Array | undefined {
  const values = readTiffTags(file).get(TIFF_TAG.colorProfile);
  return values && Uint8Array.from(values);
}
