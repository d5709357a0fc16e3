/**
 * `kv_write` and `paged_attention` in WebAssembly SIMD, for all attention layers of a model: the CPU backend's own.
 *
 * @module
 */
import { type AttentionShape, checkShape } from "./attention_shape.ts";
import {
  Arena,
  placeLayers,
  placeStep,
  type SimdLayer,
  type SimdLimits,
  StepWriter,
} from "./attention_simd_memory.ts";
// As text, since deno compile embeds no module that is imported by its source.
import binary from "./attention_simd.wasm.base64" with { type: "text" };
import { checkRotary } from "./kv_write.ts";
import type { PackedStep } from "./step_plan.ts";

export type { SimdLayer, SimdLimits } from "./attention_simd_memory.ts";

/** Where a layer's tensors of a step go; room for `maxTokens`. What one layer's hold is lost with the next layer. */
export interface SimdInputs {
  /** f32 `[maxTokens, stride]`, in the layout of the layer's `KvWriteParams`. */
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

const module = new WebAssembly.Module(Uint8Array.fromBase64(binary));

/** Keys that lie side by side, as in `wasm/layout.ts`. */
const TILE = 16;

interface Exports {
  kvWrite(site: number, step: number): void;
  pagedAttention(site: number, step: number): void;
}

interface PlacedLayer {
  /** Address of its `Site`. */
  readonly site: number;
  readonly inputs: SimdInputs;
  /** f32 `[maxTokens, heads * headSize]`. */
  readonly out: Float32Array;
  readonly outWidth: number;
  readonly shape: AttentionShape;
  /** f32 `[blocks, kvHeads, blockSize / TILE, headSize, TILE]`. */
  readonly kCache: Float32Array;
}

/**
 * With sums in f32, what `ReferenceKvWrite` and `ReferenceAttention` do in float64; see `wasm/`.
 *
 * Caches, tables, inputs and outputs lie in one linear memory, which is allocated when this is made and freed with it. The
 * cache's layout is this kernel's own: keys lie sixteen side by side.
 */
export class SimdAttention {
  readonly #exports: Exports;
  readonly #layers: readonly PlacedLayer[];
  /** Address of the step. */
  readonly #step: number;
  readonly #steps: StepWriter;
  #numTokens = 0;

  /**
   * @throws {RangeError} when the kernels cannot run a layer's shape.
   * @throws {StartupError} when the memory cannot be had.
   */
  constructor(layers: readonly SimdLayer[], limits: SimdLimits) {
    for (const { shape, write } of layers) {
      checkShape(shape);
      checkRotary(write.rotary, shape.headSize);
      if (shape.blockSize < TILE || !Number.isInteger(Math.log2(shape.blockSize))) {
        throw new RangeError(
          `A KV block of ${shape.blockSize} tokens: the CPU's attention wants a power of two, at least ${TILE}.`,
        );
      }
    }
    const arena = new Arena();
    const layouts = placeLayers(arena, layers, limits);
    const step = placeStep(arena, limits);
    const memory = arena.allocate();

    this.#exports = new WebAssembly.Instance(module, { env: { memory } })
      .exports as unknown as Exports;
    const floats = (at: number, length: number) => new Float32Array(memory.buffer, at, length);
    this.#layers = layers.map(({ shape, write }, i) => {
      const { site, q, k, v, out, kCache } = layouts[i]!;
      const rows = (at: number, width: number) => floats(at, limits.maxTokens * width);
      const outWidth = shape.heads * shape.headSize;
      const inputs = {
        q: rows(q, write.q.stride),
        k: rows(k, write.k.stride),
        v: rows(v, write.v.stride),
      };
      const { kvHeads, blockSize, headSize } = shape;
      const cacheLength = limits.numBlocks * kvHeads * blockSize * headSize;
      return {
        ...{ site, inputs, outWidth, shape },
        out: rows(out, outWidth),
        kCache: floats(kCache, cacheLength),
      };
    });
    this.#step = step.step;
    this.#steps = new StepWriter(memory, step, limits);
  }

  /** Takes the layout of the next step; its arrays may change afterwards. */
  begin(step: PackedStep): void {
    this.#steps.write(step);
    this.#numTokens = step.numTokens;
  }

  inputs(layer: number): SimdInputs {
    return this.#layers[layer]!.inputs;
  }

  /**
   * Puts the keys and values of the layer's inputs into its cache, and attends. The inputs are consumed.
   *
   * @returns f32 `[numTokens, heads * headSize]`, valid until the layer runs again.
   */
  run(layer: number): Float32Array {
    this.write(layer);
    return this.attend(layer);
  }

  /** Puts the keys and values of the layer's inputs into its cache, and rotates its queries in place. */
  write(layer: number): void {
    this.#exports.kvWrite(this.#layers[layer]!.site, this.#step);
  }

  /** Attends with the layer's queries to what its cache holds; as {@linkcode run} otherwise. */
  attend(layer: number): Float32Array {
    const { site, out, outWidth } = this.#layers[layer]!;
    this.#exports.pagedAttention(site, this.#step);
    return out.subarray(0, this.#numTokens * outWidth);
  }

  /**
   * The keys of a head that lie in blocks one after the other.
   *
   * @param head of keys.
   * @returns f32 `[numKeys, headSize]`, the caller's.
   */
  keysOf(
    layer: number,
    head: number,
    { firstBlock, numKeys }: { readonly firstBlock: number; readonly numKeys: number },
  ): Float32Array {
    const { kCache, shape: { kvHeads, blockSize, headSize } } = this.#layers[layer]!;
    const keys = new Float32Array(numKeys * headSize);
    for (let key = 0; key < numKeys; key++) {
      const block = firstBlock + Math.floor(key / blockSize);
      const tile = Math.floor((key % blockSize) / TILE);
      const at = ((block * kvHeads + head) * (blockSize / TILE) + tile) * headSize * TILE +
        key % TILE;
      for (let d = 0; d < headSize; d++) keys[key * headSize + d] = kCache[at + d * TILE]!;
    }
    return keys;
  }
}
