/**
 * `kv_write` in plain TypeScript: the reference for the WGSL and the SIMD kernel.
 *
 * @module
 */
import type { AttentionShape } from "../../../kernels/attention/attention_shape.ts";
import {
  checkNorms,
  checkRotary,
  type KvWriteParams,
  type RotaryParams,
  type RowLayout,
} from "../../../kernels/attention/kv_write.ts";
import type { PackedStep } from "../../../kernels/attention/step_plan.ts";

/** Tensors of one attention layer; see `KvWriteTensors`. `q`, `k` and `v` may be one array. */
interface KvWriteArrays {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
  /** f32 `[blocks, kvHeads, blockSize, headSize]`. */
  readonly kCache: Float32Array;
  readonly vCache: Float32Array;
  readonly rotary?: RotaryArrays | undefined;
  /**
   * f32 `[numTokens, heads * headSize]`: the queries, rotated and normalised if requested. May be `q` if its layout is
   * the same.
   */
  readonly qOut?: Float32Array | undefined;
  /**
   * Factors of the norms of queries, then of keys: f32 `[2, headSize]`, or `[heads + kvHeads, headSize]` with norms of
   * rows.
   */
  readonly gammas?: Float32Array | undefined;
}

/** Tensors of a layer with rotary embedding. */
interface RotaryArrays {
  /** f32 `[positions, size / 2]`. */
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/** See `KvWrite`. Allocates nothing per call. */
export class ReferenceKvWrite {
  readonly #shape: AttentionShape;
  readonly #params: KvWriteParams;

  /** @throws {RangeError} if the kernel does not support the rotary size. */
  constructor(shape: AttentionShape, params: KvWriteParams) {
    checkRotary(params.rotary, shape.headSize);
    checkNorms(params.norms, shape);
    this.#shape = shape;
    this.#params = params;
  }

  run(step: PackedStep, arrays: KvWriteArrays): void {
    const { blockSize } = this.#shape;
    for (let s = 0; s < step.sequences.length; s++) {
      for (let token = step.queryStarts[s]!; token < step.queryStarts[s + 1]!; token++) {
        const position = step.positions[token]!;
        const table = s * step.maxBlocksPerSequence + Math.floor(position / blockSize);
        const angle = step.anglePositions?.[token] ?? position;
        this.#writeToken(arrays, { token, position, angle, block: step.blockTables[table]! });
      }
    }
  }

  #writeToken(
    arrays: KvWriteArrays,
    { token, position, angle, block }: {
      readonly token: number;
      readonly position: number;
      /** The token's row in the rotary tables. */
      readonly angle: number;
      readonly block: number;
    },
  ): void {
    const { heads, kvHeads, headSize, blockSize } = this.#shape;
    const { rotary, norms, q, k, v } = this.#params;
    const { q: queries, k: keys, qOut, kCache } = arrays;
    // Computed before the rows are overwritten.
    const ofQueries = norms?.ofRows
      ? inverseRms(queries, headAt(q, token, 0), heads * headSize, norms.epsilon)
      : undefined;
    const ofKeys = norms?.ofRows
      ? inverseRms(keys, headAt(k, token, 0), kvHeads * headSize, norms.epsilon)
      : undefined;
    const normalize = (values: Float32Array, at: number, gammaAt: number, ofRow?: number) => {
      const factor = ofRow ?? inverseRms(values, at, headSize, norms!.epsilon);
      for (let i = 0; i < headSize; i++) values[at + i]! *= factor * arrays.gammas![gammaAt + i]!;
    };
    if (rotary !== undefined || norms?.ofQueries) {
      for (let head = 0; head < heads; head++) {
        const from = headAt(q, token, head * headSize);
        const to = (token * heads + head) * headSize;
        copyHead(queries, from, qOut!, to, headSize);
        const norm = () => {
          if (norms?.ofQueries) normalize(qOut!, to, norms.ofRows ? head * headSize : 0, ofQueries);
        };
        if (!norms?.isAfterRotation) norm();
        if (rotary !== undefined) turn(arrays.rotary!, rotary, qOut!, to, angle);
        if (norms?.isAfterRotation) norm();
      }
    }
    for (let head = 0; head < kvHeads; head++) {
      const to = ((block * kvHeads + head) * blockSize + position % blockSize) * headSize;
      copyHead(arrays.v, headAt(v, token, head * headSize), arrays.vCache, to, headSize);
      copyHead(keys, headAt(k, token, head * headSize), kCache, to, headSize);
      const factors = norms?.ofRows ? heads + head : 1;
      const norm = () => {
        if (norms?.ofKeys) normalize(kCache, to, factors * headSize, ofKeys);
      };
      if (!norms?.isAfterRotation) norm();
      if (rotary !== undefined) turn(arrays.rotary!, rotary, kCache, to, angle);
      if (norms?.isAfterRotation) norm();
      if (!this.#shape.isQuantized) continue;
      for (const cache of [kCache, arrays.vCache]) roundTo8Bits(cache.subarray(to, to + headSize));
    }
  }
}

/** Rounds a head to what 8 bits keep: multiples of 1/127 of its largest magnitude, which is rounded to f16. */
export function roundTo8Bits(head: Float32Array): void {
  const largest = head.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const scale = Math.f16round(Math.min(largest, 65_504));
  head.forEach((value, i) => {
    const part = scale > 0 ? Math.max(-1, Math.min(1, value / scale)) : 0;
    head[i] = Math.floor(0.5 + 127 * part) / 127 * scale;
  });
}

function headAt({ stride, offset }: RowLayout, token: number, head: number): number {
  return token * stride + offset + head;
}

function copyHead(
  source: Float32Array,
  from: number,
  target: Float32Array,
  to: number,
  length: number,
): void {
  for (let i = 0; i < length; i++) target[to + i] = source[from + i]!;
}

/** Computes the factor that gives `length` elements from `at` on a root mean square of about 1. */
function inverseRms(values: Float32Array, at: number, length: number, epsilon: number): number {
  let squares = 0;
  for (let i = 0; i < length; i++) squares += values[at + i]! ** 2;
  return 1 / Math.sqrt(squares / length + epsilon);
}

/** Rotates the head at `values[at…]` in place. */
function turn(
  { cos, sin }: RotaryArrays,
  { size, isInterleaved }: RotaryParams,
  values: Float32Array,
  at: number,
  position: number,
): void {
  const half = size / 2;
  const step = isInterleaved ? 2 : 1;
  const distance = isInterleaved ? 1 : half;
  for (let i = 0; i < half; i++) {
    const cosine = cos[position * half + i]!;
    const sine = sin[position * half + i]!;
    const first = at + i * step;
    const x = values[first]!;
    const y = values[first + distance]!;
    values[first] = x * cosine - y * sine;
    values[first + distance] = y * cosine + x * sine;
  }
}
