/**
 * Causal attention for a packed step over a paged KV cache.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import commonTemplate from "./attention_common.wgsl" with { type: "text" };
import { decodeSource, tileSource } from "./attention_source.ts";
import { expand, FOUR, HALF_FOUR } from "../common/wgsl.ts";
import {
  type AttentionShape,
  type AttentionTiling,
  cacheSource,
  cacheStride,
  checkQuantized,
  checkShape,
  choosePagedTiling,
} from "./attention_shape.ts";
import prefillTemplate from "./paged_attention_prefill.wgsl" with { type: "text" };
import reduceSource from "./paged_attention_reduce.wgsl" with { type: "text" };
import { type PackedStep, type StepLimits, StepPlan } from "./step_plan.ts";

/** Parameters that may differ between attention layers of one shape. */
export interface AttentionParams {
  /** Factor on the products of query and key, usually `1 / sqrt(headSize)`. */
  readonly scale: number;
  /** `c` in `c * tanh(score / c)`; 0 for none. */
  readonly softcap: number;
  /** Number of keys that a query sees, including its own; 0 for all. */
  readonly window: number;
  /** Whether a sink logit per head is added to the softmax's denominator. */
  readonly hasSinks: boolean;
  /** Whether a bias by distance (ALiBi) is added to the scores, after the soft cap. */
  readonly hasSlopes: boolean;
  /**
   * Distance from one token's queries to the next token's, and from the beginning of a token's row to its first head.
   * Both are in elements, and multiples of 4.
   */
  readonly queryStride: number;
  readonly queryOffset: number;
}

/** Buffers of one attention layer. */
export interface AttentionTensors {
  /** elem `[numTokens, queryStride]`, rotated. */
  readonly q: GPUBuffer;
  /** elem `[blocks, kvHeads, blockSize, headSize]`; for 8 bits see `kv_cache.wgsl`. */
  readonly kCache: GPUBuffer;
  /** The cache of values, in the same layout. */
  readonly vCache: GPUBuffer;
  /** elem `[numTokens, heads * headSize]`. */
  readonly out: GPUBuffer;
  /** f32 `[heads]`, if the layer has sinks. */
  readonly sinks?: GPUBuffer | undefined;
  /** f32 `[heads]`, if the layer has a bias by distance. */
  readonly slopes?: GPUBuffer | undefined;
}

const INPUTS = {
  step: "read",
  q: "read",
  kCache: "read",
  vCache: "read",
  sinks: "read",
  slopes: "read",
  out: "read_write",
} as const;
const DECODE = { ...INPUTS, partials: "read_write" } as const;
const REDUCE = { step: "read", partials: "read", sinks: "read", out: "read_write" } as const;

/**
 * Causal attention of grouped queries:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group]) + slope[h] * (j - t)) * v[j, h / group]`
 *
 * over the keys `j` of `t`'s sequence up to `t` itself, within the window. Sums are f32, except for f16 prompts on
 * graphics cards, where up to eight products are first added in f16. Head sizes must be multiples of 4 from 8 to 256;
 * others are refused when the step buffer is made.
 */
export class PagedAttention {
  readonly #step: StepBuffer;
  readonly #prefill: Kernel<typeof INPUTS> | undefined;
  readonly #decode: Kernel<typeof DECODE>;
  readonly #reduce: Kernel<typeof REDUCE>;

