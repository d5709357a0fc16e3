/**
 * The samples of a TIFF file, out of its strips or tiles.
 *
 * @module
 */
import { inflateSync } from "node:zlib";
import { invalidImage } from "./format.ts";
import { unpackLzw } from "./lzw.ts";
import { TIFF_TAG, type TiffLayout } from "./tiff_tags.ts";

/** A grid of equal pieces; strips are tiles as wide as the image. */
interface Grid {
  readonly pieceWidth: number;
  readonly pieceHeight: number;
  readonly offsets: readonly number[];
  readonly byteCounts: readonly number[];
}

/** Fills a piece with unpacked bytes and returns how many there were. */
type Unpacker = (packed: Uint8Array, piece: Uint8Array) => number;

/** By TIFF's numbers. */
const UNPACKERS: Readonly<Record<number, Unpacker>> = {
  1: copy,
  5: (packed, piece) =>
    unpackLzw(packed, piece, { valueBits: 8, isLowFirst: false, earlyChange: 1 }),
  8: inflate,
  32773: unpackBits,
  32946: inflate,
};
const COMPRESSIONS: Readonly<Record<number, string>> = {
  2: "fax group 3",
  3: "fax group 3",
  4: "fax group 4",
  6: "old JPEG",
  7: "JPEG",
  34925: "LZMA",
  50000: "Zstandard",
  50001: "WebP",
};
/** The predictor that stores differences from the pixel before. */
const HORIZONTAL = 2;
/** Most pieces: each starts a decompressor, about this many per second. */
const MAX_PIECES = 2 ** 16;
/** Most pixels by which a tile may extend beyond the image. */
const MAX_TILE_MARGIN = 1024;

/**
 * Unpacks all samples; of 16 bits the upper 8 are kept, smaller ones keep their value.
 *
 * @returns u8 `[height, width, numSamples]`.
 * @throws {HearthError} `invalid_media` when a compression is unknown or a piece is damaged or missing.
 */
export function readTiffSamples(file: Uint8Array, layout: TiffLayout): Uint8Array {
  const { width, height, numSamples, isPlanar, tags } = layout;
  const grid = readGrid(layout);
  const unpack = findUnpacker(tags.get(TIFF_TAG.compression)?.[0] ?? 1);
  const isDifferent = tags.get(TIFF_TAG.predictor)?.[0] === HORIZONTAL;
  const numColumns = Math.ceil(width / grid.pieceWidth);
  const numRows = Math.ceil(height / grid.pieceHeight);
  const numPlanes = isPlanar ? numSamples : 1;
  const inPiece = isPlanar ? 1 : numSamples;
  const numPieces = numColumns * numRows * numPlanes;
  if (numPieces > MAX_PIECES) {
    throw invalidImage(`The TIFF file has ${numPieces} pieces; at most ${MAX_PIECES} are read.`);
  }
  if (grid.offsets.length < numPieces || grid.byteCounts.length < numPieces) {
    throw invalidImage(
      `The TIFF file is damaged: it has ${grid.offsets.length} of ${numPieces} pieces.`,
    );
  }
  const samples = new Uint8Array(width * height * numSamples);
  const rowBytes = Math.ceil(grid.pieceWidth * inPiece * layout.bits / 8);
  const piece = new Uint8Array(rowBytes * grid.pieceHeight);
  const row = new Uint8Array(grid.pieceWidth * inPiece);
  for (let index = 0; index < numPieces; index++) {
    const plane = Math.floor(index / (numColumns * numRows));
    const top = Math.floor(index / numColumns) % numRows * grid.pieceHeight;
    const left = index % numColumns * grid.pieceWidth;
    const rows = Math.min(grid.pieceHeight, height - top);
    const columns = Math.min(grid.pieceWidth, width - left);
    const from = grid.offsets[index]!;
    const numBytes = unpack(file.subarray(from, from + grid.byteCounts[index]!), piece);
    if (numBytes < rows * rowBytes) {
      const counts = `${numBytes} of ${rows * rowBytes} bytes`;
      throw invalidImage(`The TIFF file is damaged or cut off: piece ${index} has ${counts}.`);
    }
    for (let y = 0; y < rows; y++) {
      unpackRow(piece.subarray(y * rowBytes, (y + 1) * rowBytes), {
        layout,
        isDifferent,
        inPiece,
        row,
      });
      const to = ((top + y) * width + left) * numSamples;
      if (!isPlanar) samples.set(row.subarray(0, columns * numSamples), to);
      else for (let x = 0; x < columns; x++) samples[to + x * numSamples + plane] = row[x]!;
    }
  }
  return samples;
}

