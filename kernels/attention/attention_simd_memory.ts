/**
 * The layout of the SIMD kernels' linear memory. `wasm/layout.ts` is its counterpart.
 *
 * @module
 */
import { ALIGNMENT, type Arena } from "../cpu/arena.ts";
import {
  type AttentionShape,
  cachedHeadBytes,
  type CachePool,
  type WindowPool,
} from "./attention_shape.ts";
import { type ItemOptions, maxItemWords, ROWS, writeItems } from "./attention_items.ts";
import type { KernelThreads } from "../cpu/kernel_threads.ts";
import type { KvWriteParams } from "./kv_write.ts";
import type { AttentionParams } from "./paged_attention.ts";
import type { PackedStep, StepLimits } from "./step_plan.ts";

/** One attention layer. */
export interface SimdLayer {
  readonly shape: AttentionShape;
  readonly write: KvWriteParams;
  readonly attend: Pick<AttentionParams, "scale" | "softcap" | "window">;
  /** Whether queries, keys and values come as one tensor; `q`, `k` and `v` of the inputs are then the same array. */
  readonly isPacked: boolean;
  /** f32 `[positions, rotary size / 2]`; layers may share them. */
  readonly rotary?: { readonly cos: Float32Array; readonly sin: Float32Array } | undefined;
  /** f32 `[heads]`. */
  readonly sinks?: Float32Array | undefined;
  /** f32 `[heads]`: slopes of a bias by distance. */
  readonly slopes?: Float32Array | undefined;
}

/** Limits of the memory, and the threads that use it. */
export interface SimdLimits extends StepLimits, CachePool {
  /** Pools of layers with a window. If absent, all layers are in the main pool. */
  readonly windows?: readonly WindowPool[] | undefined;
  /** Absent if the calling thread works alone. */
  readonly threads?: KernelThreads | undefined;
  /** Whether the memory should use large pages, which suit caches that are written and read in large parts. */
  readonly hasLargePages?: boolean;
}

/** Number of words in a `Node` of `wasm/layout.ts`. */
const NODE_WORDS = 28;
/** Addresses of one layer. */
interface LayerOffsets {
  /** Address of the layer's `Node`. */
  readonly node: number;
  readonly q: number;
  readonly k: number;
  readonly v: number;
  readonly out: number;
}

/**
 * Addresses of layers and of the cache that they share. The cache's blocks are consecutive, each with the keys and
 * values of all layers.
 */
interface PlacedLayers {
  readonly layers: readonly LayerOffsets[];
  /** Address of block 0, after everything else. */
  readonly cache: number;
  readonly blockBytes: number;
}

/** Bytes of one block, with the keys and values of all layers. */
export function countBlockBytes(layers: readonly SimdLayer[]): number {
  return layers.reduce((sum, layer) => sum + 2 * bytesPerHalf(layer), 0);
}

/** Bytes of one layer's keys in a block; its values take as many. */
function bytesPerHalf({ shape }: SimdLayer): number {
  const { kvHeads, blockSize } = shape;
  return Math.ceil(kvHeads * blockSize * cachedHeadBytes(shape) / ALIGNMENT) * ALIGNMENT;
}

/**
 * Plans the memory. All layers share the inputs, but not the outputs: a graph may read an output after later layers
 * have run. The cache comes last, so that the memory can grow by blocks.
 */
export function placeLayers(
  arena: Arena,
  layers: readonly SimdLayer[],
  limits: SimdLimits,
): PlacedLayers {
  const { maxTokens, numBlocks } = limits;
  const reserveRows = (measureWidth: (layer: SimdLayer) => number) =>
    arena.reserve(maxTokens * Math.max(0, ...layers.map(measureWidth)));
  const inputs = {
    q: reserveRows(({ write }) => write.q.stride),
    k: reserveRows(({ write, isPacked }) => isPacked ? 0 : write.k.stride),
    v: reserveRows(({ write, isPacked }) => isPacked ? 0 : write.v.stride),
  };

  const reserved = layers.map(({ shape: { heads, headSize }, rotary, sinks, slopes }) => ({
    node: arena.reserve(NODE_WORDS),
    out: arena.reserve(maxTokens * heads * headSize),
    cos: rotary ? arena.place(rotary.cos) : 0,
    sin: rotary ? arena.place(rotary.sin) : 0,
    sinks: sinks ? arena.place(sinks) : 0,
    slopes: slopes ? arena.place(slopes) : 0,
  }));
  const blockBytes = countBlockBytes(layers);
  const cache = arena.reserve(numBlocks * blockBytes / 4);
  let end = cache;
  const placed = layers.map((layer, i) => {
    const { heads, kvHeads, headSize, blockSize } = layer.shape;
    const { q, k, v } = layer.isPacked ? { q: inputs.q, k: inputs.q, v: inputs.q } : inputs;
    const { node, out, cos, sin, sinks, slopes } = reserved[i]!;
    const kCache = end;
    const vCache = kCache + bytesPerHalf(layer);
    end = vCache + bytesPerHalf(layer);
    const { write, attend } = layer;
    // The words are in the order of `Node`'s fields.
    const words = Uint32Array.of(
      heads,
      kvHeads,
      headSize,
      Math.log2(blockSize),
      blockBytes,
      cachedHeadBytes(layer.shape),
      layer.shape.isQuantized ? 1 : 0,
      ...[q, write.q.stride, write.q.offset],
      ...[k, write.k.stride, write.k.offset],
      ...[v, write.v.stride, write.v.offset],
      kCache,
      vCache,
      out,
      write.rotary?.size ?? 0,
      write.rotary?.isInterleaved ? 1 : 0,
      cos,
      sin,
      toWord(attend.scale),
      toWord(attend.softcap),
      attend.window,
      sinks,
      slopes,
    );
    arena.fill(node, words);
    return { node, q, k, v, out };
  });
  return { layers: placed, cache, blockBytes };
}

