/**
 * The format and size of an image file, from its first bytes.
 *
 * @module
 */
import { HearthError } from "../errors.ts";
import { AVIF } from "./image/avif.ts";
import { BMP } from "./image/bmp.ts";
import { type ImageFormat, type ImageSize, invalidImage } from "./image/format.ts";
import { GIF } from "./image/gif.ts";
import { JPEG } from "./image/jpeg.ts";
import { PNG } from "./image/png.ts";
import { TIFF } from "./image/tiff.ts";
import { WEBP } from "./image/webp.ts";
import { describeUnread, type Signature } from "./signature.ts";

/** In the order they are tried. */
const FORMATS: readonly ImageFormat[] = [JPEG, PNG, WEBP, GIF, AVIF, TIFF, BMP];

/** Formats that are often sent as images all the same. */
const UNREAD: readonly Signature[] = [
  ["HEIC", 4, "ftyphei"],
  ["HEIC", 4, "ftypmif1"],
  ["HEIC", 4, "ftypmsf1"],
  ["HEIC", 4, "ftyphev"],
  ["animated AVIF", 4, "ftypavis"],
  ["Canon raw (CR3)", 4, "ftypcrx"],
  ["MP4 or QuickTime video", 4, "ftyp"],
  ["WebM or Matroska video", 0, "\x1a\x45\xdf\xa3"],
  ["JPEG XL", 0, "\xff\x0a"],
  ["JPEG XL", 4, "JXL "],
  ["JPEG 2000", 4, "jP  "],
  ["BigTIFF", 0, "II+\0"],
  ["BigTIFF", 0, "MM\0+"],
  ["Photoshop", 0, "8BPS"],
  ["PDF", 0, "%PDF"],
  ["PostScript", 0, "%!PS"],
  ["DjVu", 0, "AT&TFORM"],
  ["an icon (ICO)", 0, "\0\0\x01\0"],
  ["Netpbm", 0, "P4\n"],
  ["Netpbm", 0, "P5\n"],
  ["Netpbm", 0, "P6\n"],
  ["DirectDraw (DDS)", 0, "DDS "],
  ["a ZIP archive", 0, "PK\x03\x04"],
];

/** An image file's header. */
export interface ImageHeader extends ImageSize {
  readonly format: ImageFormat;
}

/**
 * Reads an image file's header; no pixel is decoded and nothing of the image's size is allocated.
 *
 * @throws {HearthError} `invalid_media` when it is not an image, or its header is damaged.
 */
export function readImageHeader(file: Uint8Array<ArrayBuffer>): ImageHeader {
  if (file.length === 0) throw invalidImage("The image file is empty.");
  const format = FORMATS.find(({ matches }) => matches(file));
  if (format === undefined) {
    const read = FORMATS.map(({ name }) => name);
    throw invalidImage(
      describeUnread(file, { kind: "a supported image", unread: UNREAD, read }),
    );
  }
  const size = readSize(format, file);
  if (size.width < 1 || size.height < 1) {
    throw invalidImage(
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
    throw invalidImage(`The ${format.name} file is damaged: its header is cut off.`, error);
  }
}

/** Number of pixels by an image file's header; 0 if invalid, which the decoder will refuse. */
export function numPixelsOf(file: Uint8Array<ArrayBuffer>): number {
  try {
    const { width, height } = readImageHeader(file);
    return width * height;
  } catch {
    return 0;
  }
}
