/**
 * Values of a row that the host computes, the same for the `sample` kernel and its reference, and the random stream of
 * sampling. The stream is a pure function of (seed, token index, token id), so the tokens for a seed depend neither on
 * the batch nor on the backend. `sample_tokens.wgsl` has the same functions.
 *
 * @module
 */
import type { SampleRow, SamplingParams } from "./sample_row.ts";

/**
 * A bijective 32-bit mixing function, "lowbias32".
 *
 * Found by Chris Wellons' hash-prospector (https://nullprogram.com/blog/2018/07/31/).
 *
 * @returns an integer to be read as unsigned; it may be negative.
 */
export function mix32(value: number): number {
  value ^= value >>> 16;
  value = Math.imul(value, 0x7feb352d);
  value ^= value >>> 15;
  value = Math.imul(value, 0x846ca68b);
  return value ^ (value >>> 16);
}

/** The key of one row's stream: token id `t` draws `mix32(rowKey + t)`. */
export function rowKey(seed: number, tokenIndex: number): number {
  return mix32((mix32(seed) + tokenIndex) | 0) >>> 0;
}

/** Converts a draw to a uniform variate in (0, 1). */
export function uniform(draw: number): number {
  return ((draw >>> 0) + 0.5) * 2 ** -32;
}

/** Converts a {@linkcode uniform} variate to an exponential one (mean 1), which is never less. */
export function exponential(uniform: number): number {
  return -Math.log1p(-uniform);
}

const { fround } = Math;

/** Replaces infinite logits, which result from overflow and whose differences would be NaN. */
export const LARGEST_FLOAT32 = 3.4028234663852886e38;
/** Lowest temperature: below it, the largest logit already has all the weight. */
const LOWEST_TEMPERATURE = 1e-6;

/** The f32 factor from logits to the exponents of their weights. */
export function computeInverseTemperature(params: SamplingParams): number {
  return fround(1 / Math.max(params.temperature, LOWEST_TEMPERATURE));
}

/** The f32 exponent that min-p requires of a token; -infinity if it is off. */
export function computeLowestExponent(params: SamplingParams): number {
  return fround(Math.log(params.minP));
}

/** Logits further below the largest count as if they were this far below it, so that squares are finite in float32. */
const FURTHEST = 10_000;

/**
 * The f32 exponent that top-n-sigma requires of a token.
 *
 * @param values adjusted logits; NaN or -infinity for tokens that cannot be chosen.
 */
export function computeSigmaExponent(
  values: Float32Array,
  { max, scale, sigmas }: { readonly max: number; readonly scale: number; readonly sigmas: number },
): number {
  let count = 0;
  let sum = 0;
  let squares = 0;
  for (const value of values) {
    if (!(value > -Infinity)) continue;
    const distance = Math.max(value - max, -FURTHEST);
    count++;
    sum += distance;
    squares += distance * distance;
  }
  const variance = squares / count - (sum / count) ** 2;
  return fround(-sigmas * Math.sqrt(Math.max(variance, 0)) * scale);
}

/** The f32 sum of the penalties and biases added to the logit of the row's `i`-th adjusted token. */
export function addend({ params, adjustments }: SampleRow, i: number): number {
  const count = adjustments!.completionCounts[i]!;
  const penalty = params.frequencyPenalty * count + (count > 0 ? params.presencePenalty : 0);
  return fround(adjustments!.bias[i]! - penalty);
}
