/**
 * The formats in which models take images, and the image kernels on the CPU: the references for the WGSL kernels, and
 * the CPU backend's implementation.
 *
 * @module
 */
import {
  computeWeights,
  findNearestInputs,
  type ResampleFilter,
  type Weights,
} from "../../src/media/resample_filter.ts";
import { BAND_BYTES, type PixelMemory, PixelRoom, type Pixels } from "../../src/media/pixels.ts";
import { resizeChannels } from "../../src/media/resample.ts";

/** The format in which a model takes an image. */
export interface TensorFormat {
  /** Whether channels are separate planes (nchw) or interleaved (nhwc). */
  readonly layout: "nchw" | "nhwc";
  /** Width of the tensor. */
  readonly width: number;
  /** Height of the tensor. */
  readonly height: number;
  /** Size of the resized image, which is put into the upper left corner. The rest of the tensor is 0. */
  readonly contentWidth: number;
  readonly contentHeight: number;
  readonly filter: ResampleFilter;
  /** Factor for each channel, red first: a level from 0 to 255 becomes `level · scale + offset`. */
  readonly scale: readonly [number, number, number];
  readonly offset: readonly [number, number, number];
}

/** The format of a mask made by a model: f32 `[height, width]`. Its upper left part belongs to the image. */
export interface MaskFormat {
  readonly width: number;
  readonly height: number;
  /** Number of columns that belong to the image; may be a fraction. */
  readonly contentWidth: number;
  /** Number of rows that belong to the image; may be a fraction. */
  readonly contentHeight: number;
  readonly filter: ResampleFilter;
}

/** The weights for resizing an axis from `length` pixels, which may be a fraction, to `numOutputs`. */
export function weighAxis(
  length: number,
  numOutputs: number,
  filter: ResampleFilter,
): Weights {
  if (filter !== "nearest") return computeWeights(length, numOutputs, filter);
  return {
    first: findNearestInputs(length, numOutputs),
    count: new Int32Array(numOutputs).fill(1),
    stride: 1,
    values: new Float64Array(numOutputs).fill(1),
  };
}

/** Channels of a model's input. */
const RGB = 3;

/**
 * Writes an image as a tensor: `resize_normalize`.
 *
 * With `p` the image and `u`, `v` the weights of the format's filter along x and y (each row adds up to 1):
 *
 *     wide[j, x, c]   = level(Σ_i u[x, i] p[j, i, c])
 *     output[y, x, c] = scale[c] · level(Σ_j v[y, j] wide[j, x, c]) + offset[c]
 *
 * for x and y within the format's content, and 0 beyond it; alpha is ignored. `level` rounds to 0…255 with Pillow's
 * arithmetic, which rounds after each of its two passes. Models are trained on images that Pillow resized, and small
 * models are sensitive to the rounding. A filter widens by the factor by which an image shrinks, so that every pixel
 * counts (antialiasing).
 *
 * @param image with any number of channels; grey becomes three equal channels.
 * @param output f32 `[3, height, width]` or `[height, width, 3]`, as the format says.
 */
export function resizeNormalize(
  image: Pixels,
  format: TensorFormat,
  output: Float32Array,
): void {
  const { contentWidth: width, contentHeight: height, filter } = format;
  normalize(resizeChannels(image, { width, height, filter }), format, output);
}

function normalize(
  { channels, data }: Pixels,
  { layout, width, height, contentWidth, contentHeight, scale, offset }: TensorFormat,
  output: Float32Array,
): void {
  const [channelStep, pixelStep] = layout === "nchw" ? [width * height, 1] : [1, RGB];
  if (contentWidth < width || contentHeight < height) output.fill(0);
  for (let c = 0; c < RGB; c++) {
    const [factor, constant] = [scale[c]!, offset[c]!];
    let from = channels < RGB ? 0 : c;
    for (let y = 0; y < contentHeight; y++) {
      let to = y * width * pixelStep + c * channelStep;
      for (let x = 0; x < contentWidth; x++, from += channels, to += pixelStep) {
        output[to] = data[from]! * factor + constant;
      }
    }
  }
}

/** Channels of an image with alpha. */
const CHANNELS = 4;
const F32_BYTES = Float32Array.BYTES_PER_ELEMENT;

/** A mask and its format. */
export interface Mask {
  /** f32 `[height, width]`, in the format's size. */
  readonly values: Float32Array;
  readonly format: MaskFormat;
}

/** A mask for some rows of its image. */
export interface RowsMask extends Mask {
  /** Index in the whole image of the first row. */
  readonly firstRow: number;
  /** Height of the whole image. */
  readonly height: number;
}

/**
 * Multiplies an image's alpha by a mask: `composite_alpha`.
 *
 * With `m` the mask's content and `u`, `v` the weights of the format's filter from its size to the image's:
 *
 *     alpha[y, x] = clamp(Σ_j v[y, j] Σ_i u[x, i] m[j, i], 0, 1) · own[y, x]
 *
 * where `own` is the alpha that the image had, 0 to 255; the product is rounded half up, and NaN counts as 0. Pixels
 * whose alpha becomes 0 also lose their colours, which nobody needs and which make files larger and slower to write.
 * Other colours are unchanged.
 *
 * @param image RGBA, which is changed in place, or RGB, which is opaque and left unchanged.
 * @returns RGBA.
 */
