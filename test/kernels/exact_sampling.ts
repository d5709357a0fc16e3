/**
 * A plain sampler in float64: the reference for the samplers on the CPU and on WebGPU.
 *
 * @module
 */
import {
  GREEDY,
  type SampleRow,
  type SamplingParams,
  type TokenAdjustments,
} from "../../kernels/sample/sample_row.ts";

/** Greedy sampling without cut-offs and penalties. */
export const PLAIN: SamplingParams = GREEDY;

/** Makes a row with the parameters of {@linkcode PLAIN}, changed by `params`. */
export function makeRow(
  params: Partial<SamplingParams> = {},
  rest: Partial<Omit<SampleRow, "params">> = {},
): SampleRow {
  return { params: { ...PLAIN, ...params }, tokenIndex: 0, topLogprobs: 0, ...rest };
}

/** Makes a mask that allows the tokens for which `allows` is true. */
export function makeMask(vocabSize: number, allows: (id: number) => boolean): Uint32Array {
  const mask = new Uint32Array(Math.ceil(vocabSize / 32));
  for (let id = 0; id < vocabSize; id++) if (allows(id)) mask[id >> 5]! |= 1 << (id & 31);
  return mask;
}

/** Makes adjustments from `[tokenId, completionCount, inContext, bias]`. */
export function makeAdjustments(
  entries: readonly (readonly [number, number, number, number])[],
): TokenAdjustments {
  return {
    length: entries.length,
    tokenIds: Uint32Array.from(entries, (entry) => entry[0]),
    completionCounts: Uint32Array.from(entries, (entry) => entry[1]),
    inContext: Uint32Array.from(entries, (entry) => entry[2]),
    bias: Float32Array.from(entries, (entry) => entry[3]),
  };
}

/** Computes logits after penalties, biases and mask. */
export function adjustLogits(logits: ArrayLike<number>, row: SampleRow): Float64Array {
  const values = Float64Array.from(logits);
  const { adjustments, mask, params } = row;
  for (let i = 0; i < (adjustments?.length ?? 0); i++) {
    const id = adjustments!.tokenIds[i]!;
    const count = adjustments!.completionCounts[i]!;
    if (adjustments!.inContext[i] !== 0) {
      values[id]! *= values[id]! > 0 ? 1 / params.repetitionPenalty : params.repetitionPenalty;
    }
    values[id]! -= params.frequencyPenalty * count + (count > 0 ? params.presencePenalty : 0);
    values[id]! += adjustments!.bias[i]!;
  }
  for (let id = 0; id < values.length; id++) {
    if (mask !== undefined && (mask[id >> 5]! >>> (id & 31) & 1) === 0) values[id] = -Infinity;
  }
  return values;
}

/** Computes the probability of each token with the row's parameters. */
export function exactDistribution(logits: ArrayLike<number>, row: SampleRow): Float64Array {
  const { temperature, topK, topP, minP, topNSigma = 0 } = row.params;
  const values = adjustLogits(logits, row);
  let order = Array.from(values.keys())
    .filter((id) => values[id]! > -Infinity)
    .sort((a, b) => values[b]! - values[a]! || a - b);
  const max = values[order[0]!]!;
  if (temperature === 0) order = order.slice(0, 1);
  const weights = values.map((value) => Math.exp((value - max) / (temperature || 1)));
  if (topNSigma > 0) {
    const mean = order.reduce((sum, id) => sum + values[id]!, 0) / order.length;
    const variance = order.reduce((sum, id) => sum + (values[id]! - mean) ** 2, 0) / order.length;
    order = order.filter((id) => values[id]! >= max - topNSigma * Math.sqrt(variance));
  }
  if (minP > 0) order = order.filter((id) => weights[id]! >= minP);
  if (topK > 0) order = order.slice(0, topK);
  if (topP < 1) {
    const total = order.reduce((sum, id) => sum + weights[id]!, 0);
    let ahead = 0;
    order = order.filter((id) => {
      const isKept = ahead < topP * total;
      ahead += weights[id]!;
      return isKept;
    });
  }
  const probabilities = new Float64Array(logits.length);
  const total = order.reduce((sum, id) => sum + weights[id]!, 0);
  for (const id of order) probabilities[id] = weights[id]! / total;
  return probabilities;
}

/**
 * Pearson's chi-square of `counts` against `probabilities`, in standard deviations above its mean; rare outcomes are
 * pooled.
 */
export function chiSquareDeviation(counts: ArrayLike<number>, probabilities: Float64Array): number {
  const draws = Array.from(counts).reduce((sum, count) => sum + count, 0);
  let statistic = 0;
  let cells = 0;
  let pooledExpected = 0;
  let pooledCount = 0;
  for (let id = 0; id < probabilities.length; id++) {
    const expected = probabilities[id]! * draws;
    if (expected === 0 && counts[id]! > 0) return Infinity;
    if (expected < 8) {
      pooledExpected += expected;
      pooledCount += counts[id]!;
    } else {
      statistic += (counts[id]! - expected) ** 2 / expected;
      cells++;
    }
  }
  if (pooledExpected > 8) {
    statistic += (pooledCount - pooledExpected) ** 2 / pooledExpected;
    cells++;
  }
  const freedom = Math.max(cells - 1, 1);
  return (statistic - freedom) / Math.sqrt(2 * freedom);
}

/** A repeatable stream of standard normal numbers. */
export function makeNormal(seed: number): () => number {
  let state = seed >>> 0;
  const next = () => {
    state = Math.imul(state, 1664525) + 1013904223 >>> 0;
    let value = state;
    value = Math.imul(value ^ value >>> 16, 0x21f0aaad);
    value = Math.imul(value ^ value >>> 15, 0x735a2d97);
    return ((value ^ value >>> 15) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
}
