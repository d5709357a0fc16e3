/**
 * Reads TIFF and BigTIFF files (TIFF 6.0): 1 to 16, 24 or 32 bits a sample, fax codes, JPEG and WebP.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import type { Pixels } from "../pixels.ts";
import type { ImageFormat, ImageSize } from "./format.ts";
import { findOrientation, isTiff, readTiffTags, TIFF_TAG } from "./tiff_tags.ts";
import { colorizeTiff, findColorKind, type TiffLayout } from "./tiff_colors.ts";
import { hasCodedTiles, makeTiffUnpacker, readCodedTile } from "./tiff_unpack.ts";

const UNSIGNED = 1;
/** Names of sample formats, by TIFF's number. */
const SAMPLE_FORMATS: Readonly<Record<number, string>> = {
  1: "unsigned numbers",
  2: "signed numbers",
  3: "floating-point numbers",
  4: "data of no stated format",
  5: "complex whole numbers",
  6: "complex floating-point numbers",
};
const MAX_BITS = 16;
const LARGE_BITS = [24, 32];
const MAX_SAMPLES = 5;

/** TIFF; only the first page is decoded. */
export const TIFF: ImageFormat = {
  name: "TIFF",
  matches: isTiff,
  readSize: (file): ImageSize => {
    const tags = readTiffTags(file);
    const xmp = tags.get(TIFF_TAG.xmp);
    return {
      width: tags.get(TIFF_TAG.width)?.[0] ?? 0,
      height: tags.get(TIFF_TAG.height)?.[0] ?? 0,
      orientation: findOrientation({ exif: file, xmp: xmp && Uint8Array.from(xmp) }),
    };
  },
  decode: (file, size) => decode(file, size),
};

async function decode(
  file: Uint8Array<ArrayBuffer>,
  { width, height }: ImageSize,
): Promise<Pixels> {
  const tags = readTiffTags(file);
  const depths = tags.get(TIFF_TAG.bitsPerSample) ?? [1];
  const bits = depths[0]!;
  const numSamples = tags.get(TIFF_TAG.samplesPerPixel)?.[0] ?? 1;
  const format = tags.get(TIFF_TAG.sampleFormat)?.[0] ?? UNSIGNED;
  const isDepth = bits >= 1 && bits <= MAX_BITS || LARGE_BITS.includes(bits);
  const isKnown = isDepth && depths.every((depth) => depth === bits) &&
    format === UNSIGNED && numSamples >= 1 && numSamples <= MAX_SAMPLES;
  if (!isKnown) {
    const name = SAMPLE_FORMATS[format] ?? `samples of format ${format}`;
    throw invalidMedia(
      `The TIFF file cannot be read: its pixels are ${name} of ${depths.join(", ")} bits, ` +
        `${numSamples} for each pixel. Up to ${MAX_SAMPLES} unsigned numbers, all with the same ` +
        "number of bits (1 to 16, 24 or 32), can be read. Convert the image to 8 bits, or to PNG.",
    );
  }
  const layout: TiffLayout = {
    width,
    height,
    bits,
    numSamples,
    photometric: tags.get(TIFF_TAG.photometric)?.[0] ?? 1,
    isPlanar: tags.get(TIFF_TAG.planarConfiguration)?.[0] === 2 && numSamples > 1,
    tags,
  };
  const kind = findColorKind(layout);
  return colorizeTiff(layout, kind, await readTiffSamples(file, layout));
}

/** A grid of equal tiles; strips are tiles as wide as the image. */
interface Grid {
  readonly tileWidth: number;
  readonly tileHeight: number;
  readonly offsets: readonly number[];
  readonly byteCounts: readonly number[];
}

/** The predictor that stores differences from the previous pixel. */
const HORIZONTAL = 2;
/** Maximum number of tiles: each starts a decompressor, and about this many can be started per second. */
const MAX_TILES = 2 ** 16;
/** Maximum number of pixels by which a tile may extend beyond the image. */
const MAX_TILE_MARGIN = 1024;

/**
 * Unpacks all samples. Samples of more than 8 bits keep their upper 8; smaller ones keep their value.
 *
 * @returns u8 `[height, width, numSamples]`.
 * @throws {HearthError} `invalid_media` when a compression is unknown, or a strip or tile is damaged or missing.
 */
