/**
 * Converts the samples of TIFF files to RGB: grey, palettes, RGB, CMYK, YCbCr and CIELab.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import type { Pixels } from "../pixels.ts";
import { TIFF_TAG, type TiffTags } from "./tiff_tags.ts";

/** TIFF's numbers for the meaning of samples. */
export const PHOTOMETRIC = {
  whiteIsZero: 0,
  blackIsZero: 1,
  rgb: 2,
  palette: 3,
  cmyk: 5,
  yCbCr: 6,
  /** CIELab with signed a and b. */
  cieLab: 8,
  /** CIELab as in ICC profiles: 128 is added to a and b. */
  iccLab: 9,
} as const;

/** The compression whose decoder already converts YCbCr to RGB. */
const JPEG = 7;
const PREMULTIPLIED_ALPHA = 1;
const STRAIGHT_ALPHA = 2;

/** The layout and meaning of a TIFF file's samples. */
export interface TiffLayout {
  readonly width: number;
  readonly height: number;
  /** 1 to 16, 24 or 32. */
  readonly bits: number;
  readonly numSamples: number;
  readonly photometric: number;
  /** Whether each sample of a pixel lies in a plane of its own. */
  readonly isPlanar: boolean;
  readonly tags: TiffTags;
}

/** How the samples of a pixel become a colour. */
interface ColorKind {
  /** Number of samples for a colour; samples after these are alpha or unknown. */
  readonly numSamples: number;
  /** Writes red, green and blue. Samples are 0 to 255, except for palette indices. */
  readonly convert: (from: Uint8Array, at: number, to: Uint8ClampedArray, toAt: number) => void;
}

/**
 * @throws {HearthError} `invalid_media` when the meaning of the samples is not supported, or there are too few of them.
 */
export function findColorKind(layout: TiffLayout): ColorKind {
  const { numSamples, photometric } = layout;
  const kind = chooseKind(layout);
  if (kind !== undefined && numSamples >= kind.numSamples) return kind;
  throw invalidMedia(
    `The TIFF file cannot be read: it has ${numSamples} samples a pixel of photometric kind ` +
      `${photometric}; grey, RGB, palettes, CMYK, YCbCr and CIELab are supported.`,
  );
}

/**
 * Converts the samples of a file to pixels.
 *
 * @param samples u8 `[height, width, numSamples]`; overwritten.
 */
export function colorizeTiff(layout: TiffLayout, kind: ColorKind, samples: Uint8Array): Pixels {
  const { width, height, bits, numSamples, photometric, tags } = layout;
  // A fourth sample of RGB that the file does not explain is alpha, as in Pillow.
  const unexplained = photometric === PHOTOMETRIC.rgb && numSamples === 4
    ? STRAIGHT_ALPHA
    : undefined;
  const extra = numSamples > kind.numSamples
    ? tags.get(TIFF_TAG.extraSamples)?.[0] ?? unexplained
    : undefined;
  const hasAlpha = extra === PREMULTIPLIED_ALPHA || extra === STRAIGHT_ALPHA;
  const channels = hasAlpha ? 4 : 3;
  const data = new Uint8Array(width * height * channels);
  const scale = bits < 8 ? 255 / ((1 << bits) - 1) : 1;
  if (scale !== 1 && photometric !== PHOTOMETRIC.palette) {
    for (let i = 0; i < samples.length; i++) samples[i] = samples[i]! * scale;
  }
  const levels = new Uint8ClampedArray(data.buffer);
  for (let from = 0, to = 0; to < data.length; from += numSamples, to += channels) {
    kind.convert(samples, from, levels, to);
    if (hasAlpha) data[to + 3] = samples[from + kind.numSamples]!;
    if (extra === PREMULTIPLIED_ALPHA) unpremultiplyPixel(data, to);
  }
  return { width, height, channels, data };
}

