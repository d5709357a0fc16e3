/**
 * The samples of a TIFF file as RGB or RGBA.
 *
 * @module
 */
import type { Pixels } from "../pixels.ts";
import { invalidImage } from "./format.ts";
import type { TiffLayout } from "./tiff_layout.ts";
import { TIFF_TAG } from "./tiff_tags.ts";

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
export function colorizeTiff(layout: TiffLayout, samples: Uint8Array): Pixels {
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
