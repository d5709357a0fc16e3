/**
 * Reads the format and size of an image file from its first bytes.
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
