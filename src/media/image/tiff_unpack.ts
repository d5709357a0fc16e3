/**
 * Unpacks the strips and tiles of TIFF files; some are images of another format.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { joinBytes } from "../../base/bytes.ts";
import type { ImageFormat } from "./format.ts";
import { JPEG } from "./jpeg.ts";
import { TIFF_TAG, type TiffTags } from "./tiff_tags.ts";
import { PHOTOMETRIC, type TiffLayout } from "./tiff_colors.ts";
import { WEBP } from "./webp.ts";
import { inflateSync, zstdDecompressSync } from "node:zlib";
import { type FaxOptions, unpackFax } from "./fax.ts";
import { unpackLzw } from "./gif.ts";

/** Formats by TIFF's compression number, and the numbers of samples that their pixels may have. */
const FORMATS: Readonly<Record<number, readonly [format: ImageFormat, numSamples: number[]]>> = {
  7: [JPEG, [1, 3]],
  50001: [WEBP, [3, 4]],
};

const MARKER_BYTES = 2;
const START_OF_IMAGE = Uint8Array.of(0xff, 0xd8);

/** Whether the strips or tiles are images of another format. */
export function hasCodedTiles({ tags }: TiffLayout): boolean {
  return (tags.get(TIFF_TAG.compression)?.[0] ?? 1) in FORMATS;
}

/**
 * Decodes one strip or tile that is an image of another format: a JPEG stream (Adobe's TIFF Technical Note 2) or WebP.
 *
 * @param tile receives a byte per sample: `rows` rows of `width` pixels are filled.
 * @returns the number of bytes that were filled.
 * @throws {HearthError} `invalid_media` when the image is damaged, or its pixels are of another kind than the file's.
 */
export async function readCodedTile(
  packed: Uint8Array,
  tile: Uint8Array,
  { layout, width, rows, samplesPerPixel }: {
    readonly layout: TiffLayout;
    readonly width: number;
    readonly rows: number;
    /** Number of samples in a pixel. */
    readonly samplesPerPixel: number;
  },
): Promise<number> {
  const [format, numSamples] = FORMATS[layout.tags.get(TIFF_TAG.compression)![0]!]!;
  if (layout.bits !== 8 || !numSamples.includes(samplesPerPixel)) {
    throw invalidMedia(
      `The TIFF file cannot be read: it is compressed as ${format.name} with ${samplesPerPixel} samples of ` +
        `${layout.bits} bits for each pixel. With ${format.name}, ${
          numSamples.join(" or ")
        } of 8 bits can be read; ` +
        "save it with LZW or Deflate instead.",
    );
  }
  const file = format === JPEG ? completeJpeg(packed, layout) : packed.slice();
  const size = format.readSize(file);
  const maxHeight = tile.length / (width * samplesPerPixel);
  if (size.width !== width || size.height < rows || size.height > maxHeight) {
    throw invalidMedia(
      `The TIFF file is damaged: a tile of ${width} × ${rows} pixels is a ${format.name} image of ` +
        `${size.width} × ${size.height}.`,
    );
  }
  const { data, channels } = await format.decode(file, size);
  const numPixels = width * rows;
  for (let i = 0; i < numPixels; i++) {
    for (let sample = 0; sample < samplesPerPixel; sample++) {
      tile[i * samplesPerPixel + sample] = sample < channels ? data[i * channels + sample]! : 255;
    }
  }
  return numPixels * samplesPerPixel;
}

/** Completes a JPEG stream: tables that strips or tiles share are stored in a tag of the TIFF file. */
function completeJpeg(packed: Uint8Array, { tags, photometric }: TiffLayout) {
  const tables = Uint8Array.from(tags.get(TIFF_TAG.jpegTables) ?? []);
  return joinBytes([
    START_OF_IMAGE,
    makeAdobeSegment(photometric === PHOTOMETRIC.yCbCr ? 1 : 0),
    tables.subarray(MARKER_BYTES, -MARKER_BYTES),
    packed.subarray(MARKER_BYTES),
  ]);
}

