/**
 * Pillow's filters for antialiased resampling, and their weights. When an image shrinks, the filter widens by the same
 * factor, so that every input pixel counts.
 *
 * @module
 */

/** Pillow's filters, at the index that Pillow and `preprocessor_config.json` use for them. */
export const RESAMPLE_FILTERS = [
  "nearest",
  "lanczos",
  "bilinear",
  "bicubic",
  "box",
  "hamming",
] as const;

/** Filters by Pillow's names; `nearest` takes one pixel and has no weights. */
export type ResampleFilter = typeof RESAMPLE_FILTERS[number];

interface Kernel {
  /** The kernel is zero at this distance and beyond. */
  readonly support: number;
  readonly weigh: (distance: number) => number;
}

const KERNELS: Readonly<Record<Exclude<ResampleFilter, "nearest">, Kernel>> = {
  box: { support: 0.5, weigh: (x) => x > -0.5 && x <= 0.5 ? 1 : 0 },
  bilinear: { support: 1, weigh: (x) => Math.max(0, 1 - Math.abs(x)) },
  hamming: { support: 1, weigh: hamming },
  bicubic: { support: 2, weigh: bicubic },
  lanczos: { support: 3, weigh: (x) => x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0 },
};

function hamming(distance: number): number {
  const x = Math.abs(distance);
  if (x === 0) return 1;
  return x >= 1 ? 0 : sinc(x) * (0.54 + 0.46 * Math.cos(Math.PI * x));
}

/** Keys' cubic with a = −0.5. */
function bicubic(distance: number): number {
  const a = -0.5;
  const x = Math.abs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

/** The inputs of each output along an axis, and their weights. */
export interface Weights {
  /** Index of the first input of each output. */
  readonly first: Int32Array;
  /** Number of inputs of each output. */
  readonly count: Int32Array;
  /** Number of entries in `values` per output, used or not. */
  readonly stride: number;
  /** f64 `[numOutputs, stride]`; the weights of an output add up to 1. */
  readonly values: Float64Array;
}

/**
 * Computes the weights of a filter along an axis.
 *
 * @param length number of inputs; may be a fraction.
 */
export function computeWeights(
  length: number,
  numOutputs: number,
  filter: Exclude<ResampleFilter, "nearest">,
): Weights {
  const { support, weigh } = KERNELS[filter];
  // Pillow's lengths are 32-bit floats.
  const scale = Math.fround(length) / numOutputs;
  const widening = Math.max(1, scale);
  const halfWidth = support * widening;
  const stride = Math.ceil(halfWidth) * 2 + 1;
  const first = new Int32Array(numOutputs);
  const count = new Int32Array(numOutputs);
  const values = new Float64Array(numOutputs * stride);
  for (let output = 0; output < numOutputs; output++) {
    const center = (output + 0.5) * scale;
    const from = Math.max(0, Math.trunc(center - halfWidth + 0.5));
    const to = Math.min(Math.ceil(length), Math.trunc(center + halfWidth + 0.5));
    const row = values.subarray(output * stride, output * stride + to - from);
    let sum = 0;
    for (let i = 0; i < row.length; i++) {
      sum += row[i] = weigh((i + from - center + 0.5) * (1 / widening));
    }
    if (sum !== 0) { for (let i = 0; i < row.length; i++) row[i]! /= sum; }
    first[output] = from;
    count[output] = to - from;
  }
  return { first, count, stride, values };
}

/** Finds the input pixel nearest to the middle of each output. */
export function findNearestInputs(length: number, numOutputs: number): Int32Array {
  const step = length / numOutputs;
  // Steps are summed rather than multiplied, to get Pillow's rounding.
  let position = step * 0.5;
  return Int32Array.from({ length: numOutputs }, () => {
    const input = Math.min(Math.ceil(length) - 1, Math.trunc(position));
    position += step;
    return input;
  });
}