async function readTiffSamples(file: Uint8Array, layout: TiffLayout): Promise<Uint8Array> {
  const { width, height, numSamples, isPlanar, tags } = layout;
  const grid = readGrid(layout);
  const unpack = hasCodedTiles(layout) ? undefined : makeTiffUnpacker(tags, grid.tileWidth);
  const holdsDifferences = tags.get(TIFF_TAG.predictor)?.[0] === HORIZONTAL;
  const numColumns = Math.ceil(width / grid.tileWidth);
  const numRows = Math.ceil(height / grid.tileHeight);
  const numPlanes = isPlanar ? numSamples : 1;
  const samplesPerPixel = isPlanar ? 1 : numSamples;
  const numTiles = numColumns * numRows * numPlanes;
  if (numTiles > MAX_TILES) {
    throw invalidMedia(`The TIFF file has ${numTiles} tiles; at most ${MAX_TILES} are read.`);
  }
  if (grid.offsets.length < numTiles || grid.byteCounts.length < numTiles) {
    throw invalidMedia(
      `The TIFF file is damaged: it has ${grid.offsets.length} of ${numTiles} tiles.`,
    );
  }
  const samples = new Uint8Array(width * height * numSamples);
  const rowBytes = Math.ceil(grid.tileWidth * samplesPerPixel * layout.bits / 8);
  const tile = new Uint8Array(rowBytes * grid.tileHeight);
  const row = new Uint8Array(grid.tileWidth * samplesPerPixel);
  for (let index = 0; index < numTiles; index++) {
    const plane = Math.floor(index / (numColumns * numRows));
    const top = Math.floor(index / numColumns) % numRows * grid.tileHeight;
    const left = index % numColumns * grid.tileWidth;
    const rows = Math.min(grid.tileHeight, height - top);
    const columns = Math.min(grid.tileWidth, width - left);
    const from = grid.offsets[index]!;
    const packed = file.subarray(from, from + grid.byteCounts[index]!);
    const numBytes = unpack === undefined
      ? await readCodedTile(packed, tile, { layout, width: grid.tileWidth, rows, samplesPerPixel })
      : unpack(packed, tile);
    if (numBytes < rows * rowBytes) {
      const counts = `${numBytes} of ${rows * rowBytes} bytes`;
      throw invalidMedia(`The TIFF file is damaged or cut off: tile ${index} has ${counts}.`);
    }
    for (let y = 0; y < rows; y++) {
      unpackRow(tile.subarray(y * rowBytes, (y + 1) * rowBytes), {
        layout,
        holdsDifferences,
        samplesPerPixel,
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
      tileWidth,
      tileHeight,
      // Some programs store them in the tags of strips.
      offsets: tags.get(TIFF_TAG.tileOffsets) ?? get(TIFF_TAG.stripOffsets),
      byteCounts: tags.get(TIFF_TAG.tileByteCounts) ?? get(TIFF_TAG.stripByteCounts),
    }
    : {
      tileWidth: width,
      tileHeight: Math.min(height, get(TIFF_TAG.rowsPerStrip)[0] ?? height),
      offsets: get(TIFF_TAG.stripOffsets),
      byteCounts: get(TIFF_TAG.stripByteCounts),
    };
  const isSane = grid.tileWidth >= 1 && grid.tileHeight >= 1 &&
    grid.tileWidth <= width + MAX_TILE_MARGIN && grid.tileHeight <= height + MAX_TILE_MARGIN;
  if (!isSane) {
    throw invalidMedia(
      `The TIFF file is damaged: it has tiles of ${grid.tileWidth} × ${grid.tileHeight} pixels.`,
    );
  }
  return grid;
}

/** Unpacks a row to one byte per sample. If `holdsDifferences`, the samples are differences from the previous pixel. */
function unpackRow(
  bytes: Uint8Array,
  { layout: { bits, tags: { isLittleEndian } }, holdsDifferences, samplesPerPixel, row }: {
    layout: TiffLayout;
    holdsDifferences: boolean;
    samplesPerPixel: number;
    row: Uint8Array;
  },
): void {
  if (bits === 8) {
    row.set(bytes);
    if (holdsDifferences) {
      for (let i = samplesPerPixel; i < row.length; i++) row[i]! += row[i - samplesPerPixel]!;
    }
  } else if (bits % 8 === 0 && !holdsDifferences) {
    const numBytes = bits / 8;
    const high = isLittleEndian ? numBytes - 1 : 0;
    for (let i = 0; i < row.length; i++) row[i] = bytes[numBytes * i + high]!;
  } else if (bits % 8 === 0) {
    const numBytes = bits / 8;
    const sums = new Float64Array(samplesPerPixel);
    for (let i = 0; i < row.length; i++) {
      let value = 0;
      for (let k = 0; k < numBytes; k++) {
        value = value * 256 + bytes[numBytes * i + (isLittleEndian ? numBytes - 1 - k : k)]!;
      }
      const sum = sums[i % samplesPerPixel] = (sums[i % samplesPerPixel]! + value) % 2 ** bits;
      row[i] = sum / 2 ** (bits - 8);
    }
  } else if (bits < 8) {
    for (let i = 0; i < row.length; i++) row[i] = readBits(bytes, i * bits, bits);
  } else {
    for (let i = 0; i < row.length; i++) row[i] = readBits(bytes, i * bits, bits) >> (bits - 8);
  }
}

/** Reads a number of 1 to 16 bits; the highest bit of a byte comes first. */
function readBits(bytes: Uint8Array, at: number, count: number): number {
  const from = at >> 3;
  const word = bytes[from]! << 16 | (bytes[from + 1] ?? 0) << 8 | (bytes[from + 2] ?? 0);
  return word >> (24 - count - (at & 7)) & ((1 << count) - 1);
}
