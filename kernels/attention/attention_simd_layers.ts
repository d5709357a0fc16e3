/**
 * `kv_write` and `paged_attention` in WebAssembly SIMD, for layers whose caches share one memory.
 *
 * @module
 */
import { Arena, MAX_MEMORY_BYTES } from "../cpu/arena.ts";
import { instantiateKernels, type KernelExports, scratchBytes } from "../cpu/kernel_module.ts";
import type { AttentionShape } from "./attention_shape.ts";
import {
  countBlockBytes,
  placeLayers,
  placeStep,
  type SimdLayer,
  type SimdLimits,
  StepWriter,
} from "./attention_simd_memory.ts";
import { type KernelJob, KernelThreads, STEP_POLLS } from "../cpu/kernel_threads.ts";
import type { PackedStep } from "./step_plan.ts";

/** Inputs of a layer in a step, with space for `maxTokens`. The next layer in the same memory overwrites them. */
export interface SimdInputs {
  /** f32 `[maxTokens, stride]`, in the layout of the layer's `KvWriteParams`. */
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

/** Keys and values of a sequence to copy, and their destinations: f32 `[numKeys, headSize]` each. */
export interface CacheRead {
  readonly head: number;
  /** The blocks that hold the keys. */
  readonly blocks: Int32Array;
  readonly numKeys: number;
  readonly keys: Float32Array;
  readonly values: Float32Array;
}

/** Number of keys stored side by side, as in `wasm/layout.ts`. */
export const TILE = 16;
/** Number of keys read at a time, so that they stay in the processor's cache until they are copied. */
const CHUNK_KEYS = 256;

interface PlacedLayer {
  /** Address of the layer's `Node`. */
  readonly node: number;
  readonly inputs: SimdInputs;
  /** f32 `[maxTokens, heads * headSize]`. */
  readonly out: Float32Array;
  readonly outWidth: number;
  readonly shape: AttentionShape;
}

/** Plans the layout of a memory: everything that does not depend on the number of blocks, then the blocks. */
function planMemory(layers: readonly SimdLayer[], limits: SimdLimits) {
  const arena = new Arena();
  const step = placeStep(arena, limits, layers);
  const threads = limits.threads ?? new KernelThreads(1);
  const perThread = scratchBytes(Math.max(0, ...layers.map(({ shape }) => shape.headSize)));
  const scratch = {
    scratch: arena.reserve(perThread * threads.numThreads / 4),
    scratchBytes: perThread,
  };
  const headFloats = layers.map(({ shape: { blockSize, headSize } }) =>
    Math.max(CHUNK_KEYS, blockSize) * headSize
  );
  const read = {
    table: arena.reserve(CHUNK_KEYS / TILE),
    rows: arena.reserve(Math.max(0, ...headFloats)),
    scratch: arena.reserve(Math.max(0, ...layers.map(({ shape }) => TILE * shape.headSize))),
  };
  return { arena, step, threads, scratch, read, placed: placeLayers(arena, layers, limits) };
}

/** Whether one memory has room for these layers and for the largest number of blocks that their cache may get. */
export function fitsMemory(layers: readonly SimdLayer[], limits: SimdLimits): boolean {
  const { numBlocks, maxBlocks = numBlocks } = limits;
  const { placed } = planMemory(layers, limits);
  return placed.cache + maxBlocks * countBlockBytes(layers) <= MAX_MEMORY_BYTES;
}

export class SimdLayers {
  readonly #memory: WebAssembly.Memory;
  readonly #exports: KernelExports;
  readonly #threads: KernelThreads;
  readonly #layers: readonly PlacedLayer[];
  /** Address of the `Step` structure. */
  readonly #step: number;
  readonly #steps: StepWriter;
  readonly #scratch: Pick<KernelJob, "scratch" | "scratchBytes">;
  /** Addresses for reading: block table of a chunk of keys or values, the chunk as rows, and one tile. */
  readonly #read: { readonly table: number; readonly rows: number; readonly scratch: number };
  /** Address of the cache's blocks, and the size of a block in bytes. */
  readonly #cache: { readonly at: number; readonly blockBytes: number };
  #numTokens = 0;
  /** Number of pairs of a query and a key of its sequence, an upper bound of the work. */
  #numPairs = 0;

