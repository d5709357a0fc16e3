/**
 * `packed_attention` in WebAssembly SIMD, for all attention layers of a model. This is the CPU backend's
 * implementation.
 *
 * @module
 */
import { maxItemWords, writeItems } from "./attention_items.ts";
import { TILE } from "./attention_simd_layers.ts";
import { Arena, MAX_PAGES } from "../cpu/arena.ts";
import { instantiateKernels, type KernelExports, scratchBytes } from "../cpu/kernel_module.ts";
import { checkHeads, type HeadShape } from "./attention_shape.ts";
import { KernelThreads } from "../cpu/kernel_threads.ts";
import {
  checkLayouts,
  numQueryRows,
  type PackedBounds,
  type PackedParams,
} from "./packed_attention.ts";

/** Inputs of a layer. The next layer overwrites them. */
interface PackedInputs {
  /** f32 `[query rows, q.stride]`. */
  readonly q: Float32Array;
  /** f32 `[key rows, k.stride]`. */
  readonly k: Float32Array;
  /** f32 `[key rows, v.stride]`. */
  readonly v: Float32Array;
}

/** The parameters of a layer. */
interface SimdPackedLayer extends PackedParams {
  /** Whether queries, keys and values come as one tensor; `q`, `k` and `v` of the inputs are then the same array. */
  readonly isPacked: boolean;
}

/** Rows that share one copy of the keys' tiles: enough to make copying cheap, few enough to occupy many threads. */
const ITEM_ROWS = 240;

/** Addresses of one batch in the linear memory. `wasm/layout.ts` is the counterpart. */
interface Offsets {
  readonly q: number;
  readonly k: number;
  readonly v: number;
  readonly out: number;
  readonly node: number;
  readonly batch: number;
  /** Offsets of work items, by the heads of their layers. */
  readonly items: ReadonlyMap<string, ItemOffsets>;
  readonly scratch: number;
  readonly scratchBytes: number;
}

interface ItemOffsets {
  readonly at: number;
  readonly count: number;
}

/**
 * Computes in f32 what `attendPacked` computes in float64; see `wasm/`. Its memory grows to the needs of the largest
 * batch.
 */
export class SimdPackedAttention {
  readonly #layers: readonly SimdPackedLayer[];
  readonly #memory = new WebAssembly.Memory({ initial: 1, maximum: MAX_PAGES, shared: true });
  readonly #exports: KernelExports;
  readonly #threads: KernelThreads;
  #offsets: Offsets | undefined;
  #numRows = 0;
  #numKeyRows = 0;

  /** Number of pairs of a query and a key. */
  #numPairs = 0;

  /** @throws {RangeError} when the kernel cannot run a layer. */
  constructor(layers: readonly SimdPackedLayer[], threads = new KernelThreads(1)) {
    for (const layer of layers) {
      checkHeads(layer.shape);
      checkLayouts(layer);
    }
    this.#layers = layers;
    this.#threads = threads;
    this.#exports = instantiateKernels(this.#memory);
  }

