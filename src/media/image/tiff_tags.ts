/**
 * Reads the tags of a TIFF directory (TIFF 6.0, section 2), which Exif data also contain, and applies the orientation
 * that they give to an image.
 *
 * @module
 */
import type { Pixels } from "../pixels.ts";
import { hasText, viewData } from "../file_bytes.ts";

/** The tags that are read here, by name. */
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
  faxOptions: 292,
  predictor: 317,
  colorMap: 320,
  tileWidth: 322,
  tileHeight: 323,
  tileOffsets: 324,
  tileByteCounts: 325,
  extraSamples: 338,
  sampleFormat: 339,
  jpegTables: 347,
  chromaSubsampling: 530,
  xmp: 700,
  colorProfile: 34675,
} as const;

/** The tags of a directory. */
export interface TiffTags {
  readonly isLittleEndian: boolean;
  /** The values of a tag; `undefined` if it is missing, does not hold unsigned integers, or has too many values. */
  readonly get: (tag: number) => readonly number[] | undefined;
}

/** Bytes of a value by its type number: byte, short, long, undefined, directory, and BigTIFF's 64-bit types. */
const VALUE_BYTES: Readonly<Record<number, 1 | 2 | 4 | 8>> = {
  1: 1,
  3: 2,
  4: 4,
  7: 1,
  13: 4,
  16: 8,
  18: 8,
};
/**
 * Maximum number of values of a tag: enough for the largest palette, the offsets of many tiles, or a colour profile.
 */
const MAX_VALUES = 2 ** 20;
/** Maximum number of entries of a directory: TIFF cannot have more, and BigTIFF does not need more. */
const MAX_ENTRIES = 65_535;

/** The first bytes of a file: the byte order, and 42, or 43 if offsets have 64 bits. */
const HEADERS = [
  { text: "II*\0", isLittleEndian: true, isBig: false },
  { text: "MM\0*", isLittleEndian: false, isBig: false },
  { text: "II+\0\b\0\0\0", isLittleEndian: true, isBig: true },
  { text: "MM\0+\0\b\0\0", isLittleEndian: false, isBig: true },
];

/** Whether a file is TIFF or BigTIFF. */
export function isTiff(file: Uint8Array): boolean {
  return findHeader(file) !== undefined;
}

function findHeader(file: Uint8Array) {
  return HEADERS.find(({ text }) => hasText(file, 0, text));
}

/**
 * Reads the first directory.
 *
 * @throws {RangeError} when it lies beyond the end of the file.
 */
export function readTiffTags(file: Uint8Array): TiffTags {
  const { isLittleEndian, isBig } = findHeader(file)!;
  const reader = new TiffReader(file, isLittleEndian);
  const directory = isBig ? reader.read(8, 8) : reader.read(4, 4);
  const numEntries = reader.read(directory, isBig ? 8 : 2);
  if (numEntries > MAX_ENTRIES) throw new RangeError(`a directory of ${numEntries} entries`);
  const [firstAt, entryBytes] = isBig ? [directory + 8, 20] : [directory + 2, 12];
  const entries = new Map<number, number>();
  for (let i = 0; i < numEntries; i++) {
    const entry = firstAt + i * entryBytes;
    entries.set(reader.read(entry, 2), entry);
  }
  // Values are read on demand: each of 65,535 entries in a hostile directory can refer to the whole file.
  const get = (tag: number) => {
    const entry = entries.get(tag);
    return entry === undefined ? undefined : reader.readValues(entry, isBig ? 8 : 4);
  };
  return { isLittleEndian, get };
}

class TiffReader {
  readonly #view: DataView;
  readonly #isLittleEndian: boolean;

  constructor(file: Uint8Array, isLittleEndian: boolean) {
    this.#view = viewData(file);
    this.#isLittleEndian = isLittleEndian;
  }

