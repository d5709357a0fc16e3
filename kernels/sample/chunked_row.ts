/**
 * A row of logits on the CPU, with the maximum of each 64 of them, so that most passes can skip most of the row.
 *
 * @module
 */
import { Candidates } from "./candidates.ts";
import { sumOfExps } from "../common/exp.ts";

/** Number of tokens in a chunk. */
export const CHUNK = 64;
/** A token this far below the largest adds less than float32 rounding to the sum, even 262,144 times. */
const NEGLIGIBLE = -40;

/** All memory except the row itself is allocated in the constructor. */
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
      sum += sumOfExps(values, { start: chunk * CHUNK, end, max, scale });
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