function chooseKind(layout: TiffLayout): ColorKind | undefined {
  switch (layout.photometric) {
    case PHOTOMETRIC.whiteIsZero:
      return {
        numSamples: 1,
        convert: (from, at, to, toAt) => to.fill(255 - from[at]!, toAt, toAt + 3),
      };
    case PHOTOMETRIC.blackIsZero:
      return { numSamples: 1, convert: (from, at, to, toAt) => to.fill(from[at]!, toAt, toAt + 3) };
    case PHOTOMETRIC.rgb:
      return { numSamples: 3, convert: copyColor };
    case PHOTOMETRIC.palette:
      return makePalette(layout);
    case PHOTOMETRIC.cmyk:
      return { numSamples: 4, convert: convertCmyk };
    case PHOTOMETRIC.yCbCr:
      return { numSamples: 3, convert: isJpeg(layout) ? copyColor : convertYCbCr };
    case PHOTOMETRIC.cieLab:
    case PHOTOMETRIC.iccLab:
      return {
        numSamples: 3,
        convert: makeLabConverter(layout.photometric === PHOTOMETRIC.cieLab),
      };
    default:
      return undefined;
  }
}

function isJpeg({ tags }: TiffLayout): boolean {
  return tags.get(TIFF_TAG.compression)?.[0] === JPEG;
}

const copyColor: ColorKind["convert"] = (from, at, to, toAt) => {
  for (let i = 0; i < 3; i++) to[toAt + i] = from[at + i]!;
};

const convertCmyk: ColorKind["convert"] = (from, at, to, toAt) => {
  const light = 255 - from[at + 3]!;
  for (let i = 0; i < 3; i++) to[toAt + i] = light * (255 - from[at + i]!) / 255;
};

/** Converts by ITU-R BT.601 at full range, TIFF's default. */
const convertYCbCr: ColorKind["convert"] = (from, at, to, toAt) => {
  const [luma, blue, red] = [from[at]!, from[at + 1]! - 128, from[at + 2]! - 128];
  to[toAt] = luma + 1.402 * red;
  to[toAt + 1] = luma - 0.344136 * blue - 0.714136 * red;
  to[toAt + 2] = luma + 1.772 * blue;
};

/** Looks up red, green and blue of each palette index. */
function makePalette({ bits, tags }: TiffLayout): ColorKind {
  const values = tags.get(TIFF_TAG.colorMap) ?? [];
  const numColors = 1 << bits;
  if (values.length < 3 * numColors) {
    throw invalidMedia(`The TIFF file is damaged: its palette has ${values.length} values.`);
  }
  const convert: ColorKind["convert"] = (from, at, to, toAt) => {
    for (let i = 0; i < 3; i++) to[toAt + i] = values[i * numColors + from[at]!]! >> 8;
  };
  return { numSamples: 1, convert };
}

/** Converts XYZ relative to white point D50 to linear sRGB (Bradford adaptation). */
const XYZ_TO_RGB = [
  [3.0217, -1.6169, -0.4049],
  [-0.9436, 1.9160, 0.0275],
  [0.0694, -0.2290, 1.1597],
];

/** @param isSigned whether a and b are signed; otherwise 128 has been added to them. */
function makeLabConverter(isSigned: boolean): ColorKind["convert"] {
  const readAxis = (byte: number) => isSigned ? byte << 24 >> 24 : byte - 128;
  const toLight = (root: number) => root > 6 / 29 ? root ** 3 : (root - 4 / 29) * 108 / 841;
  const toLevel = (light: number) =>
    255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055);
  return (from, at, to, toAt) => {
    const y = (from[at]! / 2.55 + 16) / 116;
    const roots = [y + readAxis(from[at + 1]!) / 500, y, y - readAxis(from[at + 2]!) / 200];
    const white = roots.map(toLight);
    for (const [i, row] of XYZ_TO_RGB.entries()) {
      to[toAt + i] = toLevel(row.reduce((sum, factor, k) => sum + factor * white[k]!, 0));
    }
  };
}

function unpremultiplyPixel(data: Uint8Array, at: number): void {
  const alpha = data[at + 3]!;
  if (alpha === 0) return;
  for (let i = at; i < at + 3; i++) data[i] = Math.min(255, data[i]! * 255 / alpha);
}
