/**
 * Values of a row that the host computes, the same for the `sample` kernel and its reference.
 *
 * @module
 */
import type { SampleRow, SamplingParams } from "./sample_row.ts";

const { fround } = Math;

/** Replaces infinite logits, which result from overflow and whose differences would be NaN. */
export const LARGEST_FLOAT32 = 3.4028234663852886e38;
/** Lowest temperature: below it, the largest logit already has all the weight. */
const LOWEST_TEMPERATURE = 1e-6;

/** The f32 factor from logits to the exponents of their weights. */
export function inverseTemperature(params: SamplingParams): number {
  return fround(1 / Math.max(params.temperature, LOWEST_TEMPERATURE));
}

/** The f32 exponent that min-p requires of a token; -infinity if it is off. */
export function lowestExponent(params: SamplingParams): number {
  return fround(Math.log(params.minP));
}

/** Logits further below the largest count as if they were this far, so that their squares stay finite in float32. */
const FURTHEST = 10_000;

/**
 * The f32 exponent that top-n-sigma requires of a token.
 *
 * @param values adjusted logits; NaN and -infinity where there is none.
 */
export function sigmaExponent(
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
