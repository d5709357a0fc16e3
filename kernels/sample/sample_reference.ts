/**
 * `sample` on the CPU: the reference for the WGSL kernel, and the CPU backend's sampler.
 *
 * Per row, with `l` the logits:
 *
 * 0. Masked tokens are removed first.
 * 1. `a = l`, repetition penalty (`l > 0 ? l / r : l * r` where in context), then
 *    `- frequency * count - presence * (count > 0) + bias`.
 * 2. Temperature 0: the largest `a`, the lowest id among equals.
 * 3. Otherwise `s = (a - max a) / temperature` and `w = exp(s)`. Tokens are ranked by larger `a`, then by lower id.
 *    min-p keeps the tokens with `s ≥ ln(minP)`, and top-n-sigma those with `a ≥ max a - n σ`, where σ is the standard
 *    deviation of `a`. Of these, top-k keeps the first `topK`. Of these, top-p keeps the shortest prefix whose `w` sum
 *    to `topP` of their total.
 * 4. The kept token with the smallest `e / w` is chosen, where `e` is an exponential variate of (seed, token index,
 *    token id): the Gumbel-max trick without its outer logarithm. It picks token `t` with probability `w[t] / Σ w`.
 *
 * Log-probabilities are computed from `l`, among the tokens that the mask leaves.
 *
 * @module
 */
import { Candidates, CHUNK, ChunkedRow } from "./candidates.ts";
import { expNonPositive, widen } from "../common/floats.ts";
import {
  addend,
  computeInverseTemperature,
  computeLowestExponent,
  computeSigmaExponent,
  exponential,
  LARGEST_FLOAT32,
  mix32,
  rowKey,
  uniform,
} from "./sample_terms.ts";
import {
  NothingToSampleError,
  type SampledToken,
  type SampleRow,
  type SamplingParams,
} from "./sample_row.ts";

const { fround } = Math;
/** Widens a bound that was computed in float64, so that the float32 comparison after it decides. */
const MARGIN = 1e-3;
const ALL_BITS = 0xffffffff;

/** Samples rows of logits. All memory is allocated in the constructor. */
export class ReferenceSampler {
  readonly vocabSize: number;
  readonly #logits: Float32Array;
  readonly #adjusted: Float32Array;
  readonly #rawRow: ChunkedRow;
  readonly #adjustedRow: ChunkedRow;
  readonly #candidates: Candidates;

  constructor(vocabSize: number) {
    this.vocabSize = vocabSize;
    this.#logits = new Float32Array(vocabSize);
    this.#adjusted = new Float32Array(vocabSize);
    this.#rawRow = new ChunkedRow(vocabSize);
    this.#adjustedRow = new ChunkedRow(vocabSize);
    this.#candidates = new Candidates(vocabSize);
  }

  /**
   * Chooses one token per row.
   *
   * @param logits f32 or f16 `[rows.length, rowStride]`, with valid values in the first `vocabSize` elements of each
   * row.
   * @throws {NothingToSampleError} when a row has no token to choose.
   */
  sample(
    logits: Float32Array | Float16Array,
    rowStride: number,
    rows: readonly SampleRow[],
  ): SampledToken[] {
    const empty: number[] = [];
    const tokens = rows.map((row, index) => {
      const start = index * rowStride;
      const token = this.#sampleRow(logits.subarray(start, start + this.vocabSize), row);
      if (token === undefined) empty.push(index);
      return token;
    });
    if (empty.length > 0) throw new NothingToSampleError(empty);
    return tokens as SampledToken[];
  }

  #sampleRow(source: Float32Array | Float16Array, row: SampleRow): SampledToken | undefined {
    const loaded = this.#load(source);
    const logits = row.mask === undefined ? loaded : this.#applyMask(loaded, row.mask);
    const raw = this.#rawRow;
    raw.set(logits);
    // Infinite logits show in the maximum, so no separate pass looks for them.
    if (raw.max() === Infinity) raw.set(this.#makeFinite(logits));
    const rawMax = raw.max();
    if (rawMax === -Infinity) return undefined;
    // Log-probabilities are most of the work for greedy rows.
    const wantsLogprobs = row.topLogprobs !== undefined;
    const logSum = wantsLogprobs ? rawMax + Math.log(raw.sumWeights(rawMax, 1)) : NaN;
    const top = this.#listTop(row.topLogprobs ?? 0, logSum);

    const adjusted = this.#adjust(row);
    const max = adjusted === raw ? rawMax : adjusted.max();
    if (max === -Infinity) return undefined;
    const tokenId = row.params.temperature === 0
      ? adjusted.indexOfMax(max)
      : this.#choose(adjusted, max, row);
    return { tokenId, logprob: wantsLogprobs ? raw.values[tokenId]! - logSum : 0, top };
  }

  #load(source: Float32Array | Float16Array): Float32Array {
    if (source instanceof Float32Array) return source;
    widen(source, this.#logits);
    return this.#logits;
  }

