/**
 * The results of background removal: the subject alone, on a colour, cropped, or its mask. They are made and encoded
 * whole, or in stripes that several threads compress. Refining the rim and cropping to the subject need the whole
 * image.
 *
 * @module
 */
import {
  compositeAlpha,
  compositeBands,
  type RowsMask,
} from "../../../kernels/images/image_reference.ts";
import type { MaskedImage } from "../../device/media.ts";
import { type Channels, crop, type Pixels } from "../../media/pixels.ts";
import { joinPng, packPngStripe, type PngStripe, splitBands } from "../../media/image/png.ts";
import type { MatteOptions } from "../task.ts";
import { refineCutOut } from "./refine_cut_out.ts";

/** Least alpha of a pixel that counts as part of the subject when the image is cropped. */
const LEAST_ALPHA = 8;

/**
 * Makes the result that the options ask for.
 *
 * @param pixels RGBA; changed if a background is composited.
 * @returns RGBA, or grey for a mask; an image without a subject is not cropped.
 */
export function makeCutOut(pixels: Pixels, options: MatteOptions): Pixels {
  const { background, maskOnly, crop: isCropped } = options;
  const box = isCropped ? subjectBox(pixels) : undefined;
  const kept = box === undefined ? pixels : crop(pixels, box);
  if (maskOnly) return extractAlpha(kept);
  if (background !== undefined) layBehind(kept, background);
  return kept;
}

/** The smallest box around the subject; `undefined` if there is none. Most pixels inside it are never read. */
function subjectBox(
  { width, height, data }: Pixels,
): [left: number, top: number, right: number, bottom: number] | undefined {
  const isSubject = (x: number, y: number) => data[4 * (y * width + x) + 3]! >= LEAST_ALPHA;
  /** The first column of the subject from `from` on and before `to`; `to` if there is none. */
  const find = (y: number, from: number, to: number) => {
    const step = from < to ? 1 : -1;
    let x = from;
    while (x !== to && !isSubject(x, y)) x += step;
    return x;
  };
  const isEmpty = (y: number) => find(y, 0, width) === width;
  let [top, bottom] = [0, height];
  while (top < height && isEmpty(top)) top++;
  if (top === height) return undefined;
  while (isEmpty(bottom - 1)) bottom--;
  let [left, last] = [width, -1];
  for (let y = top; y < bottom; y++) {
    left = find(y, 0, left);
    last = find(y, width - 1, last);
  }
  return [left, top, last + 1, bottom];
}

function extractAlpha({ width, height, data }: Pixels): Pixels {
  const alpha = new Uint8Array(width * height);
  for (let i = 0; i < alpha.length; i++) alpha[i] = data[4 * i + 3]!;
  return { width, height, channels: 1, data: alpha };
}

/**
 * Composites a background behind the image, in place (Porter and Duff 1984, "over"). The result is at least as opaque
 * as the background.
 */
function layBehind({ data }: Pixels, background: NonNullable<MatteOptions["background"]>): void {
  const behind = (background[3] ?? 255) / 255;
  for (let at = 0; at < data.length; at += 4) {
    const alpha = data[at + 3]!;
    if (alpha === 255) continue;
    const rest = behind * (255 - alpha);
    const total = alpha + rest;
    data[at + 3] = Math.round(total);
    for (let channel = 0; channel < 3; channel++) {
      const sum = data[at + channel]! * alpha + background[channel]! * rest;
      data[at + channel] = total === 0 ? 0 : Math.round(sum / total);
    }
  }
}

type PixelOptions = Pick<MatteOptions, "background" | "maskOnly">;

export interface CutOut extends MaskedImage {
  readonly options: PixelOptions;
  /** The original file's ICC profile, which is kept. */
  readonly colorProfile?: Uint8Array | undefined;
}

/** Some rows of a cut-out. */
interface CutOutStripe {
  readonly rows: Pixels;
  readonly mask: RowsMask | undefined;
  readonly options: PixelOptions;
}

/**
 * Divides an image into stripes of about the same height.
 *
 * @returns stripes that share no memory; the first keeps the image's own.
 */
export function splitCutOut(
  { pixels, mask, options }: CutOut,
  numStripes: number,
): CutOutStripe[] {
  const { width, height, channels, data } = pixels;
  const stripeRows = Math.ceil(height / numStripes);
  return Array.from({ length: Math.ceil(height / stripeRows) }, (_, stripe) => {
    const firstRow = stripe * stripeRows;
    const numRows = Math.min(stripeRows, height - firstRow);
    const [start, end] = [firstRow, firstRow + numRows].map((row) => row * width * channels);
    return {
      rows: {
        ...pixels,
        height: numRows,
        data: stripe === 0 ? data.subarray(0, end) : data.slice(start, end),
      },
      mask: mask && { ...mask, firstRow, height },
      options,
    };
  });
}

/** Joins compressed stripes into the file of an image. */
export function joinCutOut(cutOut: CutOut, stripes: readonly PngStripe[]): Uint8Array<ArrayBuffer> {
  const { pixels: { width, height }, mask, options, colorProfile } = cutOut;
  const channels = packedChannels({ channels: cutOut.pixels.channels, mask, options });
  return joinPng({ width, height, channels }, stripes, channels < 3 ? undefined : colorProfile);
}

/** Compresses a stripe. If its rows have alpha and there is no mask, they may be changed. */
export function packCutOutStripe({ rows, mask, options }: CutOutStripe): PngStripe {
  const { width, channels } = rows;
  const bands = mask === undefined ? splitBands(rows) : compositeBands(rows, mask);
  const isFinal = options.background === undefined && !options.maskOnly;
  return packPngStripe(
    { width, channels: packedChannels({ channels, mask, options }) },
    isFinal ? bands : finish(bands, width, options),
  );
}

function packedChannels(
  { channels, mask, options }: Pick<Pixels, "channels"> & Omit<CutOut, "pixels">,
): Channels {
  if (options.maskOnly) return 1;
  return mask === undefined ? channels : 4;
}

function* finish(
  bands: Iterable<Uint8Array<ArrayBuffer>>,
  width: number,
  options: PixelOptions,
): Generator<Uint8Array<ArrayBuffer>> {
  for (const data of bands) {
    const height = data.length / (4 * width);
    yield makeCutOut({ width, height, channels: 4, data }, options).data;
  }
}

export interface WholeCutOut {
  /** The image as it was received. */
  readonly original: Pixels;
  /** The image with its mask; it may share the original's memory. */
  readonly masked: MaskedImage;
  /** Longer side of the mask. */
  readonly maskSide: number;
  readonly options: MatteOptions;
}

/** Makes the result that the options ask for; both images may be changed. */
export function makeWholeCutOut(
  { original, masked: { pixels, mask }, maskSide, options }: WholeCutOut,
): Pixels {
  const isOverwritten = options.refine === true && pixels.channels === 4 && mask !== undefined;
  const own = isOverwritten ? { ...pixels, data: pixels.data.slice() } : pixels;
  const cutOut = mask === undefined ? own : compositeAlpha(own, mask);
  if (options.refine) refineCutOut(cutOut, { maskSide, original });
  return makeCutOut(cutOut, options);
}
