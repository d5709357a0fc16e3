/**
 * Reads TIFF and BigTIFF files (TIFF 6.0): grey, palette, RGB and CMYK of 1 to 16 bits, fax codes, and JPEG.
 *
 * @module
 */
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, invalidImage } from "./format.ts";
import { toOrientation } from "./orientation.ts";
import { readTiffSamples } from "./tiff_samples.ts";
import { isTiff, readTiffTags, TIFF_TAG, type TiffLayout } from "./tiff_tags.ts";

const UNSIGNED = 1;
const MAX_BITS = 16;
const MAX_SAMPLES = 5;

/** TIFF; of several pages the first. */
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
  const isKnown = bits >= 1 && bits <= MAX_BITS && depths.every((depth) => depth === bits) &&
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
    tags,
  };
  return colorizeTiff(layout, await readTiffSamples(file, layout));
}

/** TIFF's numbers of what samples mean. */
const WHITE_IS_ZERO = 0;
const BLACK_IS_ZERO = 1;
const RGB = 2;
const PALETTE = 3;
const CMYK = 5;
/** Only of JPEG, whose decoder makes RGB of it. */
const YCBCR = 6;
const JPEG = 7;
/** Samples that a colour takes; what comes after them is alpha or unknown. */
const NUM_COLORS: Readonly<Record<number, number>> = {
  [WHITE_IS_ZERO]: 1,
  [BLACK_IS_ZERO]: 1,
  [RGB]: 3,
  [PALETTE]: 1,
  [CMYK]: 4,
  [YCBCR]: 3,
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
  const isUnread = photometric === YCBCR && tags.get(TIFF_TAG.compression)?.[0] !== JPEG;
  if (numColors === undefined || isUnread || numSamples < numColors) {
    throw invalidImage(
      `The TIFF file cannot be read: it has ${numSamples} samples a pixel of photometric kind ` +
        `${photometric}; grey, RGB, palettes, CMYK, and YCbCr of JPEG are.`,
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
    } else if (photometric === RGB || photometric === YCBCR) {
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
