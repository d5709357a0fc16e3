/**
 * `kv_write` and `paged_attention` in WebAssembly SIMD, for all attention layers of a model: the CPU backend's own.
 *
 * @module
 */
import { checkShape } from "./attention_shape.ts";
import {
  type CacheRead,
  fitsMemory,
  type SimdInputs,
  SimdLayers,
  TILE,
} from "./attention_simd_layers.ts";
import type { SimdLayer, SimdLimits } from "./attention_simd_memory.ts";
import { checkRotary } from "./kv_write.ts";
import type { PackedStep } from "./step_plan.ts";

export type { SimdLayer, SimdLimits } from "./attention_simd_memory.ts";

/**
 * With sums in f32, what `ReferenceKvWrite` and `ReferenceAttention` do in float64; see `wasm/`.
 *
 * Caches, tables, inputs and outputs lie in linear memories, which are freed with it. A linear memory holds 4 GiB at most,
 * so layers are divided among as few of them as can hold the largest cache. The cache's layout is this kernel's own: keys
 * lie sixteen side by side.
 */
export class SimdAttention {
  readonly #limits: SimdLimits;
  /** The layers in each memory. */
  readonly #parts: readonly (readonly SimdLayer[])[];
  readonly #memories: SimdLayers[];
  /** The memory of each layer, and its index there. */
  readonly #places: readonly { readonly memory: number; readonly layer: number }[];
  #numBlocks: number;

  /**
   * @throws {RangeError} when the kernels cannot run a layer's shape.
   * @throws {StartupError} when there is not enough memory.
   */
  constructor(layers: readonly SimdLayer[], limits: SimdLimits) {
    for (const layer of layers) checkLayer(layer);
    this.#limits = limits;
    this.#numBlocks = limits.numBlocks;
    this.#parts = divideLayers(layers, limits);
    this.#places = this.#parts.flatMap((part, memory) =>
      part.map((_, layer) => ({ memory, layer }))
    );
    this.#memories = this.#parts.map((part) => new SimdLayers(part, limits));
  }

  /** How many memories the layers are divided among. */
  get numMemories(): number {
    return this.#memories.length;
  }

  /**
   * Changes the number of blocks of the cache; what the blocks hold that stay is kept. A larger cache takes memory only
   * as it is written to; for a smaller one everything is moved to smaller memories.
   *
   * @returns false if there is no memory for it; the cache is as it was then.
   */
  resize(numBlocks: number): boolean {
    if (numBlocks >= this.#numBlocks) {
      if (!this.#memories.every((memory) => memory.grow(numBlocks))) return false;
    } else {
      this.#memories.forEach((memory, i) => {
        const smaller = new SimdLayers(this.#parts[i]!, { ...this.#limits, numBlocks });
        smaller.copyBlocks(memory, numBlocks);
        memory.dispose();
        this.#memories[i] = smaller;
      });
    }
    this.#numBlocks = numBlocks;
    return true;
  }

  /**
   * Takes the layout of the next step; its arrays may change afterwards.
   *
   * @param skipped sequences whose keys and values are written, and which {@linkcode attend} leaves out.
   */
  begin(step: PackedStep, skipped: readonly number[] = []): void {
    for (const memory of this.#memories) memory.begin(step, skipped);
  }

  inputs(layer: number): SimdInputs {
    const at = this.#places[layer]!;
    return this.#memories[at.memory]!.inputs(at.layer);
  }

  /**
   * Writes the keys and values of the layer's inputs into its cache, and attends. The inputs are consumed.
   *
   * @returns f32 `[numTokens, heads * headSize]`, valid until the layer runs again.
   */
  run(layer: number): Float32Array {
    this.write(layer);
    return this.attend(layer);
  }

  /** Writes the keys and values of the layer's inputs into its cache, and rotates its queries in place. */
  write(layer: number): void {
    const at = this.#places[layer]!;
    this.#memories[at.memory]!.write(at.layer);
  }

  /** Attends with the layer's queries to what its cache holds; as {@linkcode run} otherwise. */
  attend(layer: number): Float32Array {
    const at = this.#places[layer]!;
    return this.#memories[at.memory]!.attend(at.layer);
  }

  /**
   * The keys of a head, from consecutive blocks.
   *
   * @param head of keys.
   * @returns f32 `[numKeys, headSize]`, the caller's.
   */
  keysOf(
    layer: number,
    head: number,
    range: { readonly firstBlock: number; readonly numKeys: number },
  ): Float32Array {
    const at = this.#places[layer]!;
    return this.#memories[at.memory]!.keysOf(at.layer, head, range);
  }

  /** Copies keys and values of a sequence. */
  readCache(layer: number, read: CacheRead): void {
    const at = this.#places[layer]!;
    this.#memories[at.memory]!.readCache(at.layer, read);
  }

  /** Makes the threads drop the memories, which the engine frees once they are unreferenced. */
  dispose(): void {
    for (const memory of this.#memories) memory.dispose();
  }
}

/** @throws {RangeError} when the kernels cannot run its shape. */
function checkLayer({ shape, write }: SimdLayer): void {
  checkShape(shape);
  checkRotary(write.rotary, shape.headSize);
  if (shape.blockSize >= TILE && Number.isInteger(Math.log2(shape.blockSize))) return;
  throw new RangeError(
    `A KV block of ${shape.blockSize} tokens: the CPU's attention wants a power of two, at least ${TILE}.`,
  );
}

/**
 * Divides layers into as few parts as can each grow in one memory to the largest cache; one layer each where even that
 * is not enough.
 */
function divideLayers(layers: readonly SimdLayer[], limits: SimdLimits): SimdLayer[][] {
  for (let numParts = 1; numParts < layers.length; numParts++) {
    const size = Math.ceil(layers.length / numParts);
    const parts = inPartsOf(size, layers);
    if (parts.every((part) => fitsMemory(part, limits))) return parts;
  }
  return inPartsOf(1, layers);
}

function inPartsOf(size: number, layers: readonly SimdLayer[]): SimdLayer[][] {
  return Array.from(
    { length: Math.ceil(layers.length / size) },
    (_, i) => layers.slice(i * size, (i + 1) * size),
  );
}
