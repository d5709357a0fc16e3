/**
 * The two passes of a resize over 8-bit pixels, each rounded to 8 bits, with weights in fixed point: Pillow's own way,
 * to the last bit.
 *
 * @module
 */
import type { Pixels } from "./pixels.ts";
import type { Weights } from "./resample_filter.ts";

/** Bits after the point of a weight: sums of 8-bit pixels, with some overshoot, still fit 32 bits. */
const FRACTION_BITS = 22;
/** What makes cutting off the fraction a rounding. */
const HALF = 1 << (FRACTION_BITS - 1);

function toFixed(weights: Float64Array): Int32Array {
  const one = 2 ** FRACTION_BITS;
  return Int32Array.from(weights, (weight) => Math.trunc(weight * one + (weight < 0 ? -0.5 : 0.5)));
}

function clip(sum: number): number {
  const level = sum >> FRACTION_BITS;
  return level < 0 ? 0 : level > 255 ? 255 : level;
}

/** The picture at the width of the weights. */
export function filterHorizontally(pixels: Pixels, weights: Weights): Pixels {
  const { width, height, channels, data } = pixels;
  const { first, count, stride } = weights;
  const fixed = toFixed(weights.values);
  const toWidth = first.length;
  const output = new Uint8Array(toWidth * height * channels);
  for (let row = 0, to = 0; row < height; row++) {
    const rowStart = row * width * channels;
    for (let x = 0; x < toWidth; x++, to += channels) {
      const from = rowStart + first[x]! * channels;
      const firstWeight = x * stride;
      const endWeight = firstWeight + count[x]!;
      // The sums of a pixel's channels side by side read its weights once: twice as fast as one after the other.
      if (channels === 3) {
        let r = HALF, g = HALF, b = HALF;
        for (let k = firstWeight, at = from; k < endWeight; k++, at += 3) {
          const weight = fixed[k]!;
          r += Math.imul(data[at]!, weight);
          g += Math.imul(data[at + 1]!, weight);
          b += Math.imul(data[at + 2]!, weight);
        }
        output[to] = clip(r);
        output[to + 1] = clip(g);
        output[to + 2] = clip(b);
      } else if (channels === 4) {
        let r = HALF, g = HALF, b = HALF, a = HALF;
        for (let k = firstWeight, at = from; k < endWeight; k++, at += 4) {
          const weight = fixed[k]!;
          r += Math.imul(data[at]!, weight);
          g += Math.imul(data[at + 1]!, weight);
          b += Math.imul(data[at + 2]!, weight);
          a += Math.imul(data[at + 3]!, weight);
        }
        output[to] = clip(r);
        output[to + 1] = clip(g);
        output[to + 2] = clip(b);
        output[to + 3] = clip(a);
      } else {
        for (let channel = 0; channel < channels; channel++) {
          let sum = HALF;
          for (let k = firstWeight, at = from + channel; k < endWeight; k++, at += channels) {
            sum += Math.imul(data[at]!, fixed[k]!);
          }
          output[to + channel] = clip(sum);
        }
      }
    }
  }
  return { width: toWidth, height, channels, data: output };
}

/** The picture at the height of the weights. */
export function filterVertically(pixels: Pixels, weights: Weights): Pixels {
  const { width, channels, data } = pixels;
  const { first, count, stride } = weights;
  const fixed = toFixed(weights.values);
  const height = first.length;
  const rowBytes = width * channels;
  const output = new Uint8Array(rowBytes * height);
  // Whole rows are added up, so that memory is read in its order.
  const sums = new Int32Array(rowBytes);
  for (let y = 0; y < height; y++) {
    sums.fill(HALF);
    for (let k = 0; k < count[y]!; k++) {
      const weight = fixed[y * stride + k]!;
      const from = (first[y]! + k) * rowBytes;
      for (let i = 0; i < rowBytes; i++) sums[i]! += Math.imul(data[from + i]!, weight);
    }
    const to = y * rowBytes;
    for (let i = 0; i < rowBytes; i++) output[to + i] = clip(sums[i]!);
  }
  return { width, height, channels, data: output };
}