  constructor(gpu: GpuContext, step: StepBuffer, params: AttentionParams) {
    this.#step = step;
    const { shape, tiling } = step;
    const headFours = shape.headSize / 4;
    const common = {
      HEAD_FOURS: headFours,
      KV_HEADS: shape.kvHeads,
      GROUP: shape.heads / shape.kvHeads,
      BLOCK_SIZE: shape.blockSize,
      CACHE_STRIDE: cacheStride(shape),
      Q_STRIDE: params.queryStride / 4,
      Q_OFFSET: params.queryOffset / 4,
      SOFTCAP: params.softcap,
      PRODUCT_SCALE: params.softcap === 0 ? params.scale : params.scale / params.softcap,
      WINDOW: params.window,
      HAS_SINKS: params.hasSinks ? 1 : 0,
      HAS_SLOPES: params.hasSlopes ? 1 : 0,
    };
    checkQuantized(shape);
    const isQuantized = shape.isQuantized ?? false;
    const paged = cacheSource(shape) + expand(commonTemplate, { IS_PAGED: true });
    const prelude = FOUR[shape.elem] + paged;
    if (tiling.tile !== undefined) {
      const four = tiling.tile.isHalf ? HALF_FOUR : FOUR[shape.elem];
      this.#prefill = Kernel.get(gpu, {
        name: "paged_attention_prefill",
        source: four + paged + expand(prefillTemplate, { IS_QUANTIZED: isQuantized }) +
          tileSource(headFours, tiling.tile),
        bindings: INPUTS,
        constants: common,
      });
    }
    this.#decode = Kernel.get(gpu, {
      name: "paged_attention_decode",
      source: prelude + decodeSource(headFours, tiling.decode, isQuantized),
      bindings: DECODE,
      constants: common,
    });
    this.#reduce = Kernel.get(gpu, {
      name: "paged_attention_reduce",
      source: prelude + reduceSource,
      bindings: REDUCE,
      constants: { ...common, ROWS: tiling.decode.rows },
    });
  }

  /** Appends the attention for the step that was written last: one dispatch for each kind of work item in it. */
  encode(pass: ComputePass, tensors: AttentionTensors): void {
    const { plan, words, partials, shape } = this.#step;
    // Every binding needs a buffer. Without sinks or slopes, their buffers are not read.
    const { sinks = words, slopes = words } = tensors;
    const inputs = { ...tensors, step: words, sinks, slopes };
    if (plan.numPrefillItems > 0) {
      this.#prefill!.encode(pass, inputs, [plan.numPrefillItems, shape.kvHeads]);
    }
    if (plan.numDecodeItems > 0) {
      this.#decode.encode(pass, { ...inputs, partials }, [plan.numDecodeItems, shape.kvHeads]);
    }
    if (plan.numReduceItems > 0) {
      const reduced = { step: words, partials, sinks, out: tensors.out };
      this.#reduce.encode(pass, reduced, [plan.numReduceItems, shape.kvHeads]);
    }
  }
}

/**
 * The plan of a step for `kv_write` and `paged_attention`, on the device, for all layers of one shape. All memory is
 * allocated in the constructor.
 */
export class StepBuffer {
  readonly shape: AttentionShape;
  readonly tiling: AttentionTiling;
  readonly plan: StepPlan;
  /** u32: the plan's words. */
  readonly words: GPUBuffer;
  /** f32 `[maxSlots, kvHeads, decode.rows, headSize + 4]`: partial results of split decode items. */
  readonly partials: GPUBuffer;
  readonly #gpu: GpuContext;

  /**
   * @param tiling the best tiling for the device by default.
   * @throws {RangeError} when the kernels cannot run the shape.
   */
  constructor(
    gpu: GpuContext,
    shape: AttentionShape,
    limits: StepLimits,
    tiling: AttentionTiling = choosePagedTiling(gpu, shape),
  ) {
    checkShape(shape);
    this.#gpu = gpu;
    this.shape = shape;
    this.tiling = tiling;
    this.plan = new StepPlan(shape, this.tiling, limits);
    this.words = createStorage(gpu, "step", this.plan.words.byteLength);
    const rows = this.plan.maxSlots * shape.kvHeads * this.tiling.decode.rows;
    this.partials = createStorage(gpu, "attention partials", rows * (shape.headSize + 4) * 4);
  }

  /** Plans `step` and writes the plan to the device, before any work that is submitted later. */
  write(step: PackedStep): void {
    this.plan.build(step);
    this.#gpu.device.queue.writeBuffer(this.words, 0, this.plan.words, 0, this.plan.length);
  }

  dispose(): void {
    this.words.destroy();
    this.partials.destroy();
  }
}
