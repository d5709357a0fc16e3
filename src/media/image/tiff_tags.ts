/**
 * The tags of a TIFF directory (TIFF 6.0, section 2), which Exif data are written in too.
 *
 * @module
 */
import { type Orientation, toOrientation } from "./orientation.ts";
import { hasText, viewOf } from "./format.ts";

/** Tags Hearth reads, by their numbers. */
export const TIFF_TAG = {
  width: 256,
  height: 257,
  bitsPerSample: 258,
  compression: 259,
  photometric: 262,
  fillOrder: 266,
  stripOffsets: 273,
  orientation: 274,
  samplesPerPixel: 277,
  rowsPerStrip: 278,
  stripByteCounts: 279,
  planarConfiguration: 284,
  predictor: 317,
  colorMap: 320,
  tileWidth: 322,
  tileHeight: 323,
  tileOffsets: 324,
  tileByteCounts: 325,
  extraSamples: 338,
  sampleFormat: 339,
} as const;

/** The values of each tag by its number; a tag that holds no unsigned integers is left out. */
export type TiffTags = ReadonlyMap<number, readonly number[]>;

const ENTRY_BYTES = 12;
/** Bytes of a value by its type: byte, short, long. */
const VALUE_BYTES: Readonly<Record<number, number>> = { 1: 1, 3: 2, 4: 4 };

/** Whether the file is little-endian; `undefined` if it is no TIFF. */
export function tiffByteOrder(file: Uint8Array): boolean | undefined {
  if (hasText(file, 0, "II*\0")) return true;
  return hasText(file, 0, "MM\0*") ? false : undefined;
}

/**
 * Reads the first directory.
 *
 * @throws {RangeError} when it lies beyond the end of the file.
 */
export function readTiffTags(file: Uint8Array, isLittleEndian: boolean): TiffTags {
  const view = viewOf(file);
  const directory = view.getUint32(4, isLittleEndian);
  const numEntries = view.getUint16(directory, isLittleEndian);
  const tags = new Map<number, number[]>();
  for (let i = 0; i < numEntries; i++) {
    const entry = directory + 2 + i * ENTRY_BYTES;
    const bytes = VALUE_BYTES[view.getUint16(entry + 2, isLittleEndian)];
    const count = view.getUint32(entry + 4, isLittleEndian);
    if (bytes === undefined) continue;
    const isInline = count * bytes <= 4;
    const from = isInline ? entry + 8 : view.getUint32(entry + 8, isLittleEndian);
    // Another tag's values may be anywhere; those that are looked at must be there.
    if (from + count * bytes > file.length) continue;
    const values = Array.from({ length: count }, (_, index) => {
      const at = from + index * bytes;
      if (bytes === 1) return view.getUint8(at);
      return bytes === 2 ? view.getUint16(at, isLittleEndian) : view.getUint32(at, isLittleEndian);
    });
    tags.set(view.getUint16(entry, isLittleEndian), values);
  }
  return tags;
}

/** The orientation in Exif data; damaged ones say nothing, since the picture is there all the same. */
export function readExifOrientation(exif: Uint8Array): Orientation {
  const isLittleEndian = tiffByteOrder(exif);
  if (isLittleEndian === undefined) return 1;
  try {
    return toOrientation(readTiffTags(exif, isLittleEndian).get(TIFF_TAG.orientation)?.[0]);
  } catch {
    return 1;
  }
}
