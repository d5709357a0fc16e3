/**
 * Reads strips and tiles of TIFF files that are images of another format: JPEG streams (Adobe's TIFF Technical Note 2)
 * and WebP.
 *
 * @module
 */
import { joinBytes } from "../../base/join_bytes.ts";
import { type ImageFormat, invalidImage } from "./format.ts";
import { JPEG } from "./jpeg.ts";
import { TIFF_TAG, type TiffLayout } from "./tiff_tags.ts";
import { WEBP } from "./webp.ts";

/** Formats by TIFF's compression number, and the numbers of samples that their pixels may have. */
const FORMATS: Readonly<Record<number, readonly [format: ImageFormat, numSamples: number[]]>> = {
  7: [JPEG, [1, 3]],
  50001: [WEBP, [3, 4]],
};

/** TIFF's value for RGB in the tag that says how samples become colours. */
const RGB = 2;
const MARKER_BYTES = 2;
const START_OF_IMAGE = Uint8Array.of(0xff, 0xd8);

/** Whether the strips or tiles are images of another format. */
export function hasCodedTiles({ tags }: TiffLayout): boolean {
  return (tags.get(TIFF_TAG.compression)?.[0] ?? 1) in FORMATS;
}

/**
 * Decodes one strip or tile.
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
    throw invalidImage(
      `The TIFF file cannot be read: it holds ${format.name} of ${samplesPerPixel} samples of ${layout.bits} ` +
        `bits; ${numSamples.join(" or ")} of 8 bits are wanted.`,
    );
  }
  const file = format === JPEG ? completeJpeg(packed, layout) : packed.slice();
  const size = format.readSize(file);
  const maxHeight = tile.length / (width * samplesPerPixel);
  if (size.width !== width || size.height < rows || size.height > maxHeight) {
    throw invalidImage(
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
    makeAdobeSegment(photometric === RGB ? 0 : 1),
    tables.subarray(MARKER_BYTES, -MARKER_BYTES),
    packed.subarray(MARKER_BYTES),
  ]);
}

/** Says whether the colours are RGB (0) or YCbCr (1); without it decoders would guess. */
function makeAdobeSegment(transform: 0 | 1): Uint8Array {
  return Uint8Array.of(
    ...[0xff, 0xee, 0, 14, 0x41, 0x64, 0x6f, 0x62, 0x65],
    ...[0, 100, 0, 0, 0, 0, transform],
  );
}
