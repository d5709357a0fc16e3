/**
 * The two passes of a resize over 8-bit pixels, each rounded to 8 bits, with fixed-point weights: Pillow's algorithm,
 * to the last bit.
 *
 * @module
 */
import { BAND_BYTES, PixelRoom } from "./pixel_simd.ts";
import type { Pixels } from "./pixels.ts";
import type { Weights } from "./resample_filter.ts";

/** Fractional bits of a weight: sums of 8-bit pixels, with some overshoot, still fit into 32 bits. */
const FRACTION_BITS = 22;
/** The kernels take a weight as two 16-bit numbers: this many low bits, and the others. */
const LOW_BITS = 12;
/** Number of weights that the kernels process at a time. */
const WEIGHTS_AT_A_TIME = 8;

function toFixed(weight: number): number {
  return Math.trunc(weight * 2 ** FRACTION_BITS + (weight < 0 ? -0.5 : 0.5));
}

/** Resizes an image to the width of the weights. */
export function filterHorizontally(pixels: Pixels, weights: Weights): Pixels {
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

/** For each output, its first input and the number of its inputs. */
function listSpans({ first, count }: Weights): Int32Array {
  return Int32Array.from({ length: 2 * first.length }, (_, i) => (i % 2 ? count : first)[i >> 1]!);
}

/** i16 `[outputs, 2, stride]`: the high parts of an output's weights before the low ones. */
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

/** Resizes an image to the height of the weights. */
export function filterVertically(pixels: Pixels, weights: Weights): Pixels {
  const { width, channels, data } = pixels;
  const { first, count, stride } = weights;
  const height = first.length;
  const rowBytes = width * channels;
  const numPairs = Math.ceil(stride / 2);
  // Only for a large reduction does one output row need more input rows than fit into the cache.
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

/** i16 `[outputs, pairs, 2, 2]`: for two neighbouring rows, the high parts of their weights, then the low ones. */
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
