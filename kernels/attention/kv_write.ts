/**
 * Writes the keys and values of a step's new tokens into a paged KV cache, normalised by head and rotated by position.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import {
  type AttentionShape,
  cacheSource,
  cacheStride,
  checkQuantized,
} from "./attention_shape.ts";
import { expand, FOUR } from "../common/wgsl.ts";
import template from "./kv_write.wgsl" with { type: "text" };
import type { StepBuffer } from "./paged_attention.ts";

/** Rotary position embedding. */
export interface RotaryParams {
  /** Number of leading elements of a head that are rotated; even. */
  readonly size: number;
  /** Whether neighbouring elements are rotated together, rather than element `i` with `i + size / 2`. */
  readonly isInterleaved: boolean;
  /** Whether `angles` has one row per token of the step, rather than one per position. */
  readonly isByToken?: boolean | undefined;
}

/** How heads are normalised: they are divided by a root mean square and multiplied by factors. */
export interface HeadNormParams {
  readonly epsilon: number;
  readonly ofQueries: boolean;
  readonly ofKeys: boolean;
  /** Whether all heads of a token share one root mean square; otherwise each head has its own. */
  readonly ofRows?: boolean | undefined;
  /** Whether heads are normalised after their rotation, each by itself, rather than before it. */
  readonly isAfterRotation?: boolean | undefined;
}

/** The layout of a token's heads in a tensor, in elements; both numbers are multiples of 4. */
export interface RowLayout {
  /** Distance from one token's row to the next. */
  readonly stride: number;
  /** Distance from the row's beginning to the first head. */
  readonly offset: number;
}

/** Parameters that may differ between attention layers of one shape. */
export interface KvWriteParams {
  /** If absent, nothing is rotated, and queries are not written unless they are normalised. */
  readonly rotary?: RotaryParams | undefined;
  /**
   * If each head has its own root mean square, 256 must be a multiple of the head size, so that a workgroup holds whole
   * heads.
   */
  readonly norms?: HeadNormParams | undefined;
  readonly q: RowLayout;
  readonly k: RowLayout;
  readonly v: RowLayout;
}

/** Buffers of one attention layer. `q`, `k` and `v` may be the same buffer, with the three parts in each row. */
export interface KvWriteTensors {
  /** elem `[numTokens, q.stride]`. */
  readonly q: GPUBuffer;
  /** elem `[numTokens, k.stride]`. */
  readonly k: GPUBuffer;
  /** elem `[numTokens, v.stride]`. */
  readonly v: GPUBuffer;
  /** elem `[blocks, kvHeads, blockSize, headSize]`; for 8 bits see `kv_cache.wgsl`. */
  readonly kCache: GPUBuffer;
  /** The cache of values, in the same layout. */
  readonly vCache: GPUBuffer;
  /** f32 `[positions, 2, size / 2]`, or one row per token; present if heads are rotated. See {@linkcode joinAngles}. */
  readonly angles?: GPUBuffer | undefined;
  /** elem `[numTokens, heads * headSize]`: the result for queries; needed if queries are normalised or rotated. */
  readonly qOut?: GPUBuffer | undefined;
  /**
   * A uniform with the norms' factors, for queries and then for keys: f32 `[2, headSize]`, or `[heads +
   * kvHeads, headSize]` if all heads share one norm.
   */
  readonly gammas?: GPUBuffer | undefined;
}

type HeadShape = Pick<AttentionShape, "heads" | "kvHeads" | "headSize">;

const BINDINGS = {
  step: "read",
  q: "read",
  k: "read",
  v: "read",
  angles: "read",
  qOut: "read_write",
  kCache: "read_write",
  vCache: "read_write",
} as const;
/** Maximum number of factors of norms: they are in a uniform buffer, for which WebGPU guarantees 64 KiB. */
const MAX_FACTORS = 2 ** 14;
/** Bindings with norms; without norms there is no buffer for their factors. */
const NORM_BINDINGS = { ...BINDINGS, gammas: "uniform" } as const;
const THREADS = 64;

/**
 * Let `x` be a head of queries or keys at position `p`, and `x'[i]` the element that is rotated together with `x[i]`.
 * First, `x` is normalised if a norm is given; the mean is that of the head, or of all heads of the token:
 *
 * `x = x / sqrt(mean(x²) + epsilon) * gamma`
 *
 * Then `x` is rotated, with minus for the first element of each pair; `a(i)` is the index of the pair that holds
 * `x[i]`:
 *
 * `y[i] = x[i] * cos[p, a(i)] ∓ x'[i] * sin[p, a(i)]`
 *
 * Some models normalise heads after the rotation (`isAfterRotation`).
 *
 * Keys and values go to slot `p` of their sequence's blocks, rotated queries to `qOut`.
 */
export class KvWrite {
  readonly #step: StepBuffer;
  readonly #kernel: Kernel<typeof NORM_BINDINGS>;
  readonly #workgroupsPerToken: number;

