/**
 * Reads BMP files: 1 to 32 bits a pixel, with palettes, bit masks and run lengths. A device-independent bitmap (DIB),
 * which clipboards hold, is such a file without its first 14 bytes.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import type { Pixels } from "../pixels.ts";
import type { ImageFormat, ImageSize } from "./format.ts";
import { hasText, viewData } from "../file_bytes.ts";

interface BmpHeader {
  readonly width: number;
  readonly height: number;
  /** Whether the file's first row is the top of the image; usually it is the bottom. */
  readonly isTopDown: boolean;
  readonly bitsPerPixel: number;
  readonly compression: number;
  /** Bit masks of red, green, blue and alpha; `undefined` if none apply. */
  readonly masks: readonly [number, number, number, number] | undefined;
  readonly paletteAt: number;
  /** Bytes of a palette entry: blue, green, red and usually an unused one. */
  readonly entryBytes: 3 | 4;
  readonly pixelsAt: number;
}

/** Length of OS/2's first header. */
const CORE_HEADER = 12;
/** Lengths of all versions of the header. */
const HEADERS = [CORE_HEADER, 16, 40, 52, 56, 64, 108, 124];
// Kinds of compression, by their numbers in the header.
const RGB = 0;
const RLE8 = 1;
const RLE4 = 2;
const BIT_FIELDS = 3;
const ALPHA_BIT_FIELDS = 6;

/** Default masks by bits per pixel, for files that have none. */
const DEFAULT_MASKS: Readonly<Record<number, readonly [number, number, number, number]>> = {
  16: [0x7c00, 0x03e0, 0x001f, 0],
  32: [0xff0000, 0xff00, 0xff, 0],
};
/** The bits per pixel that each compression may have. */
const DEPTHS: Readonly<Record<number, readonly number[]>> = {
  [RGB]: [1, 2, 4, 8, 16, 24, 32],
  [RLE8]: [8],
  [RLE4]: [4],
  [BIT_FIELDS]: [16, 32],
  [ALPHA_BIT_FIELDS]: [16, 32],
};

/** A bitmap with the file header. */
export const BMP: ImageFormat = {
  name: "BMP",
  matches: (file) => hasText(file, 0, "BM") && file.length > 18 && HEADERS.includes(file[14]!),
  readSize: (file): ImageSize => {
    const { width, height } = readHeader(file);
    return { width, height, orientation: 1 };
  },
  decode,
};

/** A bitmap without the file header. */
export const DIB: ImageFormat = {
  name: "DIB",
  matches: isDib,
  readSize: (dib) => BMP.readSize(addFileHeader(dib)),
  decode: (dib) => decode(addFileHeader(dib)),
};

const FILE_HEADER_BYTES = 14;
const MAX_BITS = 32;

function isDib(file: Uint8Array): boolean {
  if (file.length < 40) return false;
  const view = viewData(file);
  const headerBytes = view.getUint32(0, true);
  if (!HEADERS.includes(headerBytes)) return false;
  const at = headerBytes === CORE_HEADER ? 8 : 12;
  const bits = view.getUint16(at + 2, true);
  return view.getUint16(at, true) === 1 && bits >= 1 && bits <= MAX_BITS;
}

function addFileHeader(dib: Uint8Array): Uint8Array<ArrayBuffer> {
  const file = new Uint8Array(FILE_HEADER_BYTES + dib.length);
  file.set(dib, FILE_HEADER_BYTES);
  const header = readHeader(file);
  const numUsed = header.entryBytes === 4 && dib[0]! >= 40 ? viewData(dib).getUint32(32, true) : 0;
  const numColors = numUsed || (header.bitsPerPixel <= 8 ? 1 << header.bitsPerPixel : 0);
  const pixelsAt = header.paletteAt + header.entryBytes * numColors;
  viewData(file).setUint32(10, Math.min(pixelsAt, file.length), true);
  return file;
}