/**
 * Makes the segment that says whether samples are the file's own (0) or YCbCr (1), which the decoder converts. Without
 * it, decoders would guess.
 */
function makeAdobeSegment(transform: 0 | 1): Uint8Array {
  return Uint8Array.of(
    ...[0xff, 0xee, 0, 14, 0x41, 0x64, 0x6f, 0x62, 0x65],
    ...[0, 100, 0, 0, 0, 0, transform],
  );
}

/**
 * Fills a strip or tile with unpacked bytes.
 *
 * @returns the number of bytes.
 */
type Unpacker = (packed: Uint8Array, tile: Uint8Array) => number;

/** Unpackers by TIFF's compression number. */
const UNPACKERS: Readonly<Record<number, Unpacker>> = {
  1: copy,
  5: (packed, tile) => {
    // Programs before TIFF 5.0 wrote the lowest bits first, as the clear code at the beginning shows.
    const isOld = packed[0] === 0 && (packed[1]! & 1) === 1;
    const earlyChange = isOld ? 0 : 1;
    return unpackLzw(packed, tile, { valueBits: 8, isLowFirst: isOld, earlyChange });
  },
  8: inflate,
  32773: unpackBits,
  32946: inflate,
  50000: (packed, tile) => copy(zstdDecompressSync(packed, { maxOutputLength: tile.length }), tile),
};
const FAXES: Readonly<Record<number, FaxOptions["kind"]>> = {
  2: "huffman",
  3: "group 3",
  4: "group 4",
};
/** Names of compressions that are not supported. */
const COMPRESSIONS: Readonly<Record<number, string>> = {
  6: "old-style JPEG",
  9: "JBIG",
  10: "JBIG",
  32766: "NeXT's runs",
  32771: "fax codes in words of 16 bits",
  32809: "ThunderScan's runs",
  33003: "JPEG 2000",
  33005: "JPEG 2000",
  34661: "JBIG",
  34676: "SGI's LogLuv",
  34677: "SGI's LogLuv",
  34712: "JPEG 2000",
  34887: "LERC",
  34892: "lossy JPEG of DNG",
  34925: "LZMA",
  50002: "JPEG XL",
  52546: "JPEG XL",
};
const LOW_BITS_FIRST = 2;

/**
 * The unpacker for a file's strips or tiles.
 *
 * @param tileWidth pixels in a row of a strip or tile.
 * @throws {HearthError} `invalid_media` when the compression is not supported.
 */
export function makeTiffUnpacker(tags: TiffTags, tileWidth: number): Unpacker {
  const compression = tags.get(TIFF_TAG.compression)?.[0] ?? 1;
  const kind = FAXES[compression];
  const unpack = kind === undefined
    ? UNPACKERS[compression]
    : makeFaxUnpacker(tags, { width: tileWidth, kind });
  if (unpack === undefined) {
    const name = COMPRESSIONS[compression] ?? `number ${compression}`;
    throw invalidMedia(
      `The TIFF file is compressed as ${name}. LZW, Deflate, PackBits, Zstandard, JPEG, WebP and ` +
        "fax codes can be read; save it with one of these, or as PNG.",
    );
  }
  const spread = makeChromaUnpacker(unpack, tags, tileWidth);
  return tags.get(TIFF_TAG.fillOrder)?.[0] === LOW_BITS_FIRST
    ? (packed, tile) => spread(packed.map((byte) => REVERSED_BYTES[byte]!), tile)
    : spread;
}

const SEPARATE_PLANES = 2;

/**
 * Makes the unpacker for YCbCr whose pixels share colours (TIFF 6.0, section 21). A block holds the brightness of each
 * of its pixels, row by row, then one Cb and one Cr.
 *
 * @returns `unpack` itself for other files.
 * @throws {HearthError} `invalid_media` when the samples lie in planes, or the block's size is invalid.
 */