  /** @throws {StartupError} when there is not enough memory. */
  constructor(layers: readonly SimdLayer[], limits: SimdLimits) {
    const { arena, step, threads, scratch, read, placed } = planMemory(layers, limits);
    const { numBlocks, maxBlocks = numBlocks, hasLargePages } = limits;
    this.#threads = threads;
    this.#scratch = scratch;
    this.#read = read;
    this.#cache = { at: placed.cache, blockBytes: placed.blockBytes };
    const memory = arena.allocate({
      what: "The KV cache and its tables",
      setting: "kvCacheMb",
      hasLargePages,
      mayGrow: maxBlocks > numBlocks,
    });
    this.#memory = memory;
    this.#exports = instantiateKernels(memory);
    const rows = (at: number, width: number) =>
      new Float32Array(memory.buffer, at, limits.maxTokens * width);
    this.#layers = layers.map(({ shape, write }, i) => {
      const { node, q, k, v, out } = placed.layers[i]!;
      const outWidth = shape.heads * shape.headSize;
      const inputs = {
        q: rows(q, write.q.stride),
        k: rows(k, write.k.stride),
        v: rows(v, write.v.stride),
      };
      return { ...{ node, inputs, outWidth, shape }, out: rows(out, outWidth) };
    });
    this.#step = step.step;
    this.#steps = new StepWriter(memory, step, limits);
  }

  /**
   * Grows the cache in place.
   *
   * @returns false if there is no memory for it.
   */
  grow(numBlocks: number): boolean {
    const missing = this.#cache.at + numBlocks * this.#cache.blockBytes -
      this.#memory.buffer.byteLength;
    if (missing <= 0) return true;
    try {
      this.#memory.grow(Math.ceil(missing / 2 ** 16));
      return true;
    } catch {
      return false;
    }
  }

  /** Copies the first `numBlocks` blocks from another cache of the same layers. */
  copyBlocks(from: SimdLayers, numBlocks: number): void {
    const viewBytes = (layers: SimdLayers) =>
      new Uint8Array(
        layers.#memory.buffer,
        layers.#cache.at,
        numBlocks * layers.#cache.blockBytes,
      );
    viewBytes(this).set(viewBytes(from));
  }

  /**
   * Sets the layout of the next step. The step's arrays may change afterwards.
   *
   * @param skipped sequences whose keys and values are written, but which {@linkcode attend} leaves out.
   */
  begin(step: PackedStep, skipped: readonly number[] = []): void {
    this.#steps.write(step, skipped);
    this.#numTokens = step.numTokens;
    this.#numPairs = 0;
    for (let s = 0; s < step.sequences.length; s++) {
      if (skipped.includes(s)) continue;
      this.#numPairs += (step.queryStarts[s + 1]! - step.queryStarts[s]!) * step.kvLengths[s]!;
    }
  }

  inputs(layer: number): SimdInputs {
    return this.#layers[layer]!.inputs;
  }

  /** Writes the keys and values of the layer's inputs into its cache, and rotates its queries in place. */
  write(layer: number): void {
    this.#exports.kvWrite(this.#layers[layer]!.node, this.#step);
  }

  /**
   * Computes attention with the layer's queries over the content of its cache.
   *
   * @returns f32 `[numTokens, heads * headSize]`, valid until the layer runs again.
   */
  attend(layer: number): Float32Array {
    const { node, out, outWidth, shape } = this.#layers[layer]!;
    const items = this.#steps.itemsFor(shape);
    this.#threads.run({
      kernel: "pagedAttention",
      memory: this.#memory,
      exports: this.#exports,
      node,
      step: this.#step,
      items: items.at,
      numParts: items.count,
      ...this.#scratch,
      flops: this.#numPairs * outWidth * 4,
      polls: STEP_POLLS,
    });
    return out.subarray(0, this.#numTokens * outWidth);
  }

  /**
   * Copies the keys of a head from consecutive blocks.
   *
   * @param head index of the KV head.
   * @returns f32 `[numKeys, headSize]`, owned by the caller.
   */
  getKeys(
    layer: number,
    head: number,
    { firstBlock, numKeys }: { readonly firstBlock: number; readonly numKeys: number },
  ): Float32Array {
    const { shape: { blockSize, headSize } } = this.#layers[layer]!;
    const keys = new Float32Array(numKeys * headSize);
    const numBlocks = Math.ceil(numKeys / blockSize);
    const blocks = Int32Array.from({ length: numBlocks }, (_, i) => firstBlock + i);
    this.#readRows(layer, "keys", { head, blocks, numKeys, into: keys });
    return keys;
  }

  /** Copies the keys and values of a sequence for one head. */
  readCache(layer: number, { keys, values, ...read }: CacheRead): void {
    this.#readRows(layer, "keys", { ...read, into: keys });
    this.#readRows(layer, "values", { ...read, into: values });
  }

  /** Copies the keys or the values of a head to `into`, `[numKeys, headSize]`. */
  #readRows(
    layer: number,
    what: "keys" | "values",
    { head, blocks, numKeys, into }: {
      readonly head: number;
      readonly blocks: Int32Array;
      readonly numKeys: number;
      readonly into: Float32Array;
    },
  ): void {
    const { node, shape: { blockSize, headSize } } = this.#layers[layer]!;
    const { buffer } = this.#memory;
    const { table, rows, scratch } = this.#read;
    const chunkKeys = Math.max(CHUNK_KEYS, blockSize);
    for (let firstKey = 0; firstKey < numKeys; firstKey += chunkKeys) {
      const count = Math.min(chunkKeys, numKeys - firstKey);
      const chunk = blocks.subarray(firstKey / blockSize, (firstKey + chunkKeys) / blockSize);
      new Int32Array(buffer, table, chunk.length).set(chunk);
      const read = new Float32Array(buffer, rows, count * headSize);
      const numTiles = Math.ceil(count / TILE);
      if (what === "keys") this.#exports.readKeys(node, table, head, numTiles, rows, scratch);
      else this.#exports.readValues(node, table, head, numTiles, rows);
      into.set(read, firstKey * headSize);
    }
  }

  /** Makes the threads drop the memory. The JavaScript engine frees it when it is unreferenced. */
  dispose(): void {
    this.#threads.release(this.#memory);
  }
}
