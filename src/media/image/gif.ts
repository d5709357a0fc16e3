/**
 * Reads the first image of GIF files (GIF89a), and unpacks LZW codes (Welch 1984) in the variants of GIF and TIFF.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { pad, type Pixels } from "../pixels.ts";
import type { ImageFormat, ImageSize } from "./format.ts";
import { hasText, viewData } from "../file_bytes.ts";

interface GifFrame {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  readonly isInterlaced: boolean;
  /** The RGB colour of each index. */
  readonly palette: Uint8Array;
  readonly transparentIndex: number | undefined;
  /** Offset of the packed indices. */
  readonly dataAt: number;
  /** The size of the screen, or of the frame if that is larger, as in Pillow. */
  readonly canvas: { readonly width: number; readonly height: number };
}

const SCREEN_BYTES = 13;
const EXTENSION = 0x21;
const GRAPHIC_CONTROL = 0xf9;
const IMAGE = 0x2c;
/** First row of each pass over an interlaced image, and the distance between its rows. */
const PASSES = [[0, 8], [4, 8], [2, 4], [1, 2]] as const;

/** GIF. Only an animation's first image is decoded, on a transparent canvas if it does not fill the canvas. */
export const GIF: ImageFormat = {
  name: "GIF",
  matches: (file) => hasText(file, 0, "GIF87a") || hasText(file, 0, "GIF89a"),
  readSize: (file): ImageSize => ({ ...readFrame(file).canvas, orientation: 1 }),
  decode,
};

function readFrame(file: Uint8Array): GifFrame {
  const view = viewData(file);
  const screenFlags = view.getUint8(10);
  const screenPalette = readPalette(file, SCREEN_BYTES, screenFlags);
  let transparentIndex: number | undefined;
  for (let at = SCREEN_BYTES + screenPalette.length;;) {
    const kind = view.getUint8(at);
    if (kind === IMAGE) {
      const [left, top, width, height] = [1, 3, 5, 7].map((field) =>
        view.getUint16(at + field, true)
      ) as [number, number, number, number];
      const flags = view.getUint8(at + 9);
      const ownPalette = readPalette(file, at + 10, flags);
      const canvas = {
        width: Math.max(view.getUint16(6, true), left + width),
        height: Math.max(view.getUint16(8, true), top + height),
      };
      const palette = ownPalette.length > 0 ? ownPalette : screenPalette;
      const isInterlaced = (flags & 0x40) !== 0;
      const dataAt = at + 10 + ownPalette.length;
      const rectangle = { left, top, width, height };
      return { ...rectangle, isInterlaced, palette, transparentIndex, dataAt, canvas };
    }
    if (kind !== EXTENSION) throw invalidMedia("The GIF file has no image in it.");
    const isTransparent = view.getUint8(at + 1) === GRAPHIC_CONTROL &&
      (view.getUint8(at + 3) & 1) === 1;
    if (isTransparent) transparentIndex = view.getUint8(at + 6);
    at = skipBlocks(file, at + 2);
  }
}

/** Reads the colours after a descriptor, whose flags give their number. */
function readPalette(file: Uint8Array, at: number, flags: number): Uint8Array {
  const numColors = (flags & 0x80) === 0 ? 0 : 2 << (flags & 7);
  return file.subarray(at, at + 3 * numColors);
}

/** The offset after a chain of blocks, each of which begins with its length. */
function skipBlocks(file: Uint8Array, from: number): number {
  let at = from;
  while (at < file.length && file[at] !== 0) at += 1 + file[at]!;
  return at + 1;
}

function decode(file: Uint8Array<ArrayBuffer>): Pixels {
  const frame = readFrame(file);
  const { left, top, width, height, canvas } = frame;
  if (width === 0 || height === 0) {
    throw invalidMedia(`The GIF file is damaged: its image has ${width} × ${height} pixels.`);
  }
  return pad(colorize(frame, unpackIndexes(file, frame)), {
    left,
    top,
    right: canvas.width - left - width,
    bottom: canvas.height - top - height,
  });
}

function unpackIndexes(file: Uint8Array, { width, height, dataAt }: GifFrame): Uint8Array {
  const valueBits = file[dataAt] ?? 0;
  if (valueBits < 1 || valueBits > 8) {
    throw invalidMedia(`The GIF file is damaged: it has palette indices of ${valueBits} bits.`);
  }
  const codes = new Uint8Array(file.length - dataAt);
  let numBytes = 0;
  for (let at = dataAt + 1; at < file.length && file[at] !== 0; at += 1 + file[at]!) {
    const block = file.subarray(at + 1, at + 1 + file[at]!);
    codes.set(block, numBytes);
    numBytes += block.length;
  }
  const indexes = new Uint8Array(width * height);
  const length = unpackLzw(codes.subarray(0, numBytes), indexes, {
    valueBits,
    isLowFirst: true,
    earlyChange: 0,
  });
  if (length < indexes.length) {
    throw invalidMedia(
      `The GIF file is damaged or cut off: it holds ${length} of ${indexes.length} pixels.`,
    );
  }
  return indexes;
}

