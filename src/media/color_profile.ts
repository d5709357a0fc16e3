/**
 * Reads the colour profile (ICC.1) in an image file, which defines the colours of its pixel values: phones write
 * Display P3.
 *
 * @module
 */
import { inflateSync } from "node:zlib";
import { joinBytes } from "../base/join_bytes.ts";
import { viewData } from "./image/format.ts";
import { listPrimaryProperties } from "./image/heif_items.ts";
import { readImageHeader } from "./image_header.ts";
import { readTiffTags, TIFF_TAG } from "./image/tiff_tags.ts";
import { hasText } from "./signature.ts";

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