/** The bits of a number as float32. */
function toWord(x: number): number {
  return new Uint32Array(Float32Array.of(x).buffer)[0]!;
}

/** Addresses of a step's data. */
interface StepOffsets {
  /** Address of its `Step` structure. */
  readonly step: number;
  readonly positions: number;
  readonly queryStarts: number;
  readonly blockTables: number;
  /** Tokens per block: the smallest number among all layers. */
  readonly blockSize: number;
  readonly anglePositions: number;
  readonly items: readonly ItemOffsets[];
}

/** The work items of a step, shared by all layers with the same heads. */
interface ItemOffsets {
  readonly at: number;
  readonly length: number;
  readonly options: ItemOptions;
}

export function placeStep(
  arena: Arena,
  limits: SimdLimits,
  layers: readonly SimdLayer[],
): StepOffsets {
  const { maxTokens, maxSequences, maxBlocksPerSequence } = limits;
  const positions = arena.reserve(maxTokens);
  const queryStarts = arena.reserve(maxSequences + 1);
  const blockTables = arena.reserve(maxSequences * maxBlocksPerSequence);
  const anglePositions = arena.reserve(maxTokens);
  // The words are in the order of `Step`'s fields. The first two are written with each step.
  const step = arena.place(
    Uint32Array.of(0, 0, positions, queryStarts, blockTables, anglePositions),
  );
  const items: ItemOffsets[] = [];
  for (const { shape: { heads, kvHeads } } of layers) {
    if (items.some((other) => isFor(other, heads, kvHeads))) continue;
    const joins = { numThreads: limits.threads?.numThreads ?? 1 };
    const options = { kvHeads, group: heads / kvHeads, rowsPerItem: ROWS, joins };
    const length = maxItemWords(limits, options);
    items.push({ at: arena.reserve(length), length, options });
  }
  const blockSize = Math.min(...layers.map(({ shape }) => shape.blockSize));
  return { step, positions, queryStarts, blockTables, anglePositions, blockSize, items };
}

function isFor({ options }: ItemOffsets, heads: number, kvHeads: number): boolean {
  return options.kvHeads === kvHeads && options.group === heads / kvHeads;
}

/** Writes the data of steps to their addresses. */
export class StepWriter {
  readonly #counts: Uint32Array;
  readonly #positions: Int32Array;
  readonly #queryStarts: Int32Array;
  readonly #blockTables: Int32Array;
  readonly #blockSize: number;
  readonly #anglePositions: Int32Array;
  readonly #items: readonly (ItemOffsets & { readonly words: Uint32Array; count: number })[];

  constructor({ buffer }: WebAssembly.Memory, offsets: StepOffsets, limits: SimdLimits) {
    const { maxTokens, maxSequences, maxBlocksPerSequence } = limits;
    this.#blockSize = offsets.blockSize;
    this.#counts = new Uint32Array(buffer, offsets.step, 2);
    this.#positions = new Int32Array(buffer, offsets.positions, maxTokens);
    this.#queryStarts = new Int32Array(buffer, offsets.queryStarts, maxSequences + 1);
    this.#blockTables = new Int32Array(
      buffer,
      offsets.blockTables,
      maxSequences * maxBlocksPerSequence,
    );
    this.#anglePositions = new Int32Array(buffer, offsets.anglePositions, maxTokens);
    this.#items = offsets.items.map((items) => {
      return { ...items, words: new Uint32Array(buffer, items.at, items.length), count: 0 };
    });
  }

  /** @param skipped sequences that {@linkcode itemsFor} leaves out. */
  write(step: PackedStep, skipped: readonly number[]): void {
    const numSequences = step.sequences.length;
    const { maxBlocksPerSequence } = step;
    this.#counts[0] = numSequences;
    this.#counts[1] = maxBlocksPerSequence;
    const { positions, anglePositions = positions, numTokens } = step;
    this.#positions.set(positions.subarray(0, numTokens));
    this.#anglePositions.set(anglePositions.subarray(0, numTokens));
    this.#queryStarts.set(step.queryStarts.subarray(0, numSequences + 1));
    for (let s = 0; s < numSequences; s++) {
      const first = s * maxBlocksPerSequence;
      const numUsed = Math.ceil(step.kvLengths[s]! / this.#blockSize);
      this.#blockTables.set(step.blockTables.subarray(first, first + numUsed), first);
    }
    for (const items of this.#items) {
      items.count = writeItems(items.words, step, { ...items.options, skipped });
    }
  }

  /** Address and number of this step's items for layers with these heads. */
  itemsFor({ heads, kvHeads }: AttentionShape): { readonly at: number; readonly count: number } {
    return this.#items.find((items) => isFor(items, heads, kvHeads))!;
  }
}
