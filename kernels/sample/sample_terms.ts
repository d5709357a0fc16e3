/**
 * Values of a row that the host computes, equal for the `sample` kernel and its reference.
 *
 * @module
 */
import type { SampleRow, SamplingParams } from "./sample_row.ts";

const { fround } = Math;

/** Replaces infinite logits (overflow), whose difference would be NaN. */
export const LARGEST_FLOAT32 = 3.4028234663852886e38;
/** Least temperature: below it the largest logit already has all the weight. */
const LOWEST_TEMPERATURE = 1e-6;

/** f32 factor from logits to the exponents of their weights. */
export function inverseTemperature(params: SamplingParams): number {
  return fround(1 / Math.max(params.temperature, LOWEST_TEMPERATURE));
}

/** f32 exponent that min-p requires of a token; -infinity if off. */
export function lowestExponent(params: SamplingParams): number {
  return fround(Math.log(params.minP));
}

/** f32 sum of what penalties and bias add to the logit of the row's `i`-th adjusted token. */
export function addend({ params, adjustments }: SampleRow, i: number): number {
  const count = adjustments!.completionCounts[i]!;
  const penalty = params.frequencyPenalty * count + (count > 0 ? params.presencePenalty : 0);
  return fround(adjustments!.bias[i]! - penalty);
}
