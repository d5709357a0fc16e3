/**
 * Runs a layer of `SimdAttention` and its references with the same steps, tensors and block tables.
 *
 * @module
 */
import type { AttentionShape } from "../../kernels/attention/attention_shape.ts";
import { SimdAttention, type SimdLayer } from "../../kernels/attention/attention_simd.ts";
import type { RotaryParams } from "../../kernels/attention/kv_write.ts";
import { ReferenceKvWrite } from "./references/kv_write_reference.ts";
import { ReferenceAttention } from "./references/paged_attention_reference.ts";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import { makeNormal } from "./exact_sampling.ts";
import { type CaseOptions, makeSlopes } from "./paged_case.ts";

/** Options of a layer besides its shape. */
export interface SimdOptions extends CaseOptions {
  readonly rotary?: RotaryParams | undefined;
  /** Whether queries, keys and values are in separate tensors instead of packed in one. */
  readonly isSplit?: boolean;
}

/** Makes a layer with random rotary tables and sinks, if it has any. */
export function makeLayer(
  shape: AttentionShape,
  options: SimdOptions = {},
  maxPositions = 0,
): SimdLayer {
  const { heads, kvHeads, headSize } = shape;
  const { rotary, window = 0, softcap = 0, isSplit = false } = options;
  const query = heads * headSize;
  const key = kvHeads * headSize;
  const row = query + 2 * key;
  const layouts = isSplit
    ? { q: [query, 0], k: [key, 0], v: [key, 0] } as const
    : { q: [row, 0], k: [row, query], v: [row, query + key] } as const;
  const layout = ([stride, offset]: readonly [number, number]) => ({ stride, offset });
  const normal = makeNormal(7);
  const angles = Float64Array.from(
    { length: maxPositions * (rotary?.size ?? 0) / 2 },
    () => normal() * Math.PI,
  );
  return {
    shape,
    write: {
      rotary,
      q: layout(layouts.q),
      k: layout(layouts.k),
      v: layout(layouts.v),
    },
    attend: { scale: 1 / Math.sqrt(headSize), softcap, window },
    isPacked: !isSplit,
    rotary: rotary &&
      { cos: Float32Array.from(angles, Math.cos), sin: Float32Array.from(angles, Math.sin) },
    sinks: options.hasSinks ? new Float32Array(heads).map(() => normal() * 2) : undefined,
    slopes: options.hasSlopes ? makeSlopes(heads) : undefined,
  };
}

/** A layer of `SimdAttention` and its references. Each has its own cache, of the same size. */
export class Contenders {
  readonly #layer: SimdLayer;
  readonly #simd: SimdAttention;
  readonly #write: ReferenceKvWrite;
  readonly #attend: ReferenceAttention;
  readonly #kCache: Float32Array;
  readonly #vCache: Float32Array;

  constructor(
    layer: SimdLayer,
    limits: {
      readonly numBlocks: number;
      readonly maxTokens: number;
      readonly maxSequences: number;
      readonly maxBlocksPerSequence: number;
    },
  ) {
    const { shape, write, attend, rotary, sinks, slopes } = layer;
    const { heads, kvHeads, headSize, blockSize } = shape;
    this.#layer = layer;
    this.#simd = new SimdAttention([layer], limits);
    this.#kCache = new Float32Array(limits.numBlocks * kvHeads * blockSize * headSize);
    this.#vCache = this.#kCache.slice();
    this.#write = new ReferenceKvWrite(shape, write);
    this.#attend = new ReferenceAttention(shape, {
      ...attend,
      hasSinks: sinks !== undefined,
      hasSlopes: slopes !== undefined,
      queryStride: rotary ? heads * headSize : write.q.stride,
      queryOffset: rotary ? 0 : write.q.offset,
    }, limits.maxBlocksPerSequence * blockSize);
  }

  /** Runs a step whose queries, keys and values consist of numbers from `next`. */
  run(step: PackedStep, next: () => number): { got: Float32Array; want: Float32Array } {
    const { got, q } = this.write(step, next);
    const want = new Float32Array(got.length);
    const caches = { kCache: this.#kCache, vCache: this.#vCache };
    const { sinks, slopes } = this.#layer;
    this.#attend.run(step, { q, ...caches, out: want, sinks, slopes });
    return { got, want };
  }

  /** Like {@linkcode run}, but the reference only writes its cache. @returns the outputs, and the rotated queries. */
  write(step: PackedStep, next: () => number): { got: Float32Array; q: Float32Array } {
    const { write, isPacked, rotary } = this.#layer;
    const fill = (width: number) => new Float32Array(step.numTokens * width).map(next);
    const q = fill(write.q.stride);
    const k = isPacked ? q : fill(write.k.stride);
    const v = isPacked ? q : fill(write.v.stride);

    const inputs = this.#simd.inputs(0);
    inputs.q.set(q);
    if (!isPacked) inputs.k.set(k);
    if (!isPacked) inputs.v.set(v);
    this.#simd.begin(step);
    const got = this.#simd.run(0);

    const caches = { kCache: this.#kCache, vCache: this.#vCache };
    const qOut = rotary && new Float32Array(got.length);
    this.#write.run(step, { q, k, v, ...caches, rotary, qOut });
    return { got, q: qOut ?? q };
  }
}
