/**
 * Difficult images and formats, for the tests of the resampling kernels.
 *
 * @module
 */
import type { TensorFormat } from "../../kernels/images/image_reference.ts";
import type { Pixels } from "../../src/media/pixels.ts";
import type { ResampleFilter } from "../../src/media/resample.ts";
import { Random } from "../unit/engine/random.ts";

/** RGBA noise that is often 0 or 255, in colour and in alpha. */
export function noiseImage(width: number, height: number, seed = 1): Pixels {
  const random = new Random(seed);
  const data = new Uint8Array(4 * width * height);
  for (let i = 0; i < data.length; i++) {
    const kind = random.between(0, 3);
    data[i] = kind === 0 ? 0 : kind === 1 ? 255 : random.between(0, 255);
  }
  return { width, height, channels: 4, data };
}

/** A case of `resize_normalize`. */
export interface ResizeCase {
  readonly name: string;
  readonly image: Pixels;
  readonly format: TensorFormat;
}

function makeFormat(changes: Partial<TensorFormat>): TensorFormat {
  const { width = 16, height = 12 } = changes;
  return {
    layout: "nchw",
    width,
    height,
    contentWidth: width,
    contentHeight: height,
    filter: "bilinear",
    scale: [1 / 127.5, 1 / 57.1, 1 / 255],
    offset: [-1, -0.456 / 0.224, 0.25],
    ...changes,
  };
}

const FILTERS: readonly ResampleFilter[] = [
  "nearest",
  "box",
  "bilinear",
  "hamming",
  "bicubic",
  "lanczos",
];

export const RESIZE_CASES: readonly ResizeCase[] = [
  ...FILTERS.flatMap((filter): ResizeCase[] => [
    { name: `${filter}, shrinking`, image: noiseImage(101, 67), format: makeFormat({ filter }) },
    { name: `${filter}, growing`, image: noiseImage(5, 7), format: makeFormat({ filter }) },
  ]),
  { name: "one pixel", image: noiseImage(1, 1), format: makeFormat({}) },
  { name: "to one pixel", image: noiseImage(37, 41), format: makeFormat({ width: 1, height: 1 }) },
  { name: "a long row", image: noiseImage(3000, 1), format: makeFormat({ filter: "lanczos" }) },
  { name: "a long column", image: noiseImage(1, 3000), format: makeFormat({ filter: "bicubic" }) },
  { name: "the same size", image: noiseImage(16, 12), format: makeFormat({}) },
  {
    name: "interleaved channels",
    image: noiseImage(33, 9),
    format: makeFormat({ layout: "nhwc", width: 17, height: 5 }),
  },
  {
    name: "with a border, planes",
    image: noiseImage(40, 20),
    format: makeFormat({ contentWidth: 16, contentHeight: 8 }),
  },
  {
    name: "with a border, interleaved channels",
    image: noiseImage(20, 40),
    format: makeFormat({ layout: "nhwc", contentWidth: 6, contentHeight: 12 }),
  },
];