  /**
   * Sets the bounds of the next batch.
   *
   * @throws {RangeError} when there is no memory for it.
   */
  begin(bounds: PackedBounds): void {
    const { numSequences, queryStarts, keyStarts, keyLengths } = bounds;
    this.#numRows = numQueryRows(bounds);
    this.#numKeyRows = 0;
    this.#numPairs = 0;
    let maxKeys = 0;
    for (let s = 0; s < numSequences; s++) {
      maxKeys = Math.max(maxKeys, keyLengths[s]!);
      this.#numPairs += (queryStarts[s + 1]! - queryStarts[s]!) * keyLengths[s]!;
      this.#numKeyRows = Math.max(this.#numKeyRows, keyStarts[s]! + keyLengths[s]!);
    }
    const widest = (measureWidth: (layer: SimdPackedLayer) => number) =>
      Math.max(0, ...this.#layers.map(measureWidth));

    const arena = new Arena();
    const node = arena.reserve(20);
    // The words are in the order of `PackedBatch`'s fields.
    const batch = arena.place(Uint32Array.of(
      numSequences,
      arena.place(queryStarts.subarray(0, numSequences + 1)),
      arena.place(keyStarts.subarray(0, numSequences)),
      arena.place(keyLengths.subarray(0, numSequences)),
    ));
    const items = new Map<string, ItemOffsets>();
    for (const { shape } of this.#layers) {
      if (items.has(formatHeads(shape))) continue;
      const { heads, kvHeads } = shape;
      const options = { kvHeads, group: heads / kvHeads, rowsPerItem: ITEM_ROWS };
      const most = { maxTokens: this.#numRows, maxSequences: numSequences };
      const words = new Uint32Array(maxItemWords(most, options));
      const sequences = { sequences: { length: numSequences }, queryStarts };
      const count = writeItems(words, sequences, options);
      items.set(formatHeads(shape), { count, at: arena.place(words) });
    }
    const headSize = widest(({ shape }) => shape.headSize);
    // Scratch memory for a block of rows, and for the tiles of one sequence and head.
    const perThread = scratchBytes(headSize) + Math.ceil(maxKeys / TILE) * TILE * headSize * 4;
    const separate = (layer: SimdPackedLayer, width: number) => layer.isPacked ? 0 : width;
    this.#offsets = {
      node,
      batch,
      items,
      scratch: arena.reserve(perThread * this.#threads.numThreads / 4),
      scratchBytes: perThread,
      q: arena.reserve(this.#numRows * widest(({ q }) => q.stride)),
      k: arena.reserve(this.#numKeyRows * widest((layer) => separate(layer, layer.k.stride))),
      v: arena.reserve(this.#numKeyRows * widest((layer) => separate(layer, layer.v.stride))),
      out: arena.reserve(this.#numRows * widest(({ shape }) => shape.heads * shape.headSize)),
    };
    arena.grow(this.#memory);
  }

  /** A layer's inputs for this batch. The arrays are new for each batch, since the memory may have grown. */
  inputs(layer: number): PackedInputs {
    const { isPacked, q, k, v } = this.#layers[layer]!;
    const offsets = this.#offsets!;
    const queries = this.#floats(offsets.q, this.#numRows * q.stride);
    if (isPacked) return { q: queries, k: queries, v: queries };
    return {
      q: queries,
      k: this.#floats(offsets.k, this.#numKeyRows * k.stride),
      v: this.#floats(offsets.v, this.#numKeyRows * v.stride),
    };
  }

  /** @returns f32 `[query rows, heads * headSize]`, valid until the next layer runs. */
  run(layer: number): Float32Array {
    const { shape, q, k, v, scale, softcap, window, isPacked } = this.#layers[layer]!;
    const { heads, kvHeads, headSize } = shape;
    const offsets = this.#offsets!;
    // The words are in the order of `PackedNode`'s fields.
    new Uint32Array(this.#memory.buffer, offsets.node, 16).set([
      heads,
      kvHeads,
      headSize,
      ...[offsets.q, q.stride, q.offset],
      ...[isPacked ? offsets.q : offsets.k, k.stride, k.offset],
      ...[isPacked ? offsets.q : offsets.v, v.stride, v.offset],
      offsets.out,
      0,
      0,
      window,
    ]);
    this.#floats(offsets.node + 13 * 4, 2).set([scale, softcap]);
    const items = offsets.items.get(formatHeads(shape))!;
    this.#threads.run({
      kernel: "packedAttention",
      memory: this.#memory,
      exports: this.#exports,
      node: offsets.node,
      step: offsets.batch,
      items: items.at,
      numParts: items.count,
      scratch: offsets.scratch,
      scratchBytes: offsets.scratchBytes,
      flops: this.#numPairs * heads * headSize * 4,
    });
    return this.#floats(offsets.out, this.#numRows * heads * headSize);
  }

  /** Makes the threads drop the memory. The JavaScript engine frees it when it is unreferenced. */
  dispose(): void {
    this.#threads.release(this.#memory);
  }

  #floats(at: number, length: number): Float32Array {
    return new Float32Array(this.#memory.buffer, at, length);
  }
}

/** A key for the items of a layer: layers with equal keys share them. */
function formatHeads({ heads, kvHeads }: HeadShape): string {
  return `${heads} on ${kvHeads}`;
}
