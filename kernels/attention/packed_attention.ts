/**
 * Attention within sequences that lie one after the other on one axis of rows: no padding, no cache.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import attentionSource from "./attention_common.wgsl" with { type: "text" };
import { chooseTiling, type HeadShape } from "./attention_shape.ts";
import { tileSource, type TileTiling } from "./attention_tile.ts";
import { FOUR } from "../common/four.ts";
import type { RowLayout } from "./kv_write.ts";
import source from "./packed_attention.wgsl" with { type: "text" };
import type { PackedBounds, PackedLimits } from "./packed_bounds.ts";

/** The parameters of one attention layer. */
export interface PackedParams {
  readonly shape: HeadShape;
  readonly q: RowLayout;
  readonly k: RowLayout;
  readonly v: RowLayout;
  /** Factor of the products of query and key, usually `1 / sqrt(headSize)`. */
  readonly scale: number;
  /** `c` in `c * tanh(score / c)`; 0 for none. */
  readonly softcap: number;
  /**
   * Keys that a query sees on either side of its own position; 0 for all. Only where a sequence's queries are its keys.
   */
  readonly window: number;
}

/** Buffers of one layer; `q`, `k` and `v` may be one. */
export interface PackedTensors {
  /** elem `[query rows, q.stride]`. */
  readonly q: GPUBuffer;
  /** elem `[key rows, k.stride]`. */
  readonly k: GPUBuffer;
  /** elem `[key rows, v.stride]`. */
  readonly v: GPUBuffer;
  /** elem `[query rows, heads * headSize]`. */
  readonly out: GPUBuffer;
}

/** `Item` of attention_common.wgsl: first row of queries, 0, first row of the tile, rows, 0, keys, their first row, 0. */
const ITEM_WORDS = 8;

/** Lays a batch out. An item is a tile of rows of one sequence, a row being a pair (query, head of the group). */
class PackedPlan {
  /** The first `length` are valid. */
  readonly words: Uint32Array<ArrayBuffer>;
  length = 0;
  readonly #group: number;
  readonly #tileRows: number;

  constructor(group: number, tileRows: number, { maxRows, maxSequences }: PackedLimits) {
    this.#group = group;
    this.#tileRows = tileRows;
    // The last item of each sequence may be part full.
    const maxItems = maxSequences + Math.ceil(maxRows * group / tileRows);
    this.words = new Uint32Array(maxItems * ITEM_WORDS);
  }

  get numItems(): number {
    return this.length / ITEM_WORDS;
  }

  /** Replaces the plan by that of `bounds`. */
  build({ numSequences, queryStarts, keyStarts, keyLengths }: PackedBounds): void {
    this.length = 0;
    for (let s = 0; s < numSequences; s++) {
      const first = queryStarts[s]!;
      const numRows = (queryStarts[s + 1]! - first) * this.#group;
      for (let start = 0; start < numRows; start += this.#tileRows) {
        const rows = Math.min(this.#tileRows, numRows - start);
        const item = [first, 0, start, rows, 0, keyLengths[s]!, keyStarts[s]!, 0];
        for (const word of item) this.words[this.length++] = word;
      }
    }
  }
}

/** A batch on the device, for all layers of one shape. All its memory is allocated when it is made. */
export class PackedBuffer {
  readonly shape: HeadShape;
  readonly tile: TileTiling;
  readonly plan: PackedPlan;
  /** u32 `[items, 8]`. */
  readonly items: GPUBuffer;
  readonly #gpu: GpuContext;

  /**
   * @param tile by default the best for the device.
   * @throws {RangeError} when the kernel cannot run the shape on this device.
   */
  constructor(
    gpu: GpuContext,
    shape: HeadShape,
    limits: PackedLimits,
    tile: TileTiling | undefined = chooseTiling(gpu, shape).tile,
  ) {
    if (tile === undefined) {
      throw new RangeError(
        `This device's workgroup memory of ${gpu.limits.maxComputeWorkgroupStorageSize} bytes holds no tile ` +
          `of heads of ${shape.headSize}.`,
      );
    }
    this.#gpu = gpu;
    this.shape = shape;
    this.tile = tile;
    this.plan = new PackedPlan(shape.heads / shape.kvHeads, tile.rows, limits);
    this.items = createStorage(gpu, "packed attention items", this.plan.words.byteLength);
  }

  /** Plans a batch and writes the plan to the device, ahead of whatever is submitted next. */
  write(bounds: PackedBounds): void {
    this.plan.build(bounds);
    this.#gpu.device.queue.writeBuffer(this.items, 0, this.plan.words, 0, this.plan.length);
  }

  dispose(): void {
    this.items.destroy();
  }
}

const BINDINGS = {
  items: "read",
  q: "read",
  k: "read",
  v: "read",
  out: "read_write",
} as const;

/**
 * Attention of grouped queries to all keys of their sequence, before and after:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group])) * v[j, h / group]`
 *
 * over the keys `j` of `t`'s sequence, or those no further than `window` from `t`. Sums are in f32 whatever the element
 * type. One workgroup takes a tile of rows of one sequence and one KV head; rows of no sequence are neither read nor
 * written. Heads of 8 to 256, a multiple of 4, as are strides and offsets; anything else is refused.
 */
export class PackedAttention {
  readonly #batch: PackedBuffer;
  readonly #kernel: Kernel<typeof BINDINGS>;

  /** @throws {RangeError} when a stride or an offset is no multiple of 4. */
  constructor(gpu: GpuContext, batch: PackedBuffer, params: PackedParams) {
    checkLayouts(params);
    const { shape: { heads, kvHeads, headSize, elem }, q, k, v, scale, softcap, window } = params;
    this.#batch = batch;
    this.#kernel = Kernel.get(gpu, {
      name: "packed_attention",
      source: FOUR[elem] + attentionSource + source + tileSource(headSize / 4, batch.tile),
      bindings: BINDINGS,
      constants: {
        HEAD_FOURS: headSize / 4,
        KV_HEADS: kvHeads,
        GROUP: heads / kvHeads,
        Q_STRIDE: q.stride / 4,
        Q_OFFSET: q.offset / 4,
        K_STRIDE: k.stride / 4,
        K_OFFSET: k.offset / 4,
        V_STRIDE: v.stride / 4,
        V_OFFSET: v.offset / 4,
        SOFTCAP: softcap,
        PRODUCT_SCALE: softcap === 0 ? scale : scale / softcap,
        HAS_SINKS: 0,
        WINDOW: window,
      },
    });
  }

  /** Appends the attention of the batch last written: one dispatch. */
  encode(pass: ComputePass, tensors: PackedTensors): void {
    const { plan, items, shape } = this.#batch;
    if (plan.numItems === 0) return;
    this.#kernel.encode(pass, { items, ...tensors }, [plan.numItems, shape.kvHeads]);
  }
}

/** Also asked by the SIMD kernel. @throws {RangeError} when a stride or an offset is no multiple of 4. */
export function checkLayouts({ q, k, v }: Pick<PackedParams, "q" | "k" | "v">): void {
  for (const { stride, offset } of [q, k, v]) {
    if (stride % 4 === 0 && offset % 4 === 0) continue;
    throw new RangeError(
      `Packed attention wants rows and offsets that 4 divides, not ${stride} and ${offset}.`,
    );
  }
}