function makeChromaUnpacker(unpack: Unpacker, tags: TiffTags, tileWidth: number): Unpacker {
  if (tags.get(TIFF_TAG.photometric)?.[0] !== PHOTOMETRIC.yCbCr) return unpack;
  const [across = 2, down = 2] = tags.get(TIFF_TAG.chromaSubsampling) ?? [];
  if (across * down === 1) return unpack;
  if (![1, 2, 4].includes(across) || ![1, 2, 4].includes(down)) {
    throw invalidMedia(`The TIFF file is damaged: ${across} × ${down} pixels share a colour.`);
  }
  if (tags.get(TIFF_TAG.planarConfiguration)?.[0] === SEPARATE_PLANES) {
    throw invalidMedia(
      `The TIFF file cannot be read: ${across} × ${down} pixels of YCbCr share a colour, and the ` +
        "samples lie in planes. Save it without planes, or as PNG.",
    );
  }
  const blocksAcross = Math.ceil(tileWidth / across);
  const blockBytes = across * down + 2;
  return (packed, tile) => {
    const height = tile.length / (3 * tileWidth);
    const blocks = new Uint8Array(blocksAcross * Math.ceil(height / down) * blockBytes);
    const numBlocks = Math.floor(unpack(packed, blocks) / blockBytes);
    for (let block = 0, from = 0; block < numBlocks; block++, from += blockBytes) {
      const left = block % blocksAcross * across;
      const top = Math.floor(block / blocksAcross) * down;
      for (let i = 0; i < across * down; i++) {
        const [x, y] = [left + i % across, top + Math.floor(i / across)];
        if (x >= tileWidth || y >= height) continue;
        const to = 3 * (y * tileWidth + x);
        tile[to] = blocks[from + i]!;
        tile[to + 1] = blocks[from + blockBytes - 2]!;
        tile[to + 2] = blocks[from + blockBytes - 1]!;
      }
    }
    return Math.min(tile.length, Math.floor(numBlocks / blocksAcross) * down * tileWidth * 3);
  };
}

/** Each byte with its bits in reverse order. */
const REVERSED_BYTES = Uint8Array.from({ length: 256 }, (_, byte) => {
  let reversed = 0;
  for (let i = 0; i < 8; i++) reversed |= (byte >> i & 1) << (7 - i);
  return reversed;
});

/** @throws {HearthError} `invalid_media` when pixels have more than one bit. */
function makeFaxUnpacker(tags: TiffTags, options: FaxOptions): Unpacker {
  const bits = tags.get(TIFF_TAG.bitsPerSample)?.[0] ?? 1;
  const numSamples = tags.get(TIFF_TAG.samplesPerPixel)?.[0] ?? 1;
  if (bits * numSamples !== 1) {
    throw invalidMedia(
      `The TIFF file is damaged: it has fax codes, and pixels of ${bits * numSamples} bits.`,
    );
  }
  const isTwoDimensional = ((tags.get(TIFF_TAG.faxOptions)?.[0] ?? 0) & 1) === 1;
  return (packed, tile) => unpackFax(packed, tile, { ...options, isTwoDimensional });
}

function copy(packed: Uint8Array, tile: Uint8Array): number {
  const bytes = packed.subarray(0, tile.length);
  tile.set(bytes);
  return bytes.length;
}

function inflate(packed: Uint8Array, tile: Uint8Array): number {
  return copy(inflateSync(packed, { maxOutputLength: tile.length }), tile);
}

/** Unpacks Apple's PackBits: a length, then that many bytes, or one byte that is repeated. */
function unpackBits(packed: Uint8Array, tile: Uint8Array): number {
  let to = 0;
  for (let at = 0; at < packed.length && to < tile.length;) {
    const length = packed[at++]! << 24 >> 24;
    if (length >= 0) {
      const bytes = packed.subarray(at, at + Math.min(length + 1, tile.length - to));
      tile.set(bytes, to);
      to += bytes.length;
      at += length + 1;
    } else if (length !== -128) {
      tile.fill(packed[at++] ?? 0, to, to + 1 - length);
      to = Math.min(tile.length, to + 1 - length);
    }
  }
  return to;
}