  /** @throws {RangeError} when the number lies beyond the end of the file. */
  read(at: number, numBytes: 1 | 2 | 4 | 8): number {
    const [view, isLittleEndian] = [this.#view, this.#isLittleEndian];
    if (numBytes === 1) return view.getUint8(at);
    if (numBytes === 2) return view.getUint16(at, isLittleEndian);
    if (numBytes === 4) return view.getUint32(at, isLittleEndian);
    return Number(view.getBigUint64(at, isLittleEndian));
  }

  /** @param wordBytes bytes of a count, of an offset, and of values stored in place of an offset. */
  readValues(entry: number, wordBytes: 4 | 8): number[] | undefined {
    const numBytes = VALUE_BYTES[this.read(entry + 2, 2)];
    const count = this.read(entry + 4, wordBytes);
    if (numBytes === undefined || count > MAX_VALUES) return undefined;
    const valueAt = entry + 4 + wordBytes;
    const isInline = count * numBytes <= wordBytes;
    const from = isInline ? valueAt : this.read(valueAt, wordBytes);
    if (from + count * numBytes > this.#view.byteLength) return undefined;
    return Array.from({ length: count }, (_, i) => this.read(from + i * numBytes, numBytes));
  }
}

/** The metadata of a file that may give its orientation. */
interface OrientationSources {
  /** Exif data, with or without `Exif\0\0` before them. */
  readonly exif: Uint8Array | undefined;
  readonly xmp: Uint8Array | undefined;
}

/** Reads an image's orientation from its Exif data, or else, as Pillow does, from its XMP. */
export function findOrientation({ exif, xmp }: OrientationSources): Orientation {
  const value = exif === undefined ? undefined : readExifOrientation(exif);
  return toOrientation(value ?? (xmp === undefined ? undefined : readXmpOrientation(xmp)));
}

/** The number in Exif data; `undefined` if they are damaged, since the image can still be read. */
function readExifOrientation(exif: Uint8Array): number | undefined {
  const file = hasText(exif, 0, "Exif\0\0") ? exif.subarray(6) : exif;
  if (!isTiff(file)) return undefined;
  try {
    return readTiffTags(file).get(TIFF_TAG.orientation)?.[0];
  } catch {
    return undefined;
  }
}

/** The number in XMP, where it is an attribute or an element. */
function readXmpOrientation(xmp: Uint8Array): number | undefined {
  const digit = /tiff:Orientation(?:="|>)([0-9])/.exec(new TextDecoder("latin1").decode(xmp))?.[1];
  return digit === undefined ? undefined : Number(digit);
}

/**
 * Exif's numbers for orientations. An image with orientation 1 is upright; the others must be rotated, mirrored, or
 * both.
 */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

/** Reads a file's number as an orientation; invalid numbers mean upright. */
function toOrientation(value: number | undefined): Orientation {
  return value !== undefined && value >= 1 && value <= 8 && Number.isInteger(value)
    ? value as Orientation
    : 1;
}

/** Whether the orientation swaps width and height. */
export function swapsSides(orientation: Orientation): boolean {
  return orientation >= 5;
}

/**
 * Side of the square tiles that are rotated one after the other, so that the rows of the source and of the result stay
 * in the core's cache.
 */
const TILE = 32;

/** Rotates and mirrors an image so that it is upright. An upright image is returned unchanged. */
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
  const rotation = { width: toWidth, height: toHeight, start, stepX, stepY };
  if (channels === 4 && data.byteOffset % 4 === 0) {
    rotateWords(viewWords(data), viewWords(to), rotation);
  } else rotateBytes(data, to, { ...rotation, channels });
  return { width: toWidth, height: toHeight, channels, data: to };
}

interface Rotation {
  /** Width of the result. */
  readonly width: number;
  readonly height: number;
  /** Index in the source of the result's first pixel. */
  readonly start: number;
  /** Distance in the source to the result's next pixel to the right. */
  readonly stepX: number;
  /** Distance in the source to the result's pixel below. */
  readonly stepY: number;
}

function viewWords({ buffer, byteOffset, length }: Uint8Array<ArrayBuffer>): Uint32Array {
  return new Uint32Array(buffer, byteOffset, length / 4);
}

/** Rotates pixel by pixel. */
function rotateWords(
  from: Uint32Array,
  to: Uint32Array,
  { width, height, start, stepX, stepY }: Rotation,
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

/** Rotates byte by byte. This is slower, but images without four channels are rarely rotated. */
function rotateBytes(
  from: Uint8Array,
  to: Uint8Array,
  { width, height, start, stepX, stepY, channels }: Rotation & Pick<Pixels, "channels">,
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
