/**
 * Reads TIFF and BigTIFF files (TIFF 6.0): 1 to 16, 24 or 32 bits a sample, fax codes, JPEG and WebP.
 *
 * @module
 */
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, invalidImage } from "./format.ts";
import { toOrientation } from "./orientation.ts";
import { colorizeTiff, findColorKind } from "./tiff_colors.ts";
import { readTiffSamples } from "./tiff_samples.ts";
import { isTiff, readTiffTags, TIFF_TAG, type TiffLayout } from "./tiff_tags.ts";

const UNSIGNED = 1;
const MAX_BITS = 16;
const LARGE_BITS = [24, 32];
const MAX_SAMPLES = 5;

/** TIFF; of several pages, the first. */
export const TIFF: ImageFormat = {
  name: "TIFF",
  matches: isTiff,
  readSize: (file): ImageSize => {
    const tags = readTiffTags(file);
    return {
      width: tags.get(TIFF_TAG.width)?.[0] ?? 0,
      height: tags.get(TIFF_TAG.height)?.[0] ?? 0,
      orientation: toOrientation(tags.get(TIFF_TAG.orientation)?.[0]),
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
    throw invalidImage(
      `The TIFF file cannot be read: it has ${numSamples} samples of ${depths.join(", ")} bits ` +
        `and sample format ${format}; unsigned ones (1) of 1 to 16, 24 or 32 bits are wanted.`,
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
