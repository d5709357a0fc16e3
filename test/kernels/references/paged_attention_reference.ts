/**
 * `paged_attention` in plain TypeScript: the reference for the WGSL and the SIMD kernels.
 *
 * @module
 */
import type { AttentionShape } from "../../../kernels/attention/attention_shape.ts";
import { expNonPositive } from "../../../kernels/common/floats.ts";
import type { AttentionParams } from "../../../kernels/attention/paged_attention.ts";
import type { PackedStep } from "../../../kernels/attention/step_plan.ts";

/** Tensors of one attention layer; see `AttentionTensors`. */
interface AttentionArrays {
  readonly q: Float32Array;
  /** f32 `[blocks, kvHeads, blockSize, headSize]`. */
  readonly kCache: Float32Array;
  readonly vCache: Float32Array;
  readonly out: Float32Array;
  readonly sinks?: Float32Array | undefined;
  readonly slopes?: Float32Array | undefined;
}

/** See `PagedAttention`. Sums are in float64. The constructor allocates all memory. */
export class ReferenceAttention {
  readonly #shape: AttentionShape;
  readonly #params: AttentionParams;
  /** The current row's query, the scores of its keys (later their weights), and the weighted sum of their values. */
  readonly #query: Float64Array;
  readonly #weights: Float64Array;
  readonly #sum: Float64Array;

  constructor(shape: AttentionShape, params: AttentionParams, maxKeys: number) {
    this.#shape = shape;
    this.#params = params;
    this.#query = new Float64Array(shape.headSize);
    this.#weights = new Float64Array(maxKeys);
    this.#sum = new Float64Array(shape.headSize);
  }

  run(step: PackedStep, arrays: AttentionArrays): void {
    const { heads, kvHeads } = this.#shape;
    const group = heads / kvHeads;
    for (let s = 0; s < step.sequences.length; s++) {
      const tables = step.blockTables.subarray(s * step.maxBlocksPerSequence);
      // One KV head at a time: its keys and values stay in the processor's cache.
      for (let kvHead = 0; kvHead < kvHeads; kvHead++) {
        for (let token = step.queryStarts[s]!; token < step.queryStarts[s + 1]!; token++) {
          for (let head = kvHead * group; head < (kvHead + 1) * group; head++) {
            this.#attend(arrays, tables, token, head, step.positions[token]!);
          }
        }
      }
    }
  }

  #attend(
    arrays: AttentionArrays,
    table: Int32Array,
    token: number,
    head: number,
    position: number,
  ): void {
    const { heads, kvHeads, headSize, blockSize } = this.#shape;
    const { scale, window, queryStride, queryOffset } = this.#params;
    const kvHead = Math.floor(head * kvHeads / heads);
    const query = this.#query;
    const queryAt = token * queryStride + queryOffset + head * headSize;
    for (let d = 0; d < headSize; d++) query[d] = arrays.q[queryAt + d]! * scale;

    const start = window > 0 ? Math.max(0, position - window + 1) : 0;
    const end = position + 1;
    for (let key = start; key < end;) {
      const count = Math.min(blockSize - key % blockSize, end - key);
      const block = table[Math.floor(key / blockSize)]!;
      const at = ((block * kvHeads + kvHead) * blockSize + key % blockSize) * headSize;
      score(query, arrays.kCache, at, count, this.#weights, key);
      key += count;
    }
    const slope = arrays.slopes?.[head] ?? 0;
    const total = this.#toWeights(start, end, { sink: arrays.sinks?.[head], slope });

    this.#sum.fill(0);
    for (let key = start; key < end;) {
      const count = Math.min(blockSize - key % blockSize, end - key);
      const block = table[Math.floor(key / blockSize)]!;
      const at = ((block * kvHeads + kvHead) * blockSize + key % blockSize) * headSize;
      accumulate(this.#sum, arrays.vCache, at, count, this.#weights, key);
      key += count;
    }
    const outAt = (token * heads + head) * headSize;
    for (let d = 0; d < headSize; d++) arrays.out[outAt + d] = this.#sum[d]! / total;
  }

  /** Turns the scores of keys `[start, end)` into weights, and returns their sum, including the sink's weight. */
  #toWeights(
    start: number,
    end: number,
    { sink, slope }: { readonly sink: number | undefined; readonly slope: number },
  ): number {
    const { softcap } = this.#params;
    const weights = this.#weights;
    let largest = sink ?? -Infinity;
    for (let key = start; key < end; key++) {
      if (softcap > 0) weights[key] = softcap * Math.tanh(weights[key]! / softcap);
      weights[key]! += slope * (key + 1 - end);
      if (weights[key]! > largest) largest = weights[key]!;
    }
    let total = sink === undefined ? 0 : expNonPositive(sink - largest);
    for (let key = start; key < end; key++) {
      const weight = expNonPositive(weights[key]! - largest);
      weights[key] = weight;
      total += weight;
    }
    return total;
  }
}

/** Multiplies `query` by `count` keys from `keys[at]` on, four at a time. */
function score(
  query: Float64Array,
  keys: Float32Array,
  at: number,
  count: number,
  scores: Float64Array,
  into: number,
): void {
  const { length } = query;
  let n = 0;
  for (; n + 4 <= count; n += 4) {
    let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    const first = at + n * length;
    for (let d = 0, i = first; d < length; d++, i++) {
      const q = query[d]!;
      s0 += q * keys[i]!;
      s1 += q * keys[i + length]!;
      s2 += q * keys[i + 2 * length]!;
      s3 += q * keys[i + 3 * length]!;
    }
    scores[into + n] = s0;
    scores[into + n + 1] = s1;
    scores[into + n + 2] = s2;
    scores[into + n + 3] = s3;
  }
  for (; n < count; n++) {
    let sum = 0;
    const first = at + n * length;
    for (let d = 0; d < length; d++) sum += query[d]! * keys[first + d]!;
    scores[into + n] = sum;
  }
}

/** Adds `count` weighted values from `values[at]` on, four at a time. */
function accumulate(
  sum: Float64Array,
  values: Float32Array,
  at: number,
  count: number,
  weights: Float64Array,
  from: number,
): void {
  const { length } = sum;
  let n = 0;
  for (; n + 4 <= count; n += 4) {
    const w0 = weights[from + n]!, w1 = weights[from + n + 1]!;
    const w2 = weights[from + n + 2]!, w3 = weights[from + n + 3]!;
    for (let d = 0, i = at + n * length; d < length; d++, i++) {
      sum[d]! += w0 * values[i]! + w1 * values[i + length]! + w2 * values[i + 2 * length]! +
        w3 * values[i + 3 * length]!;
    }
  }
  for (; n < count; n++) {
    const weight = weights[from + n]!;
    const first = at + n * length;
    for (let d = 0; d < length; d++) sum[d]! += weight * values[first + d]!;
  }
}
