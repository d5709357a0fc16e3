/**
 * Resizes images exactly as Pillow does, since models were trained with it: antialiased, with fixed-point weights, in
 * two passes that are each rounded to 8 bits. Images with alpha are premultiplied first, as in Pillow.
 *
 * @module
 */
import { BAND_BYTES, PixelRoom, type Pixels, premultiply, unpremultiply } from "./pixels.ts";
import {
  computeWeights,
  findNearestInputs,
  type ResampleFilter,
  type Weights,
} from "./resample_filter.ts";

export type { ResampleFilter };

/** Options for resizing. */
interface ResizeOptions {
  /** Width of the result in pixels, at least 1. */
  readonly width: number;
  /** Height of the result in pixels, at least 1. */
  readonly height: number;
  readonly filter: ResampleFilter;
}

/**
 * Resizes an image. The result has the same channels and equals Pillow's.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * const row = { width: 4, height: 1, channels: 1, data: Uint8Array.of(0, 100, 200, 250) } as const;
 * const half = resize(row, { width: 2, height: 1, filter: "box" });
 * assert.deepEqual([...half.data], [50, 225]);
 * ```
 *
 * @throws {RangeError} when a size is not a positive integer.
 */
export function resize(pixels: Pixels, options: ResizeOptions): Pixels {
  const { width, height, filter } = options;
  const mixesPixels = filter !== "nearest" && !(width === pixels.width && height === pixels.height);
  return mixesPixels && pixels.channels % 2 === 0
    ? unpremultiply(resizeChannels(premultiply(pixels), options))
    : resizeChannels(pixels, options);
}

/** Like {@linkcode resize}, but treats alpha like the other channels, so that it does not change colours. */
export function resizeChannels(pixels: Pixels, { width, height, filter }: ResizeOptions): Pixels {
  for (const size of [width, height]) {
    if (Number.isInteger(size) && size >= 1) continue;
    throw new RangeError(`An image cannot be resized to ${width} × ${height} pixels.`);
  }
  const isAcross = width !== pixels.width;
  const isDown = height !== pixels.height;
  if (!isAcross && !isDown) return { ...pixels, data: pixels.data.slice() };
  if (filter === "nearest") return pickNearest(pixels, width, height);
  const wide = isAcross
    ? filterHorizontally(pixels, computeWeights(pixels.width, width, filter))
    : pixels;
  return isDown ? filterVertically(wide, computeWeights(pixels.height, height, filter)) : wide;
}

function pickNearest(pixels: Pixels, width: number, height: number): Pixels {
  const { channels, data: from } = pixels;
  const data = new Uint8Array(width * height * channels);
  const columns = findNearestInputs(pixels.width, width);
  let to = 0;
  for (const row of findNearestInputs(pixels.height, height)) {
    for (const column of columns) {
      const at = (row * pixels.width + column) * channels;
      for (let channel = 0; channel < channels; channel++) data[to++] = from[at + channel]!;
    }
  }
  return { width, height, channels, data };
}

/** Fractional bits of a weight: sums of 8-bit pixels, with some overshoot, still fit into 32 bits. */
const FRACTION_BITS = 22;
/** The kernels take a weight as two 16-bit numbers: this many low bits, and the remaining high bits. */
const LOW_BITS = 12;
/** Number of weights that the kernels process at a time. */
const WEIGHTS_AT_A_TIME = 8;

function toFixed(weight: number): number {
  return Math.trunc(weight * 2 ** FRACTION_BITS + (weight < 0 ? -0.5 : 0.5));
}

/** Resizes an image along its rows. The weights determine the new width. */
function filterHorizontally(pixels: Pixels, weights: Weights): Pixels {
  const { width, height, channels, data } = pixels;
  const toWidth = weights.first.length;
  const [rowBytes, toRowBytes] = [width * channels, toWidth * channels];
  const bandRows = Math.max(1, Math.floor(BAND_BYTES / Math.max(rowBytes, toRowBytes)));
  const spans = listSpans(weights);
  const { stride, values } = packHorizontalWeights(weights);

  const room = new PixelRoom();
  const input = room.reserve(bandRows * rowBytes);
  const output = room.reserve(bandRows * toRowBytes);
  const spansAt = room.reserve(spans.byteLength);
  const weightsAt = room.reserve(values.byteLength);
  using memory = room.open();
  const { kernels, buffer, bytes } = memory;
  new Int32Array(buffer, spansAt).set(spans);
  new Int16Array(buffer, weightsAt).set(values);

  const to = new Uint8Array(toRowBytes * height);
  for (let row = 0; row < height; row += bandRows) {
    const numRows = Math.min(bandRows, height - row);
    bytes.set(data.subarray(row * rowBytes, (row + numRows) * rowBytes), input);
    kernels.shrinkRows(
      input,
      rowBytes,
      numRows,
      channels,
      output,
      toWidth,
      spansAt,
      weightsAt,
      stride,
    );
    to.set(bytes.subarray(output, output + numRows * toRowBytes), row * toRowBytes);
  }
  return { width: toWidth, height, channels, data: to };
}

