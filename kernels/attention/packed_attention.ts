/**
 * Attention within sequences that lie one after the other along one axis of rows, without padding or a cache.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import commonTemplate from "./attention_common.wgsl" with { type: "text" };
import { chooseTiling, type HeadShape } from "./attention_shape.ts";
import { tileSource, type TileTiling } from "./attention_source.ts";
import { expand, FOUR } from "../common/wgsl.ts";
import type { RowLayout } from "./kv_write.ts";
import source from "./packed_attention.wgsl" with { type: "text" };

/** The parameters of one attention layer. */
export interface PackedParams {
  readonly shape: HeadShape;
  readonly q: RowLayout;
  readonly k: RowLayout;
  readonly v: RowLayout;
  /** Factor on the products of query and key, usually `1 / sqrt(headSize)`. */
  readonly scale: number;
  /** `c` in `c * tanh(score / c)`; 0 for none. */
  readonly softcap: number;
  /**
   * Number of keys that a query sees on either side of its own position; 0 for all. Allowed only if a sequence's
   * queries and keys are the same rows.
   */
  readonly window: number;
}

/** Buffers of one layer. `q`, `k` and `v` may be the same buffer. */
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

/**
 * Number of words in an `Item` of attention_common.wgsl: first row of queries, 0, first row of the tile, rows, 0, keys,
 * row of the first key, 0.
 */
const ITEM_WORDS = 8;

/**
 * The plan of a batch on the device, for all layers of one shape. An item is a tile of rows of one sequence, where a
 * row is a pair (query, head of the group). All memory is allocated in the constructor.
 */
export class PackedBuffer {
  readonly shape: HeadShape;
  readonly tile: TileTiling;
  /** u32 `[items, 8]`. */
  readonly items: GPUBuffer;
  numItems = 0;
  readonly #gpu: GpuContext;
  readonly #words: Uint32Array<ArrayBuffer>;

  /**
   * @param tile the best tile for the device by default.
   * @throws {RangeError} when the kernel cannot run the shape on this device.
   */
  constructor(
    gpu: GpuContext,
    shape: HeadShape,
    { maxRows, maxSequences }: PackedLimits,
    tile: TileTiling | undefined = chooseTiling(gpu, shape).tile,
  ) {
    if (tile === undefined) {
      throw new RangeError(
        `This device's workgroup memory of ${gpu.limits.maxComputeWorkgroupStorageSize} bytes is too small ` +
          `for a tile of heads of ${shape.headSize}.`,
      );
    }
    this.#gpu = gpu;
    this.shape = shape;
    this.tile = tile;
    // The last item of each sequence may be partly full.
    const maxItems = maxSequences + Math.ceil(maxRows * shape.heads / shape.kvHeads / tile.rows);
    this.#words = new Uint32Array(maxItems * ITEM_WORDS);
    this.items = createStorage(gpu, "packed attention items", this.#words.byteLength);
  }

  /** Plans a batch and writes the plan to the device. Work submitted later uses the new plan. */
  write({ numSequences, queryStarts, keyStarts, keyLengths }: PackedBounds): void {
    const { shape: { heads, kvHeads }, tile } = this;
    let length = 0;
    for (let s = 0; s < numSequences; s++) {
      const first = queryStarts[s]!;
      const numRows = (queryStarts[s + 1]! - first) * heads / kvHeads;
      for (let start = 0; start < numRows; start += tile.rows, length += ITEM_WORDS) {
        const rows = Math.min(tile.rows, numRows - start);
        this.#words.set([first, 0, start, rows, 0, keyLengths[s]!, keyStarts[s]!, 0], length);
      }
    }
    this.numItems = length / ITEM_WORDS;
    this.#gpu.device.queue.writeBuffer(this.items, 0, this.#words, 0, length);
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
 * Bidirectional attention of grouped queries to the keys of their sequence:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group])) * v[j, h / group]`
 *
 * over the keys `j` of `t`'s sequence, or those at most `window` away from `t`. Sums are f32 for any element type. One
 * workgroup takes a tile of rows of one sequence and one KV head. Rows that belong to no sequence are neither read nor
 * written. Head sizes must be multiples of 4 from 8 to 256, and strides and offsets multiples of 4.
 */
export class PackedAttention {
  readonly #batch: PackedBuffer;
  readonly #kernel: Kernel<typeof BINDINGS>;

  /** @throws {RangeError} when a stride or an offset is not a multiple of 4. */
  constructor(gpu: GpuContext, batch: PackedBuffer, params: PackedParams) {
    checkLayouts(params);
    const { shape: { heads, kvHeads, headSize, elem }, q, k, v, scale, softcap, window } = params;
    this.#batch = batch;
    this.#kernel = Kernel.get(gpu, {
      name: "packed_attention",
      source: FOUR[elem] + expand(commonTemplate, { IS_PAGED: false }) + source +
        tileSource(headSize / 4, batch.tile),
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
        HAS_SLOPES: 0,
        WINDOW: window,
      },
    });
  }

  /** Appends one dispatch that computes attention for the batch last given to {@linkcode PackedBuffer.write}. */
  encode(pass: ComputePass, tensors: PackedTensors): void {
    const { numItems, items, shape } = this.#batch;
    if (numItems === 0) return;
    this.#kernel.encode(pass, { items, ...tensors }, [numItems, shape.kvHeads]);
  }
}

/**
 * Checks layouts; the SIMD kernel uses it too.
 *
 * @throws {RangeError} when a stride or an offset is not a multiple of 4.
 */
export function checkLayouts({ q, k, v }: Pick<PackedParams, "q" | "k" | "v">): void {
  for (const { stride, offset } of [q, k, v]) {
    if (stride % 4 === 0 && offset % 4 === 0) continue;
    throw new RangeError(
      `Packed attention needs strides and offsets that are multiples of 4, not ${stride} and ${offset}.`,
    );
  }
}

/** The bounds of a batch's sequences. They may share keys, and may have different numbers of keys and queries. */
export interface PackedBounds {
  readonly numSequences: number;
  /** i32 `[numSequences + 1]`: the first row of each sequence's queries, then the end. */
  readonly queryStarts: Int32Array;
  /** i32 `[numSequences]`: the row of each sequence's first key. */
  readonly keyStarts: Int32Array;
  /** i32 `[numSequences]`: the number of each sequence's keys, at least 1. */
  readonly keyLengths: Int32Array;
}

/** Limits for a batch. */
export interface PackedLimits {
  /** Maximum number of rows of queries. */
  readonly maxRows: number;
  readonly maxSequences: number;
}

/**
 * Bounds of sequences whose queries and keys are the same rows.
 *
 * @example
 * ```ts
 * import { selfBounds } from "./packed_attention.ts";
 * import assert from "node:assert/strict";
 * assert.deepEqual([...selfBounds([3, 1]).queryStarts], [0, 3, 4]);
 * ```
 */
export function selfBounds(lengths: readonly number[]): PackedBounds {
  const queryStarts = new Int32Array(lengths.length + 1);
  lengths.forEach((length, s) => queryStarts[s + 1] = queryStarts[s]! + length);
  return {
    numSequences: lengths.length,
    queryStarts,
    keyStarts: queryStarts.subarray(0, lengths.length),
    keyLengths: Int32Array.from(lengths),
  };
}

/** Number of rows of queries in all sequences together. */
export function numQueryRows({ numSequences, queryStarts }: PackedBounds): number {
  return queryStarts[numSequences]!;
}
