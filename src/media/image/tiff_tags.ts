/**
 * The tags of a TIFF directory (TIFF 6.0, section 2), which Exif data are written in too.
 *
 * @module
 */
import { viewOf } from "./format.ts";
import { hasText } from "../signature.ts";
import { type Orientation, toOrientation } from "./orientation.ts";

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

/** A directory. */
interface TiffTags {
  /** The values of a tag; `undefined` if it is missing, is not of unsigned integers, or has too many. */
  readonly get: (tag: number) => readonly number[] | undefined;
}

const ENTRY_BYTES = 12;
/** Bytes of a value by its type: byte, short, long. */
const VALUE_BYTES: Readonly<Record<number, number>> = { 1: 1, 3: 2, 4: 4 };
/** Most values of a tag: more than the largest palette, or the offsets of the most pieces. */
const MAX_VALUES = 2 ** 18;

/** Whether the file is little-endian; `undefined` if it is not TIFF. */
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
  const entries = new Map<number, number>();
  for (let i = 0; i < numEntries; i++) {
    const entry = directory + 2 + i * ENTRY_BYTES;
    entries.set(view.getUint16(entry, isLittleEndian), entry);
  }
  // Values are read on demand: a hostile directory can name the whole file in each of 65,535 entries.
  const get = (tag: number) => {
    const entry = entries.get(tag);
    return entry === undefined ? undefined : readValues(view, entry, isLittleEndian);
  };
  return { get };
}

function readValues(view: DataView, entry: number, isLittleEndian: boolean): number[] | undefined {
  const bytes = VALUE_BYTES[view.getUint16(entry + 2, isLittleEndian)];
  const count = view.getUint32(entry + 4, isLittleEndian);
  if (bytes === undefined || count > MAX_VALUES) return undefined;
  const isInline = count * bytes <= 4;
  const from = isInline ? entry + 8 : view.getUint32(entry + 8, isLittleEndian);
  if (from + count * bytes > view.byteLength) return undefined;
  return Array.from({ length: count }, (_, index) => {
    const at = from + index * bytes;
    if (bytes === 1) return view.getUint8(at);
    return bytes === 2 ? view.getUint16(at, isLittleEndian) : view.getUint32(at, isLittleEndian);
  });
}

/** The orientation in Exif data; upright if damaged, since the image can still be read. */
export function readExifOrientation(exif: Uint8Array): Orientation {
  const isLittleEndian = tiffByteOrder(exif);
  if (isLittleEndian === undefined) return 1;
  try {
    return toOrientation(readTiffTags(exif, isLittleEndian).get(TIFF_TAG.orientation)?.[0]);
  } catch {
    return 1;
  }
}

/** The layout and meaning of a TIFF file's samples. */
export interface TiffLayout {
  readonly width: number;
  readonly height: number;
  /** 1, 2, 4, 8 or 16. */
  readonly bits: number;
  readonly numSamples: number;
  readonly photometric: number;
  /** Whether the samples of a pixel lie in planes of their own. */
  readonly isPlanar: boolean;
  readonly isLittleEndian: boolean;
  readonly tags: TiffTags;
}