  /** @throws {RangeError} when the kernel cannot run this rotary size or layout. */
  constructor(gpu: GpuContext, step: StepBuffer, params: KvWriteParams) {
    const { rotary, norms, q, k, v } = params;
    const { shape } = step;
    checkRotary(rotary, shape.headSize);
    checkNorms(norms, shape);
    checkQuantized(shape);
    for (const layout of [q, k, v]) checkLayout(layout);
    const headFours = shape.headSize / 4;
    const heads = rotary === undefined && !norms?.ofQueries ? 0 : shape.heads;
    this.#step = step;
    this.#workgroupsPerToken = Math.ceil((heads + 2 * shape.kvHeads) * headFours / THREADS);
    this.#kernel = Kernel.get(gpu, {
      name: "kv_write",
      source: FOUR[shape.elem] + cacheSource(shape) + expand(template, {
        IS_QUANTIZED: shape.isQuantized ?? false,
        FACTOR_FOURS: norms ? numFactors(norms, shape) / 4 : 0,
      }),
      bindings: norms ? NORM_BINDINGS : BINDINGS as typeof NORM_BINDINGS,
      constants: {
        HEAD_FOURS: headFours,
        HEADS: heads,
        KV_HEADS: shape.kvHeads,
        BLOCK_SIZE: shape.blockSize,
        CACHE_STRIDE: cacheStride(shape),
        Q_STRIDE: q.stride / 4,
        Q_OFFSET: q.offset / 4,
        K_STRIDE: k.stride / 4,
        K_OFFSET: k.offset / 4,
        V_STRIDE: v.stride / 4,
        V_OFFSET: v.offset / 4,
        ROTARY_SIZE: rotary?.size ?? 0,
        IS_INTERLEAVED: rotary?.isInterleaved ? 1 : 0,
        IS_BY_TOKEN: rotary?.isByToken ? 1 : 0,
        NORMS_QUERIES: norms?.ofQueries ? 1 : 0,
        NORMS_KEYS: norms?.ofKeys ? 1 : 0,
        EPSILON: norms?.epsilon ?? 0,
        NORMS_ROWS: norms?.ofRows ? 1 : 0,
        NORMS_ROTATED: norms?.isAfterRotation ? 1 : 0,
        NUM_QUERY_HEADS: shape.heads,
      },
    });
  }

  /** Appends one dispatch that writes the keys and values of the step currently in the step buffer. */
  encode(pass: ComputePass, tensors: KvWriteTensors): void {
    const { words, partials, plan } = this.#step;
    const { q, k, v, kCache, vCache } = tensors;
    // Every binding needs a buffer; unused ones are not accessed.
    const { angles = words, qOut = partials, gammas = words } = tensors;
    const bound = { step: words, q, k, v, angles, qOut, kCache, vCache, gammas };
    this.#kernel.encode(pass, bound, [this.#workgroupsPerToken, plan.numTokens]);
  }
}

/** Number of factors for queries and keys together. */
function numFactors({ ofRows }: HeadNormParams, { heads, kvHeads, headSize }: HeadShape): number {
  return (ofRows ? heads + kvHeads : 2) * headSize;
}

/** Joins two tables `[positions, width]` into one `[positions, 2, width]`, cosines first. */
export function joinAngles(
  { cos, sin }: { readonly cos: Float32Array; readonly sin: Float32Array },
  width: number,
): Float32Array<ArrayBuffer> {
  const joined = new Float32Array(2 * cos.length);
  for (let at = 0; at < cos.length; at += width) {
    joined.set(cos.subarray(at, at + width), 2 * at);
    joined.set(sin.subarray(at, at + width), 2 * at + width);
  }
  return joined;
}

/** Checks rotary parameters; the reference uses it too. */
export function checkRotary(rotary: RotaryParams | undefined, headSize: number): void {
  if (rotary === undefined) return;
  if (rotary.size % 2 === 0 && rotary.size <= headSize) return;
  throw new RangeError(
    `A rotary size of ${rotary.size} in heads of ${headSize}: ` +
      `kv_write rotates an even number of elements, at most the whole head.`,
  );
}

/** Whether the factors fit into the uniform if all heads of a token share one norm. */
export function hasRoomForRowNorms(shape: HeadShape): boolean {
  return (shape.heads + shape.kvHeads) * shape.headSize <= MAX_FACTORS;
}

/** Checks the parameters of norms; the reference uses it too. */
export function checkNorms(norms: HeadNormParams | undefined, shape: HeadShape): void {
  if (norms === undefined) return;
  const { heads, kvHeads, headSize } = shape;
  if (norms.ofRows && !hasRoomForRowNorms(shape)) {
    throw new RangeError(
      `Norms of ${heads} and ${kvHeads} heads of ${headSize}: ` +
        `kv_write takes ${MAX_FACTORS} factors at most.`,
    );
  }
  if (norms.ofRows && norms.isAfterRotation) {
    throw new RangeError(
      "kv_write normalises all heads of a token together only before they are rotated.",
    );
  }
  if (norms.ofRows || 4 * THREADS % headSize === 0) return;
  throw new RangeError(
    `Norms of heads of ${headSize}: kv_write takes head sizes that divide ${4 * THREADS}.`,
  );
}

function checkLayout({ stride, offset }: RowLayout): void {
  if (stride % 4 === 0 && offset % 4 === 0) return;
  throw new RangeError(
    `A row stride of ${stride} and offset of ${offset}: kv_write reads multiples of 4 elements.`,
  );
}
