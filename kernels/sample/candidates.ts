/**
 * A row of logits on the CPU, and the tokens of it that sampling can still choose.
 *
 * @module
 */
import { sumExps } from "../common/floats.ts";

/**
 * A list of (token id, logit, weight), ranked by larger logit first, then by lower id. Its arrays are allocated once.
 */
export class Candidates {
  length = 0;
  readonly ids: Uint32Array;
  readonly values: Float32Array;
  readonly weights: Float64Array;

  constructor(capacity: number) {
    this.ids = new Uint32Array(capacity);
    this.values = new Float32Array(capacity);
    this.weights = new Float64Array(capacity);
  }

  /** Appends a token, whose weight is set later. */
  push(id: number, value: number): void {
    this.ids[this.length] = id;
    this.values[this.length] = value;
    this.length++;
  }

  /** Keeps the `count` highest-ranked tokens with their weights, in any order, by quickselect. */
  keepLargest(count: number): void {
    if (count >= this.length) return;
    let low = 0;
    let high = this.length;
    while (high - low > 1) {
      const pivot = this.#partition(low, high);
      if (pivot === count) break;
      if (pivot > count) high = pivot;
      else low = pivot + 1;
    }
    this.length = count;
  }

  /**
   * Keeps the shortest prefix by rank whose weights sum to at least `mass`, but at least one token, by weighted
   * quickselect.
   */
  keepMass(mass: number): void {
    let low = 0;
    let high = this.length;
    let ahead = 0;
    while (low < high) {
      const pivot = this.#partition(low, high);
      let upToPivot = ahead;
      for (let i = low; i < pivot; i++) upToPivot += this.weights[i]!;
      if (upToPivot >= mass) {
        high = pivot;
      } else {
        ahead = upToPivot + this.weights[pivot]!;
        low = pivot + 1;
        if (ahead >= mass) break;
      }
    }
    this.length = Math.max(low, 1);
  }

  /** Sorts a short list by rank. */
  sort(): void {
    for (let end = 1; end < this.length; end++) {
      for (let i = end; i > 0 && this.#isAhead(i, i - 1); i--) this.#swap(i, i - 1);
    }
  }

  /** Moves a pivot to its rank within `[low, high)`, with higher-ranked tokens to its left, and returns its index. */
  #partition(low: number, high: number): number {
    const last = high - 1;
    const middle = (low + high) >>> 1;
    if (this.#isAhead(middle, low)) this.#swap(middle, low);
    if (this.#isAhead(last, low)) this.#swap(last, low);
    // The pivot is the median of the first, middle and last; it is parked at the last index.
    if (this.#isAhead(middle, last)) this.#swap(middle, last);
    let position = low;
    for (let i = low; i < last; i++) {
      if (this.#isAhead(i, last)) this.#swap(i, position++);
    }
    this.#swap(position, last);
    return position;
  }

  #isAhead(a: number, b: number): boolean {
    const difference = this.values[a]! - this.values[b]!;
    return difference > 0 || (difference === 0 && this.ids[a]! < this.ids[b]!);
  }

  #swap(a: number, b: number): void {
    const id = this.ids[a]!;
    const value = this.values[a]!;
    const weight = this.weights[a]!;
    this.ids[a] = this.ids[b]!;
    this.values[a] = this.values[b]!;
    this.weights[a] = this.weights[b]!;
    this.ids[b] = id;
    this.values[b] = value;
    this.weights[b] = weight;
  }
}

/** Number of tokens in a chunk. */
export const CHUNK = 64;
/** A token this far below the largest adds less than float32 rounding to the sum, even 262,144 times. */
const NEGLIGIBLE = -40;

/**
 * A row of logits, with the maximum of every 64 of them, so that most passes can skip most of the row. All memory
 * except the row itself is allocated in the constructor.
 */
export class ChunkedRow {
  values: Float32Array;
  /** The largest value of each chunk; -infinity if all are NaN. */
  readonly maxima: Float32Array;
  readonly #largestMaxima: Candidates;

  constructor(vocabSize: number) {
    this.values = new Float32Array(0);
    this.maxima = new Float32Array(Math.ceil(vocabSize / CHUNK));
    this.#largestMaxima = new Candidates(this.maxima.length);
  }

  /** Uses `values` as the row, without copying them. */
  set(values: Float32Array): void {
    this.values = values;
    for (let chunk = 0; chunk < this.maxima.length; chunk++) {
      const end = this.chunkEnd(chunk);
      let max = -Infinity;
      // Comparisons with NaN are false, so NaN is skipped.
      for (let i = chunk * CHUNK; i < end; i++) if (values[i]! > max) max = values[i]!;
      this.maxima[chunk] = max;
    }
  }

  chunkEnd(chunk: number): number {
    return Math.min((chunk + 1) * CHUNK, this.values.length);
  }

  max(): number {
    let max = -Infinity;
    for (let i = 0; i < this.maxima.length; i++) if (this.maxima[i]! > max) max = this.maxima[i]!;
    return max;
  }

  /** The lowest index at which `max` is found. */
  indexOfMax(max: number): number {
    return this.values.indexOf(max, this.maxima.indexOf(max) * CHUNK);
  }

  /** `Σ exp((value - max) * scale)`. */
  sumWeights(max: number, scale: number): number {
    const { values } = this;
    const negligible = max + NEGLIGIBLE / scale;
    let sum = 0;
    for (let chunk = 0; chunk < this.maxima.length; chunk++) {
      if (this.maxima[chunk]! < negligible) continue;
      const end = this.chunkEnd(chunk);
      sum += sumExps(values, { start: chunk * CHUNK, end, max, scale });
    }
    return sum;
  }

  /** A lower bound for the `count`-th largest value: the `count`-th largest of the maxima. */
  lowerBound(count: number): number {
    if (count > this.maxima.length) return -Infinity;
    const list = this.#largestMaxima;
    list.length = 0;
    for (let chunk = 0; chunk < this.maxima.length; chunk++) list.push(chunk, this.maxima[chunk]!);
    list.keepLargest(count);
    let bound = Infinity;
    for (let i = 0; i < list.length; i++) bound = Math.min(bound, list.values[i]!);
    return bound;
  }

  /** Fills `list` with the tokens that are at least `bound`; -infinity and NaN are never included. */
  gather(list: Candidates, bound: number): void {
    const { values } = this;
    list.length = 0;
    for (let chunk = 0; chunk < this.maxima.length; chunk++) {
      if (this.maxima[chunk]! < bound) continue;
      const end = this.chunkEnd(chunk);
      for (let i = chunk * CHUNK; i < end; i++) {
        if (values[i]! >= bound && values[i]! > -Infinity) list.push(i, values[i]!);
      }
    }
  }
}