export function compositeAlpha(image: Pixels, mask: Mask): Pixels {
  const { width, height, channels } = image;
  const data = channels === CHANNELS ? image.data : new Uint8Array(CHANNELS * width * height);
  let at = 0;
  for (const band of compositeBands(image, { ...mask, firstRow: 0, height })) {
    data.set(band, at);
    at += band.length;
  }
  return { width, height, channels: CHANNELS, data };
}

/**
 * Does the same as {@linkcode compositeAlpha} for some rows of an image, a few at a time.
 *
 * @param rows RGB or RGBA; left unchanged.
 * @returns RGBA, in whole rows; each result is valid until the next is requested.
 */
export function* compositeBands(rows: Pixels, mask: RowsMask): Generator<Uint8Array<ArrayBuffer>> {
  const { width, height, channels, data } = rows;
  const rowBytes = channels * width;
  const toRowBytes = CHANNELS * width;
  const bandRows = Math.max(1, Math.floor(BAND_BYTES / toRowBytes));
  const room = new PixelRoom();
  const input = room.reserve(bandRows * rowBytes);
  const output = room.reserve(bandRows * toRowBytes);
  const placed = placeMask(room, width, mask);
  using memory = room.open();
  const { kernels, bytes } = memory;
  const writeMask = makeMaskWriter(memory, placed, mask);

  for (let first = 0; first < height; first += bandRows) {
    const numRows = Math.min(bandRows, height - first);
    bytes.set(data.subarray(first * rowBytes, (first + numRows) * rowBytes), input);
    for (let row = 0; row < numRows; row++) {
      writeMask(mask.firstRow + first + row);
      const [from, to] = [input + row * rowBytes, output + row * toRowBytes];
      if (channels === CHANNELS) kernels.compositeRgba(from, placed.sums, width, to);
      else kernels.compositeRgb(from, placed.sums, width, to);
    }
    yield bytes.subarray(output, output + numRows * toRowBytes);
  }
}

/** Addresses and weights of a mask's rows at the image's width. */
interface PlacedMask {
  /** Address of the current row. */
  readonly sums: number;
  /** Addresses of mask rows resized to the image's width. */
  readonly kept: readonly number[];
  readonly width: number;
  readonly across: Weights;
  readonly down: Weights;
}

function placeMask(room: PixelRoom, width: number, { format, height }: RowsMask): PlacedMask {
  const across = weighAxis(format.contentWidth, width, format.filter);
  const down = weighAxis(format.contentHeight, height, format.filter);
  const reserveRow = () => room.reserve(F32_BYTES * width);
  // As many rows as a row of the image can depend on; none if the mask is higher than the image.
  const numKept = height < format.contentHeight ? 0 : Math.min(down.stride, format.height);
  const sums = reserveRow();
  return { sums, kept: Array.from({ length: numKept }, reserveRow), width, across, down };
}

/** Writes a row of the mask at the image's size. */
type MaskWriter = (row: number) => void;

function makeMaskWriter(memory: PixelMemory, placed: PlacedMask, mask: Mask): MaskWriter {
  return placed.kept.length === 0
    ? shrinkThenStretch(memory, placed, mask)
    : stretchThenBlend(memory, placed, mask);
}

/**
 * Resizes each row of the mask to the image's width once, then blends neighbouring rows: less work if the mask is
 * enlarged.
 */
function stretchThenBlend(
  { kernels, buffer }: PixelMemory,
  { sums, kept, width, across, down }: PlacedMask,
  { values, format }: Mask,
): MaskWriter {
  const keptRows = new Int32Array(kept.length).fill(-1);
  const stretched = (row: number) => {
    const position = row % kept.length;
    const at = kept[position]!;
    if (keptRows[position] !== row) {
      stretchRow(values.subarray(row * format.width), across, new Float32Array(buffer, at, width));
      keptRows[position] = row;
    }
    return at;
  };
  return (y) => {
    const first = down.first[y]!;
    const weightAt = (k: number) => down.values[y * down.stride + k]!;
    const isOne = down.count[y] === 1;
    const below = isOne ? first : first + 1;
    kernels.mixRows(
      stretched(first),
      weightAt(0),
      stretched(below),
      isOne ? 0 : weightAt(1),
      width,
      sums,
    );
    for (let k = 2; k < down.count[y]!; k++) {
      kernels.mixRows(sums, 1, stretched(first + k), weightAt(k), width, sums);
    }
  };
}

/** Resizes the mask to the image's height first: less work if the mask shrinks, since fewer rows are then stretched. */
function shrinkThenStretch(
  { buffer }: PixelMemory,
  { sums, width, across, down }: PlacedMask,
  { values, format }: Mask,
): MaskWriter {
  const low = new Float32Array(format.width);
  return (y) => {
    low.fill(0);
    for (let k = 0; k < down.count[y]!; k++) {
      const weight = down.values[y * down.stride + k]!;
      const row = values.subarray((down.first[y]! + k) * format.width);
      for (let x = 0; x < low.length; x++) low[x]! += weight * row[x]!;
    }
    stretchRow(low, across, new Float32Array(buffer, sums, width));
  };
}

function stretchRow(
  row: Float32Array,
  { first, count, stride, values }: Weights,
  into: Float32Array,
): void {
  for (let x = 0; x < into.length; x++) {
    let sum = 0;
    for (let k = 0; k < count[x]!; k++) sum += values[x * stride + k]! * row[first[x]! + k]!;
    into[x] = sum;
  }
}