/** Lists for each output its first input and the number of its inputs. */
function listSpans({ first, count }: Weights): Int32Array {
  return Int32Array.from({ length: 2 * first.length }, (_, i) => (i % 2 ? count : first)[i >> 1]!);
}

/** Packs weights as i16 `[outputs, 2, stride]`: for each output, the high parts of its weights, then the low parts. */
function packHorizontalWeights(
  { count, stride: ownStride, values }: Weights,
): { readonly stride: number; readonly values: Int16Array } {
  const stride = Math.ceil(ownStride / WEIGHTS_AT_A_TIME) * WEIGHTS_AT_A_TIME;
  const laid = new Int16Array(2 * stride * count.length);
  for (let output = 0; output < count.length; output++) {
    const high = 2 * stride * output;
    for (let k = 0; k < count[output]!; k++) {
      const weight = toFixed(values[output * ownStride + k]!);
      laid[high + k] = weight >> LOW_BITS;
      laid[high + stride + k] = weight & ((1 << LOW_BITS) - 1);
    }
  }
  return { stride, values: laid };
}

/** Resizes an image along its columns. The weights determine the new height. */
function filterVertically(pixels: Pixels, weights: Weights): Pixels {
  const { width, channels, data } = pixels;
  const { first, count, stride } = weights;
  const height = first.length;
  const rowBytes = width * channels;
  const numPairs = Math.ceil(stride / 2);
  // Only when an image shrinks a lot does an output row need more input rows than fit into the cache.
  const bandPairs = Math.min(numPairs, Math.max(1, Math.floor(BAND_BYTES / (2 * rowBytes))));
  const values = packVerticalWeights(weights, numPairs);

  const room = new PixelRoom();
  const rows = room.reserve(2 * bandPairs * rowBytes);
  const sums = room.reserve(rowBytes * Int32Array.BYTES_PER_ELEMENT);
  const output = room.reserve(rowBytes);
  const weightsAt = room.reserve(values.byteLength);
  using memory = room.open();
  const { kernels, buffer, bytes } = memory;
  new Int16Array(buffer, weightsAt).set(values);
  bytes.fill(0, sums, output);

  const to = new Uint8Array(rowBytes * height);
  for (let y = 0; y < height; y++) {
    const endRow = first[y]! + count[y]!;
    let weight = weightsAt + y * numPairs * PAIR_BYTES;
    for (let row = first[y]!; row < endRow; row += 2 * bandPairs) {
      const end = Math.min(endRow, row + 2 * bandPairs);
      bytes.set(data.subarray(row * rowBytes, end * rowBytes), rows);
      const pairs = Math.ceil((end - row) / 2);
      kernels.addRows(rows, rowBytes, pairs, weight, sums);
      weight += pairs * PAIR_BYTES;
    }
    kernels.clipRow(sums, rowBytes, output);
    to.set(bytes.subarray(output, output + rowBytes), y * rowBytes);
  }
  return { width, height, channels, data: to };
}

const PAIR_BYTES = 4 * Int16Array.BYTES_PER_ELEMENT;

/**
 * Packs weights as i16 `[outputs, pairs, 2, 2]`: for each pair of neighbouring rows, the high parts of their weights,
 * then the low parts.
 */
function packVerticalWeights({ count, stride, values }: Weights, numPairs: number): Int16Array {
  const laid = new Int16Array(4 * numPairs * count.length);
  for (let output = 0; output < count.length; output++) {
    for (let k = 0; k < count[output]!; k++) {
      const weight = toFixed(values[output * stride + k]!);
      const high = 4 * (numPairs * output + (k >> 1)) + k % 2;
      laid[high] = weight >> LOW_BITS;
      laid[high + 2] = weight & ((1 << LOW_BITS) - 1);
    }
  }
  return laid;
}
