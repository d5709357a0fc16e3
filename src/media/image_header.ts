/**
 * What the header of an image file says: its format and size, and its colour profile (ICC.1), which defines the colours of
 * its pixel values: phones write Display P3.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import { AVIF } from "./image/avif.ts";
import { BMP, DIB } from "./image/bmp.ts";
import { type ImageFormat, type ImageSize, invalidImage, viewData } from "./image/format.ts";
import { GIF } from "./image/gif.ts";
import { HEIC } from "./image/heic.ts";
import { JPEG } from "./image/jpeg.ts";
import { PNG } from "./image/png.ts";
import { TIFF } from "./image/tiff.ts";
import { WEBP } from "./image/webp.ts";
import { describeUnread, hasText, type Signature } from "./signature.ts";
import { inflateSync } from "node:zlib";
import { joinBytes } from "../base/join_bytes.ts";
import { listPrimaryProperties } from "./image/heif_items.ts";
import { readTiffTags, TIFF_TAG } from "./image/tiff_tags.ts";

/** Formats in the order in which they are tried. */
const FORMATS: readonly ImageFormat[] = [JPEG, PNG, WEBP, GIF, AVIF, HEIC, TIFF, BMP, DIB];

/** Formats that cannot be read but are often sent as images. */
const UNREAD: readonly Signature[] = [
  ["a HEIF sequence", 4, "ftypmsf1"],
  ["a HEVC sequence", 4, "ftyphev"],
  ["animated AVIF", 4, "ftypavis"],
  ["Canon raw (CR3)", 4, "ftypcrx"],
  ["MP4 or QuickTime video", 4, "ftyp"],
  ["WebM or Matroska video", 0, "\x1a\x45\xdf\xa3"],
  ["JPEG XL", 0, "\xff\x0a"],
  ["JPEG XL", 4, "JXL "],
  ["JPEG 2000", 4, "jP  "],
  ["a JPEG 2000 stream", 0, "\xff\x4f\xff\x51"],
  ["JPEG XR", 0, "II\xbc"],
  ["JBIG2", 0, "\x97JB2"],
  ["BPG", 0, "BPG\xfb"],
  ["FLIF", 0, "FLIF"],
  ["QOI", 0, "qoif"],
  ["OpenEXR", 0, "v/1\x01"],
  ["Radiance HDR", 0, "#?RADIANCE"],
  ["Radiance HDR", 0, "#?RGBE"],
  ["FITS", 0, "SIMPLE  ="],
  ["DICOM", 128, "DICM"],
  ["Farbfeld", 0, "farbfeld"],
  ["GIMP (XCF)", 0, "gimp xcf"],
  ["MNG", 0, "\x8aMNG"],
  ["a Fujifilm raw image (RAF)", 0, "FUJIFILMCCD-RAW"],
  ["an Olympus raw image (ORF)", 0, "IIRO"],
  ["an Olympus raw image (ORF)", 0, "IIRS"],
  ["a Panasonic raw image (RW2)", 0, "IIU\0"],
  ["an Apple icon (ICNS)", 0, "icns"],
  ["a cursor (CUR)", 0, "\0\0\x02\0\x01\0"],
  ["KTX", 1, "KTX "],
  ["SGI", 0, "\x01\xda\0\x01"],
  ["SGI", 0, "\x01\xda\x01\x01"],
  ["Sun raster", 0, "\x59\xa6\x6a\x95"],
  ["Windows metafile (WMF)", 0, "\xd7\xcd\xc6\x9a"],
  ["Windows metafile (EMF)", 40, " EMF"],
  ["XPM", 0, "/* XPM */"],
  ["XBM", 0, "#define "],
  ["Photoshop", 0, "8BPS"],
  ["PDF", 0, "%PDF"],
  ["PostScript", 0, "%!PS"],
  ["DjVu", 0, "AT&TFORM"],
  ["an icon (ICO)", 0, "\0\0\x01\0"],
  ...Array.from("123456", (digit): Signature => ["Netpbm", 0, `P${digit}\n`]),
  ...Array.from("123456", (digit): Signature => ["Netpbm", 0, `P${digit} `]),
  ["Netpbm (PAM)", 0, "P7\n"],
  ["Portable float map (PFM)", 0, "PF\n"],
  ["Portable float map (PFM)", 0, "Pf\n"],
  ["DirectDraw (DDS)", 0, "DDS "],
  ["a ZIP archive", 0, "PK\x03\x04"],
];

/** An image file's header. */
export interface ImageHeader extends ImageSize {
  readonly format: ImageFormat;
}

/**
 * Reads an image file's header, without decoding pixels or allocating memory for them.
 *
 * @throws {HearthError} `invalid_media` when it is not an image, or its header is damaged.
 */
export function readImageHeader(file: Uint8Array<ArrayBuffer>): ImageHeader {
  if (file.length === 0) throw invalidImage("The image file is empty.");
  const format = FORMATS.find(({ matches }) => matches(file));
  if (format === undefined) {
    const read = FORMATS.map(({ name }) => name);
    throw invalidImage(
      describeUnread(file, {
        kind: "a supported image",
        unread: [...UNREAD, ...guessUnmarked(file)],
        read,
      }),
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

/** Guesses formats that have no signature, by the values in their headers. */
function guessUnmarked(file: Uint8Array): Signature[] {
  const [isTga, isPcx] = [
    hasText(file, file.length - 18, "TRUEVISION-XFILE.\0") || isTgaHeader(file),
    file.length > 128 && file[0] === 10 && file[1]! <= 5 && file[2]! <= 1 &&
    [1, 2, 4, 8].includes(file[3]!),
  ];
  return isTga ? [["TGA", 0, ""]] : isPcx ? [["PCX", 0, ""]] : [];
}

/** Whether a header is plausible for TGA: a known kind of image, a nonzero size, 8 to 32 bits a pixel. */
function isTgaHeader(file: Uint8Array): boolean {
  if (file.length <= 18) return false;
  const [, hasPalette, kind] = file;
  const isKind = hasPalette === 0
    ? [2, 3, 10, 11].includes(kind!)
    : hasPalette === 1 && [1, 9].includes(kind!);
  const view = viewData(file);
  return isKind && view.getUint16(12, true) > 0 && view.getUint16(14, true) > 0 &&
    [8, 15, 16, 24, 32].includes(file[16]!) && (file[17]! & 0xc0) === 0;
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

/** Number of pixels from an image file's header; 0 if the header is invalid, which the decoder will report. */
export function countPixels(file: Uint8Array<ArrayBuffer>): number {
  try {
    const { width, height } = readImageHeader(file);
    return width * height;
  } catch {
    return 0;
  }
}

/** Largest profile; usual ones have from 500 bytes to a few hundred kilobytes. */
const MAX_PROFILE_BYTES = 4 * 2 ** 20;
/** Offsets in a profile's header: of its colour space, and of its signature. */
const COLOR_SPACE_AT = 16;
const MARK_AT = 36;

const READERS: Readonly<Record<string, (file: Uint8Array<ArrayBuffer>) => Uint8Array | undefined>> =
  { PNG: readPng, JPEG: readJpeg, WebP: readWebp, AVIF: readHeif, HEIC: readHeif, TIFF: readTiff };

/**
 * A file's RGB profile. Grey and CMYK profiles are ignored, because pixels are decoded to RGB.
 *
 * @returns `undefined` if there is none, or it is damaged: the image can be used without.
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
 * Reads the chunks of a PNG file: length, type, data, checksum. The profile comes before the pixels, and has a name in
 * front.
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

/** Joins the segments of a JPEG file: each has at most 64 KiB, its number from 1 on, and the number of segments. */
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
