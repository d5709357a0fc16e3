/**
 * Reads TIFF files (TIFF 6.0, baseline with tiles, LZW and deflate): grey, palette, RGB and CMYK of 1 to 16 bits.
 *
 * @module
 */
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, invalidImage } from "./format.ts";
import { toOrientation } from "./orientation.ts";
import { readTiffSamples } from "./tiff_samples.ts";
import { readTiffTags, TIFF_TAG, tiffByteOrder, type TiffLayout } from "./tiff_tags.ts";

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

/** TIFF's numbers of what samples mean. */
const WHITE_IS_ZERO = 0;
const BLACK_IS_ZERO = 1;
const RGB = 2;
const PALETTE = 3;
const CMYK = 5;
/** Samples that a colour takes; what comes after them is alpha or unknown. */
const NUM_COLORS: Readonly<Record<number, number>> = {
  [WHITE_IS_ZERO]: 1,
  [BLACK_IS_ZERO]: 1,
  [RGB]: 3,
  [PALETTE]: 1,
  [CMYK]: 4,
};
const PREMULTIPLIED_ALPHA = 1;
const STRAIGHT_ALPHA = 2;

/**
 * @param samples u8 `[height, width, numSamples]`.
 * @throws {HearthError} `invalid_media` when the samples mean something that is not read, or are too few for it.
 */
function colorizeTiff(layout: TiffLayout, samples: Uint8Array): Pixels {
  const { width, height, bits, numSamples, photometric, tags } = layout;
  const numColors = NUM_COLORS[photometric];
  if (numColors === undefined || numSamples < numColors) {
    throw invalidImage(
      `The TIFF file cannot be read: it has ${numSamples} samples a pixel of photometric kind ` +
        `${photometric}; grey, RGB, palettes and CMYK are.`,
    );
  }
  const extra = numSamples > numColors ? tags.get(TIFF_TAG.extraSamples)?.[0] : undefined;
  const hasAlpha = extra === PREMULTIPLIED_ALPHA || extra === STRAIGHT_ALPHA;
  const channels = hasAlpha ? 4 : 3;
  const data = new Uint8Array(width * height * channels);
  const scale = bits < 8 ? 255 / ((1 << bits) - 1) : 1;
  const colors = photometric === PALETTE ? readPalette(layout) : undefined;
  for (let from = 0, to = 0; to < data.length; from += numSamples, to += channels) {
    const first = samples[from]!;
    if (colors !== undefined) {
      data[to] = colors[0]![first]!;
      data[to + 1] = colors[1]![first]!;
      data[to + 2] = colors[2]![first]!;
    } else if (photometric === RGB) {
      data[to] = first * scale;
      data[to + 1] = samples[from + 1]! * scale;
      data[to + 2] = samples[from + 2]! * scale;
    } else if (photometric === CMYK) {
      const light = 255 - samples[from + 3]! * scale;
      for (let i = 0; i < 3; i++) data[to + i] = light * (255 - samples[from + i]! * scale) / 255;
    } else {
      const grey = first * scale;
      data.fill(photometric === WHITE_IS_ZERO ? 255 - grey : grey, to, to + 3);
    }
    if (hasAlpha) data[to + 3] = samples[from + numColors]! * scale;
    if (extra === PREMULTIPLIED_ALPHA) straighten(data, to);
  }
  return { width, height, channels, data };
}

/** Red, green and blue of each index. */
function readPalette({ bits, tags }: TiffLayout): readonly Uint8Array[] {
  const values = tags.get(TIFF_TAG.colorMap) ?? [];
  const numColors = 1 << bits;
  if (values.length < 3 * numColors) {
    throw invalidImage(`The TIFF file is damaged: its palette has ${values.length} values.`);
  }
  return [0, 1, 2].map((color) =>
    Uint8Array.from({ length: numColors }, (_, i) => values[color * numColors + i]! >> 8)
  );
}

function straighten(data: Uint8Array, at: number): void {
  const alpha = data[at + 3]!;
  if (alpha === 0) return;
  for (let i = at; i < at + 3; i++) data[i] = Math.min(255, data[i]! * 255 / alpha);
}