  /** The logits, with infinity replaced by the largest number. */
  #makeFinite(logits: Float32Array): Float32Array {
    const finite = this.#logits;
    for (let i = 0; i < this.vocabSize; i++) finite[i] = Math.min(logits[i]!, LARGEST_FLOAT32);
    return finite;
  }

  #listTop(count: number, logSum: number): SampledToken["top"] {
    if (count === 0) return [];
    const list = this.#candidates;
    this.#rawRow.gather(list, this.#rawRow.lowerBound(count));
    list.keepLargest(count);
    list.sort();
    const top: { tokenId: number; logprob: number }[] = [];
    for (let i = 0; i < list.length && list.values[i]! > -Infinity; i++) {
      top.push({ tokenId: list.ids[i]!, logprob: list.values[i]! - logSum });
    }
    return top;
  }

  /** The logits, with forbidden tokens removed from the draw. */
  #applyMask(logits: Float32Array, mask: Uint32Array): Float32Array {
    const masked = this.#logits;
    if (logits !== masked) masked.set(logits);
    for (let word = 0; word * 32 < masked.length; word++) {
      const bits = mask[word]!;
      if (bits === ALL_BITS) continue;
      const start = word * 32;
      const end = Math.min(start + 32, masked.length);
      if (bits === 0) masked.fill(-Infinity, start, end);
      else {
        for (let id = start; id < end; id++) {
          if ((bits >>> (id & 31) & 1) === 0) masked[id] = -Infinity;
        }
      }
    }
    return masked;
  }

  /** The row with penalties and biases applied: a copy, or the row itself if it has none. */
  #adjust(row: SampleRow): ChunkedRow {
    const { adjustments, params } = row;
    if (adjustments === undefined) return this.#rawRow;
    const values = this.#adjusted;
    values.set(this.#rawRow.values);
    const penalty = fround(params.repetitionPenalty);
    const inverse = fround(1 / params.repetitionPenalty);
    for (let i = 0; i < adjustments.length; i++) {
      const id = adjustments.tokenIds[i]!;
      const logit = values[id]!;
      const factor = adjustments.inContext[i] === 0 ? 1 : logit > 0 ? inverse : penalty;
      values[id] = Math.min(fround(fround(logit * factor) + addend(row, i)), LARGEST_FLOAT32);
    }
    this.#adjustedRow.set(values);
    return this.#adjustedRow;
  }

  #choose(row: ChunkedRow, max: number, { params, tokenIndex }: SampleRow): number {
    const scale = computeInverseTemperature(params);
    const key = rowKey(params.seed, tokenIndex);
    const { topNSigma: sigmas = 0 } = params;
    if (params.topK === 0 && params.topP >= 1 && params.minP === 0 && !(sigmas > 0)) {
      return raceAll(row, max, scale, key);
    }
    this.#keep(row, max, scale, params);
    return race(this.#candidates, key);
  }

  /** Fills the candidates with the tokens that min-p, top-n-sigma, top-k and top-p keep, and their weights. */
  #keep(row: ChunkedRow, max: number, scale: number, params: SamplingParams): void {
    const { topK, topP, topNSigma: sigmas = 0 } = params;
    const list = this.#candidates;
    const lowest = Math.max(
      computeLowestExponent(params),
      sigmas > 0 ? computeSigmaExponent(row.values, { max, scale, sigmas }) : -Infinity,
    );
    let bound = max + (lowest - MARGIN) / scale;
    if (topK > 0) bound = Math.max(bound, row.lowerBound(topK));
    let total: number | undefined;
    if (topP < 1 && topK === 0 && lowest === -Infinity) {
      total = row.sumWeights(max, scale);
      // Even `vocabSize` tokens of this weight would be within the `1 - topP` that is cut off.
      bound = max + (Math.log((1 - topP) * total / this.vocabSize) - MARGIN) / scale;
    }
    row.gather(list, bound);
    if (lowest > -Infinity) dropBelow(list, max, scale, lowest);
    if (topK > 0) list.keepLargest(topK);
    let kept = 0;
    for (let i = 0; i < list.length; i++) {
      const weight = expNonPositive(exponent(list.values[i]!, max, scale));
      list.weights[i] = weight;
      kept += weight;
    }
    if (topP < 1) list.keepMass(topP * (total ?? kept));
  }
}

/** `s` in the module's formula, in exactly the arithmetic of the GPU kernel. */
function exponent(value: number, max: number, scale: number): number {
  return fround(fround(value - max) * scale);
}

function dropBelow(list: Candidates, max: number, scale: number, lowest: number): void {
  const { length } = list;
  list.length = 0;
  for (let i = 0; i < length; i++) {
    const value = list.values[i]!;
    if (exponent(value, max, scale) >= lowest) list.push(list.ids[i]!, value);
  }
}

/** Finds the candidate with the smallest `e / w`. */
function race(list: Candidates, key: number): number {
  let best = Infinity;
  let winner = list.ids[0]!;
  for (let i = 0; i < list.length; i++) {
    const u = uniform(mix32(key + list.ids[i]! | 0));
    // `e` is never less than `u`.
    if (u >= best * list.weights[i]!) continue;
    const time = exponential(u) / list.weights[i]!;
    if (time < best) {
      best = time;
      winner = list.ids[i]!;
    }
  }
  return winner;
}

/** Like {@linkcode race}, over the whole vocabulary, for rows without top-k, top-p, min-p and top-n-sigma. */
function raceAll(row: ChunkedRow, max: number, scale: number, key: number): number {
  const { values, maxima } = row;
  let best = Infinity;
  let winner = 0;
  for (let chunk = 0; chunk < maxima.length; chunk++) {
    const largest = expNonPositive(exponent(maxima[chunk]!, max, scale));
    const end = row.chunkEnd(chunk);
    for (let i = chunk * CHUNK; i < end; i++) {
      const u = uniform(mix32(key + i | 0));
      if (!(u < best * largest)) continue;
      const time = exponential(u) / expNonPositive(exponent(values[i]!, max, scale));
      if (time < best) {
        best = time;
        winner = i;
      }
    }
  }
  return winner;
}