/** Looks up palette indices. An index beyond the palette is black. */
function colorize(frame: GifFrame, indexes: Uint8Array): Pixels {
  const { width, height, palette, transparentIndex, isInterlaced } = frame;
  const data = new Uint8Array(width * height * 4);
  let from = 0;
  for (const [firstRow, step] of isInterlaced ? PASSES : [[0, 1]] as const) {
    for (let row = firstRow; row < height; row += step) {
      for (let to = row * width * 4; to < (row + 1) * width * 4; to += 4) {
        const index = indexes[from++]!;
        data[to] = palette[3 * index]!;
        data[to + 1] = palette[3 * index + 1]!;
        data[to + 2] = palette[3 * index + 2]!;
        data[to + 3] = index === transparentIndex ? 0 : 255;
      }
    }
  }
  return { width, height, channels: 4, data };
}

const MAX_CODE_BITS = 12;
const MAX_CODES = 1 << MAX_CODE_BITS;

/**
 * Unpacks until the codes or the output end, or a code is invalid.
 *
 * @param codes packed codes; any bytes are accepted.
 * @param output receives the values; unpacking stops when it is full.
 * @returns the number of values.
 */
export function unpackLzw(
  codes: Uint8Array,
  output: Uint8Array,
  { valueBits, isLowFirst, earlyChange }: {
    /** Bits of an uncompressed value. */
    readonly valueBits: number;
    /** Whether codes begin at the lowest bit of a byte, as in GIF, or at the highest, as in TIFF. */
    readonly isLowFirst: boolean;
    /** Number of entries that are still free when codes become one bit longer: 1 in TIFF, 0 in GIF. */
    readonly earlyChange: 0 | 1;
  },
): number {
  const clearCode = 1 << valueBits;
  const endCode = clearCode + 1;
  // Each entry is the entry of its prefix plus one value.
  const prefixes = new Uint16Array(MAX_CODES);
  const lastValues = new Uint8Array(MAX_CODES);
  const firstValues = new Uint8Array(MAX_CODES);
  const lengths = new Uint16Array(MAX_CODES);
  for (let value = 0; value < clearCode; value++) {
    lastValues[value] = firstValues[value] = value;
    lengths[value] = 1;
  }
  let numCodes = endCode + 1;
  let codeBits = valueBits + 1;
  let previous = -1;
  let bits = 0;
  let numBits = 0;
  let at = 0;
  let length = 0;
  while (length < output.length) {
    while (numBits < codeBits && at < codes.length) {
      bits = isLowFirst ? bits | codes[at++]! << numBits : bits << 8 | codes[at++]!;
      numBits += 8;
    }
    if (numBits < codeBits) break;
    const mask = (1 << codeBits) - 1;
    const code = isLowFirst ? bits & mask : bits >>> (numBits - codeBits) & mask;
    numBits -= codeBits;
    bits = isLowFirst ? bits >>> codeBits : bits & ((1 << numBits) - 1);

    if (code === endCode) break;
    if (code === clearCode) {
      numCodes = endCode + 1;
      codeBits = valueBits + 1;
      previous = -1;
      continue;
    }
    const isNew = code === numCodes && previous !== -1;
    if (code >= numCodes && !isNew) break;
    const first = firstValues[isNew ? previous : code]!;
    if (previous !== -1 && numCodes < MAX_CODES) {
      prefixes[numCodes] = previous;
      lastValues[numCodes] = first;
      firstValues[numCodes] = firstValues[previous]!;
      lengths[numCodes] = lengths[previous]! + 1;
      numCodes++;
      if (numCodes + earlyChange === 1 << codeBits && codeBits < MAX_CODE_BITS) codeBits++;
    } else if (isNew) break;
    const end = length + lengths[code]!;
    let entry = code;
    // An entry is read from its last value to its first; values beyond the output are dropped.
    for (let to = end - 1; to >= length; to--) {
      output[to] = lastValues[entry]!;
      entry = prefixes[entry]!;
    }
    length = Math.min(end, output.length);
    previous = code;
  }
  return length;
}
