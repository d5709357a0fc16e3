/**
 * Reads TIFF files (TIFF 6.0, baseline with tiles, LZW and deflate): grey, palette, RGB and CMYK of 1 to 16 bits.
 *
 * @module
 */
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, invalidImage } from "./format.ts";
import { toOrientation } from "./orientation.ts";
import type { TiffLayout } from "./tiff_layout.ts";
import { colorizeTiff } from "./tiff_colors.ts";
import { readTiffSamples } from "./tiff_samples.ts";
import { readTiffTags, TIFF_TAG, tiffByteOrder } from "./tiff_tags.ts";

const UNSIGNED = 1;
const DEPTHS = [1, 2, 4, 8, 16];
const MAX_SAMPLES = 5;

/** TIFF; of several pages the first. */
export const TIFF: ImageFormat = {
  name: "TIFF",
  matches: (file) => tiffByteOrder(file) !== undefined,
  readSize: (file): ImageSize => {
    const tags = readTiffTags(file, tiffByteOrder(file)!);
    return {
      width: tags.get(TIFF_TAG.width)?.[0] ?? 0,
      height: tags.get(TIFF_TAG.height)?.[0] ?? 0,
      orientation: toOrientation(tags.get(TIFF_TAG.orientation)?.[0]),
    };
  },
  decode: (file, size) => decode(file, size),
};

function decode(file: Uint8Array<ArrayBuffer>, { width, height }: ImageSize): Pixels {
  const isLittleEndian = tiffByteOrder(file)!;
  const tags = readTiffTags(file, isLittleEndian);
  const depths = tags.get(TIFF_TAG.bitsPerSample) ?? [1];
  const bits = depths[0]!;
  const numSamples = tags.get(TIFF_TAG.samplesPerPixel)?.[0] ?? 1;
  const format = tags.get(TIFF_TAG.sampleFormat)?.[0] ?? UNSIGNED;
  const isKnown = DEPTHS.includes(bits) && depths.every((depth) => depth === bits) &&
    format === UNSIGNED && numSamples >= 1 && numSamples <= MAX_SAMPLES;
  if (!isKnown) {
    throw invalidImage(
      `The TIFF file cannot be read: it has ${numSamples} samples of ${depths.join(", ")} bits ` +
        `and sample format ${format}; unsigned ones of 1 to 16 bits are wanted.`,
    );
  }
  const layout: TiffLayout = {
    width,
    height,
    bits,
    numSamples,
    photometric: tags.get(TIFF_TAG.photometric)?.[0] ?? 1,
    isPlanar: tags.get(TIFF_TAG.planarConfiguration)?.[0] === 2 && numSamples > 1,
    isLittleEndian,
    tags,
  };
  return colorizeTiff(layout, readTiffSamples(file, layout));
}