function readHeader(file: Uint8Array): BmpHeader {
  const view = viewData(file);
  const headerBytes = view.getUint32(14, true);
  const pixelsAt = view.getUint32(10, true);
  if (headerBytes === CORE_HEADER) {
    return {
      width: view.getUint16(18, true),
      height: view.getUint16(20, true),
      isTopDown: false,
      bitsPerPixel: view.getUint16(24, true),
      compression: RGB,
      masks: undefined,
      paletteAt: 26,
      entryBytes: 3,
      pixelsAt,
    };
  }
  const height = view.getInt32(22, true);
  const bitsPerPixel = view.getUint16(28, true);
  const compression = headerBytes > 16 ? view.getUint32(30, true) : RGB;
  const hasMasks = compression === BIT_FIELDS || compression === ALPHA_BIT_FIELDS;
  const hasAlphaMask = compression === ALPHA_BIT_FIELDS || headerBytes >= 56 && headerBytes !== 64;
  const [red, green, blue] = [54, 58, 62].map((at) => hasMasks ? view.getUint32(at, true) : 0);
  const alpha = hasMasks && hasAlphaMask ? view.getUint32(66, true) : 0;
  // The masks follow the first version of Windows' header; later versions contain them.
  const maskBytes = headerBytes > 40 || !hasMasks ? 0 : compression === BIT_FIELDS ? 12 : 16;
  return {
    width: Math.max(0, view.getInt32(18, true)),
    height: Math.abs(height),
    isTopDown: height < 0,
    bitsPerPixel,
    compression,
    masks: hasMasks ? [red!, green!, blue!, alpha] : DEFAULT_MASKS[bitsPerPixel],
    paletteAt: 14 + headerBytes + maskBytes,
    entryBytes: 4,
    pixelsAt,
  };
}

function decode(file: Uint8Array<ArrayBuffer>): Pixels {
  const header = readHeader(file);
  const { width, height, bitsPerPixel, compression } = header;
  if (!DEPTHS[compression]?.includes(bitsPerPixel)) {
    throw invalidMedia(
      `The BMP file cannot be read: it has ${bitsPerPixel} bits per pixel in compression ${compression}.`,
    );
  }
  const packed = file.subarray(header.pixelsAt);
  if (compression === RLE8 || compression === RLE4) {
    const indexes = unpackBmpRuns(packed, { width, height, bits: compression === RLE8 ? 8 : 4 });
    return colorize(file, header, { rows: indexes, rowBytes: width, bits: 8 });
  }
  const rowBytes = Math.ceil(width * bitsPerPixel / 32) * 4;
  if (packed.length < rowBytes * (height - 1) + Math.ceil(width * bitsPerPixel / 8)) {
    throw invalidMedia(
      `The BMP file is cut off: ${width} × ${height} pixels need ${rowBytes * height} bytes, ` +
        `and there are ${packed.length}.`,
    );
  }
  if (bitsPerPixel === 24) return copyRows(packed, header, rowBytes);
  const rows = { rows: packed, rowBytes, bits: bitsPerPixel };
  return bitsPerPixel <= 8 ? colorize(file, header, rows) : applyMasks(rows, header);
}

interface Rows {
  readonly rows: Uint8Array;
  readonly rowBytes: number;
  readonly bits: number;
}

/** The row in the file for a row of the image. */
function toFileRow(y: number, { isTopDown, height }: BmpHeader): number {
  return isTopDown ? y : height - 1 - y;
}

/** Looks up palette indices. An index beyond the palette is black. */
function colorize(file: Uint8Array, header: BmpHeader, { rows, rowBytes, bits }: Rows): Pixels {
  const { width, height, paletteAt, entryBytes } = header;
  const endAt = header.pixelsAt > paletteAt ? header.pixelsAt : file.length;
  const palette = file.subarray(paletteAt, Math.min(endAt, paletteAt + (entryBytes << bits)));
  const data = new Uint8Array(width * height * 3);
  const mask = (1 << bits) - 1;
  for (let y = 0, to = 0; y < height; y++) {
    const from = toFileRow(y, header) * rowBytes;
    for (let x = 0; x < width; x++) {
      const bit = x * bits;
      const index = rows[from + (bit >> 3)]! >> (8 - bits - (bit & 7)) & mask;
      data[to++] = palette[index * entryBytes + 2]!;
      data[to++] = palette[index * entryBytes + 1]!;
      data[to++] = palette[index * entryBytes]!;
    }
  }
  return { width, height, channels: 3, data };
}

