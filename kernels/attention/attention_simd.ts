/**
 * `kv_write` and `paged_attention` in WebAssembly SIMD, for all attention layers of a model. This is the CPU backend's
 * implementation.
 *
 * @module
 */
import { checkShape, choosePool } from "./attention_shape.ts";
import {
  type CacheRead,
  fitsMemory,
  type SimdInputs,
  SimdLayers,
  TILE,
} from "./attention_simd_layers.ts";
import type { SimdLayer, SimdLimits } from "./attention_simd_memory.ts";
import { checkRotary } from "./kv_write.ts";
import { type PackedStep, stepInPool } from "./step_plan.ts";

export type { SimdLayer, SimdLimits } from "./attention_simd_memory.ts";

/** Layers of one pool whose caches share one memory. */
interface Part {
  readonly pool: number;
  readonly layers: readonly SimdLayer[];
  readonly limits: SimdLimits;
  memory: SimdLayers;
  numBlocks: number;
}

interface LayerPosition {
  readonly part: Part;
  readonly index: number;
}

/**
 * Computes in f32 what `ReferenceKvWrite` and `ReferenceAttention` compute in float64; see `wasm/`.
 *
 * Caches, tables, inputs and outputs lie in linear memories, which are freed with the object. A linear memory holds at
 * most 4 GiB, so the layers of a pool are divided among as few memories as its largest cache needs. The cache layout
 * is private to this kernel: sixteen keys lie side by side.
 */
export class SimdAttention {
  readonly #parts: readonly Part[];
  /** For each layer: which part it belongs to, and its index in that part. */
  readonly #positions: readonly LayerPosition[];

  /**
   * @throws {RangeError} when the kernels cannot run a layer's shape.
   * @throws {StartupError} when there is not enough memory.
   */
  constructor(layers: readonly SimdLayer[], limits: SimdLimits) {
    for (const layer of layers) checkLayer(layer);
    const positions: LayerPosition[] = [];
    this.#parts = [limits, ...limits.windows ?? []].flatMap(({ numBlocks, maxBlocks }, pool) => {
      const ofPool = { ...limits, numBlocks, maxBlocks };
      const numbered = layers.map((layer, number) => ({ layer, number }))
        .filter(({ layer }) => choosePool(layer.attend.window, limits.windows) === pool);
      return divideLayers(numbered.map(({ layer }) => layer), ofPool).map((divided): Part => {
        const memory = new SimdLayers(divided, ofPool);
        const part = { pool, layers: divided, limits: ofPool, memory, numBlocks };
        numbered.splice(0, divided.length).forEach(({ number }, index) => {
          positions[number] = { part, index };
        });
        return part;
      });
    });
    this.#positions = positions;
  }

  /** Number of memories that the layers are divided among. */
  get numMemories(): number {
    return this.#parts.length;
  }

  /**
   * Changes the number of blocks of a pool; the remaining blocks keep their content. A larger cache takes physical
   * memory only as it is written to. To shrink the cache, everything is moved to smaller memories.
   *
   * @param pool 0 is the main pool; the other pools are for layers with a window.
   * @returns false if there is no memory for it; the cache is then unchanged.
   */
  resize(numBlocks: number, pool = 0): boolean {
    const parts = this.#parts.filter((part) => part.pool === pool);
    for (const part of parts) {
      if (numBlocks >= part.numBlocks) {
        if (!part.memory.grow(numBlocks)) return false;
        continue;
      }
      const smaller = new SimdLayers(part.layers, { ...part.limits, numBlocks });
      smaller.copyBlocks(part.memory, numBlocks);
      part.memory.dispose();
      part.memory = smaller;
    }
    for (const part of parts) part.numBlocks = numBlocks;
    return true;
  }

  /**
   * Sets the layout of the next step. The step's arrays may change afterwards.
   *
   * @param skipped sequences whose keys and values are written, but which {@linkcode attend} leaves out.
   */
  begin(step: PackedStep, skipped: readonly number[] = []): void {
    for (const { memory, pool } of this.#parts) memory.begin(stepInPool(step, pool), skipped);
  }

  inputs(layer: number): SimdInputs {
    const { part, index } = this.#positions[layer]!;
    return part.memory.inputs(index);
  }

  /**
   * Writes the keys and values of the layer's inputs into its cache, and attends. The inputs are changed.
   *
   * @returns f32 `[numTokens, heads * headSize]`, valid until the layer runs again.
   */
  run(layer: number): Float32Array {
    this.write(layer);
    return this.attend(layer);
  }

  /** Writes the keys and values of the layer's inputs into its cache, and rotates its queries in place. */
  write(layer: number): void {
    const { part, index } = this.#positions[layer]!;
    part.memory.write(index);
  }

  /** Computes attention with the layer's queries over the content of its cache; see {@linkcode run}. */
  attend(layer: number): Float32Array {
    const { part, index } = this.#positions[layer]!;
    return part.memory.attend(index);
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
    range: { readonly firstBlock: number; readonly numKeys: number },
  ): Float32Array {
    const { part, index } = this.#positions[layer]!;
    return part.memory.getKeys(index, head, range);
  }

  /** Copies the keys and values of a sequence for one head. */
  readCache(layer: number, read: CacheRead): void {
    const { part, index } = this.#positions[layer]!;
    part.memory.readCache(index, read);
  }

  /** Makes the threads drop the memories. The JavaScript engine frees them when they are unreferenced. */
  dispose(): void {
    for (const { memory } of this.#parts) memory.dispose();
  }
}

/** @throws {RangeError} when the kernels cannot run the layer's shape. */
function checkLayer({ shape, write }: SimdLayer): void {
  checkShape(shape);
  checkRotary(write.rotary, shape.headSize);
  if (shape.blockSize >= TILE && Number.isInteger(Math.log2(shape.blockSize))) return;
  throw new RangeError(
    `A KV block of ${shape.blockSize} tokens: the CPU's attention takes a power of two, at least ${TILE}.`,
  );
}

/**
 * Divides layers into as few parts as possible, each of which fits one memory even with the largest cache. If a single
 * layer does not fit, each part is one layer.
 */
function divideLayers(layers: readonly SimdLayer[], limits: SimdLimits): SimdLayer[][] {
  if (layers.length === 0) return [];
  for (let numParts = 1; numParts < layers.length; numParts++) {
    const size = Math.ceil(layers.length / numParts);
    const parts = splitLayers(size, layers);
    if (parts.every((part) => fitsMemory(part, limits))) return parts;
  }
  return splitLayers(1, layers);
}

function splitLayers(size: number, layers: readonly SimdLayer[]): SimdLayer[][] {
  return Array.from(
    { length: Math.ceil(layers.length / size) },
    (_, i) => layers.slice(i * size, (i + 1) * size),
  );
}
