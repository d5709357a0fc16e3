/**
 * `alignment` on the CPU: the reference for the WGSL kernels, and the CPU backend's implementation.
 *
 * It aligns a text's tokens with an encoder's output. Let `w[t, k]` be the softmax over the keys of `scale * q[t] ·
 * k[k]`, with mean `m[k]` and standard deviation `s[k]` over the tokens. A head's share is
 *
 * `median of (w[t, j] - m[j]) / (s[j] + 1e-8) for j = k - 3 … k + 3`
 *
 * where keys beyond either end are mirrored, and the alignment is the mean of the shares of all heads. Three keys or
 * fewer are not smoothed. At keys that no token attends to, `1e-8` keeps rounding errors from being amplified.
 *
 * @see `find_alignment` in openai/whisper's `timing.py`
 * @module
 */
import { LEAST_DEVIATION } from "./alignment.ts";

/** The inputs for one head's share of an alignment. */
interface AlignmentHead {
  /** f32 `[numTokens, headSize]`. */
  readonly queries: Float32Array;
  /** f32 `[numKeys, headSize]`. */
  readonly keys: Float32Array;
  readonly numTokens: number;
  readonly numKeys: number;
  readonly headSize: number;
  readonly scale: number;
  /** 1 / number of heads. */
  readonly share: number;
}

const REACH = 3;

/** Adds a head's share to `alignment`, f32 `[numTokens, numKeys]`. */
export function addAlignment(alignment: Float32Array, head: AlignmentHead): void {
  const { numTokens, numKeys, share } = head;
  const weights = weigh(head);
  normalize(weights, head);
  for (let at = 0; at < numTokens * numKeys; at += numKeys) {
    const medians = filterMedian(weights.subarray(at, at + numKeys));
    for (let key = 0; key < numKeys; key++) alignment[at + key]! += medians[key]! * share;
  }
}

function weigh(head: AlignmentHead): Float32Array {
  const { queries, keys, numTokens, numKeys, headSize, scale } = head;
  const weights = new Float32Array(numTokens * numKeys);
  for (let token = 0; token < numTokens; token++) {
    const query = queries.subarray(token * headSize, (token + 1) * headSize);
    const row = weights.subarray(token * numKeys, (token + 1) * numKeys);
    let largest = -Infinity;
    for (let key = 0, at = 0; key < numKeys; key++) {
      let score = 0;
      for (let d = 0; d < headSize; d++, at++) score += query[d]! * keys[at]!;
      row[key] = score * scale;
      largest = Math.max(largest, row[key]!);
    }
    let sum = 0;
    for (let key = 0; key < numKeys; key++) sum += row[key] = Math.exp(row[key]! - largest);
    for (let key = 0; key < numKeys; key++) row[key]! /= sum;
  }
  return weights;
}

function normalize(weights: Float32Array, { numTokens, numKeys }: AlignmentHead): void {
  const means = new Float64Array(numKeys);
  const deviations = new Float64Array(numKeys);
  const rows = Array.from(
    { length: numTokens },
    (_, token) => weights.subarray(token * numKeys, (token + 1) * numKeys),
  );
  for (const row of rows) {
    for (let key = 0; key < numKeys; key++) means[key]! += row[key]! / numTokens;
  }
  for (const row of rows) {
    for (let key = 0; key < numKeys; key++) {
      const difference = row[key]! - means[key]!;
      deviations[key]! += difference * difference / numTokens;
    }
  }
  for (let key = 0; key < numKeys; key++) {
    deviations[key] = Math.sqrt(deviations[key]!) + LEAST_DEVIATION;
  }
  for (const row of rows) {
    for (let key = 0; key < numKeys; key++) row[key] = (row[key]! - means[key]!) / deviations[key]!;
  }
}

/**
 * The median of each value and its six neighbours. The window is kept sorted: each step removes one value and inserts
 * another.
 */
function filterMedian(row: Float32Array): Float32Array {
  const { length } = row;
  if (length <= REACH) return row;
  const mirrored = new Float32Array(length + 2 * REACH);
  mirrored.set(row, REACH);
  for (let i = 1; i <= REACH; i++) {
    mirrored[REACH - i] = row[i]!;
    mirrored[REACH + length - 1 + i] = row[length - 1 - i]!;
  }
  const sorted = mirrored.slice(0, 2 * REACH + 1).sort();
  const medians = new Float32Array(length);
  medians[0] = sorted[REACH]!;
  for (let key = 1; key < length; key++) {
    const incoming = mirrored[key + 2 * REACH]!;
    let position = 0;
    while (position < 2 * REACH && sorted[position] !== mirrored[key - 1]!) position++;
    for (; position > 0 && sorted[position - 1]! > incoming; position--) {
      sorted[position] = sorted[position - 1]!;
    }
    for (; position < 2 * REACH && sorted[position + 1]! < incoming; position++) {
      sorted[position] = sorted[position + 1]!;
    }
    sorted[position] = incoming;
    medians[key] = sorted[REACH]!;
  }
  return medians;
}