/** Converts pixels of 24 bits: blue, green, red. */
function copyRows(rows: Uint8Array, header: BmpHeader, rowBytes: number): Pixels {
  const { width, height } = header;
  const data = new Uint8Array(width * height * 3);
  for (let y = 0, to = 0; y < height; y++) {
    let from = toFileRow(y, header) * rowBytes;
    for (let x = 0; x < width; x++, from += 3) {
      data[to++] = rows[from + 2]!;
      data[to++] = rows[from + 1]!;
      data[to++] = rows[from]!;
    }
  }
  return { width, height, channels: 3, data };
}

/** Converts pixels of 16 or 32 bits by their channel masks. */
function applyMasks({ rows, rowBytes, bits }: Rows, header: BmpHeader): Pixels {
  const { width, height, masks } = header;
  const view = viewData(rows);
  const channels = masks![3] === 0 ? 3 : 4;
  const parts = masks!.slice(0, channels).map((mask) => {
    const shift = mask === 0 ? 0 : 31 - Math.clz32(mask & -mask);
    const max = mask >>> shift;
    return { shift, max, scale: max === 0 ? 0 : 255 / max };
  });
  const data = new Uint8Array(width * height * channels);
  for (let y = 0, to = 0; y < height; y++) {
    const from = toFileRow(y, header) * rowBytes;
    for (let x = 0; x < width; x++) {
      const pixel = bits === 16
        ? view.getUint16(from + 2 * x, true)
        : view.getUint32(from + 4 * x, true);
      for (const { shift, max, scale } of parts) data[to++] = (pixel >>> shift & max) * scale;
    }
  }
  return { width, height, channels, data };
}

/** Codes after a zero byte. Any other code is a number of literal indices that follow. */
const CODE = { endOfRow: 0, endOfImage: 1, jump: 2 } as const;

/**
 * Unpacks palette indices. Skipped pixels are 0; pixels beyond the end of a row are dropped.
 *
 * @returns u8 `[height, width]`, in the order of the file's rows.
 * @throws {HearthError} `invalid_media` when the runs end before the image does.
 */
function unpackBmpRuns(
  packed: Uint8Array,
  { width, height, bits }: { width: number; height: number; bits: 4 | 8 },
): Uint8Array {
  const indexes = new Uint8Array(width * height);
  let x = 0;
  let y = 0;
  const put = (index: number) => {
    if (x < width) indexes[y * width + x] = index;
    x++;
  };
  const perByte = 8 / bits;
  const part = (byte: number, i: number) => bits === 8 ? byte : i % 2 === 0 ? byte >> 4 : byte & 15;
  for (let at = 0; y < height;) {
    if (at + 2 > packed.length) throw invalidMedia("The BMP file is cut off in its pixels.");
    const count = packed[at++]!;
    const value = packed[at++]!;
    if (count > 0) { for (let i = 0; i < count; i++) put(part(value, i)); }
    else if (value === CODE.endOfImage) break;
    else if (value === CODE.endOfRow) {
      x = 0;
      y++;
    } else if (value === CODE.jump) {
      x += packed[at++] ?? 0;
      y += packed[at++] ?? 0;
    } else {
      for (let i = 0; i < value; i++) put(part(packed[at + Math.floor(i / perByte)] ?? 0, i));
      // Literal indices are padded to whole 16-bit words.
      at += Math.ceil(value / perByte / 2) * 2;
    }
  }
  return indexes;
}