function readGrid({ width, height, tags }: TiffLayout): Grid {
  const get = (tag: number) => tags.get(tag) ?? [];
  const [tileWidth, tileHeight] = [get(TIFF_TAG.tileWidth)[0], get(TIFF_TAG.tileHeight)[0]];
  const isTiled = tileWidth !== undefined && tileHeight !== undefined;
  const grid = isTiled
    ? {
      pieceWidth: tileWidth,
      pieceHeight: tileHeight,
      offsets: get(TIFF_TAG.tileOffsets),
      byteCounts: get(TIFF_TAG.tileByteCounts),
    }
    : {
      pieceWidth: width,
      pieceHeight: Math.min(height, get(TIFF_TAG.rowsPerStrip)[0] ?? height),
      offsets: get(TIFF_TAG.stripOffsets),
      byteCounts: get(TIFF_TAG.stripByteCounts),
    };
  const isSane = grid.pieceWidth >= 1 && grid.pieceHeight >= 1 &&
    grid.pieceWidth <= width + MAX_TILE_MARGIN && grid.pieceHeight <= height + MAX_TILE_MARGIN;
  if (!isSane) {
    throw invalidImage(
      `The TIFF file is damaged: it has pieces of ${grid.pieceWidth} × ${grid.pieceHeight} pixels.`,
    );
  }
  return grid;
}

function findUnpacker(compression: number): Unpacker {
  const unpack = UNPACKERS[compression];
  if (unpack !== undefined) return unpack;
  const name = COMPRESSIONS[compression] ?? `number ${compression}`;
  throw invalidImage(`The TIFF file is packed as ${name}, which is not read.`);
}

function copy(packed: Uint8Array, piece: Uint8Array): number {
  const bytes = packed.subarray(0, piece.length);
  piece.set(bytes);
  return bytes.length;
}

function inflate(packed: Uint8Array, piece: Uint8Array): number {
  return copy(inflateSync(packed, { maxOutputLength: piece.length }), piece);
}

/** Apple's PackBits: a length, then that many bytes, or one byte repeated. */
function unpackBits(packed: Uint8Array, piece: Uint8Array): number {
  let to = 0;
  for (let at = 0; at < packed.length && to < piece.length;) {
    const length = packed[at++]! << 24 >> 24;
    if (length >= 0) {
      const bytes = packed.subarray(at, at + Math.min(length + 1, piece.length - to));
      piece.set(bytes, to);
      to += bytes.length;
      at += length + 1;
    } else if (length !== -128) {
      piece.fill(packed[at++] ?? 0, to, to + 1 - length);
      to = Math.min(piece.length, to + 1 - length);
    }
  }
  return to;
}

/** A row as one byte for each sample; `isDifferent`: it holds differences from the pixel before. */
function unpackRow(
  bytes: Uint8Array,
  { layout: { bits, isLittleEndian }, isDifferent, inPiece, row }: {
    layout: TiffLayout;
    isDifferent: boolean;
    inPiece: number;
    row: Uint8Array;
  },
): void {
  if (bits === 8) {
    row.set(bytes);
    if (isDifferent) { for (let i = inPiece; i < row.length; i++) row[i]! += row[i - inPiece]!; }
  } else if (bits === 16) {
    const [high, low] = isLittleEndian ? [1, 0] : [0, 1];
    const sums = new Uint16Array(inPiece);
    for (let i = 0; i < row.length; i++) {
      const value = bytes[2 * i + high]! << 8 | bytes[2 * i + low]!;
      const sum = sums[i % inPiece] = isDifferent ? sums[i % inPiece]! + value : value;
      row[i] = (sum & 0xffff) >> 8;
    }
  } else {
    const mask = (1 << bits) - 1;
    for (let i = 0; i < row.length; i++) {
      row[i] = bytes[i * bits >> 3]! >> (8 - bits - (i * bits & 7)) & mask;
    }
  }
}
