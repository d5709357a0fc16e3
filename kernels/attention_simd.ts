/**
 * `kv_write` and `paged_attention` in WebAssembly SIMD, for all attention layers of a model: the CPU backend's own.
 *
 * @module
 */
import { type AttentionExports, instantiateAttention, scratchBytes } from "./attention_module.ts";
import { type AttentionShape, checkShape } from "./attention_shape.ts";
import {
  Arena,
  placeLayers,
  placeStep,
  type SimdLayer,
  type SimdLimits,
  StepWriter,
} from "./attention_simd_memory.ts";
import { type KernelJob, KernelThreads, STEP_POLLS } from "./kernel_threads.ts";
import { checkRotary } from "./kv_write.ts";
import type { PackedStep } from "./step_plan.ts";

export type { SimdLayer, SimdLimits } from "./attention_simd_memory.ts";

/** Inputs of a layer in a step, with room for `maxTokens`. The next layer overwrites them. */
interface SimdInputs {
  /** f32 `[maxTokens, stride]`, in the layout of the layer's `KvWriteParams`. */
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

/** Keys stored side by side, as in `wasm/layout.ts`. */
const TILE = 16;
/** Keys that are read at a time: those of a head stay in the processor's cache until they are copied. */
const PIECE_KEYS = 256;

interface PlacedLayer {
  /** Address of its `Site`. */
  readonly site: number;
  readonly inputs: SimdInputs;
  /** f32 `[maxTokens, heads * headSize]`. */
  readonly out: Float32Array;
  readonly outWidth: number;
  readonly shape: AttentionShape;
  /** f32 `[blocks, kvHeads, blockSize, headSize]`. */
  readonly vCache: Float32Array;
}

/**
 * With sums in f32, what `ReferenceKvWrite` and `ReferenceAttention` do in float64; see `wasm/`.
 *
 * Caches, tables, inputs and outputs lie in one linear memory, which is allocated when this is made and freed with it. The
 * cache's layout is this kernel's own: keys lie sixteen side by side.
 */
export class SimdAttention {
  readonly #memory: WebAssembly.Memory;
  readonly #exports: AttentionExports;
  readonly #threads: KernelThreads;
  readonly #layers: readonly PlacedLayer[];
  /** Address of the step. */
  readonly #step: number;
  readonly #steps: StepWriter;
  readonly #scratch: Pick<KernelJob, "scratch" | "scratchBytes">;
  /** Addresses of the blocks of a piece of keys, and of the keys as rows. */
  readonly #read: { readonly table: number; readonly keys: number };
  #numTokens = 0;
  /** Number of pairs of a query and a key that it may see. */
  #numPairs = 0;

  /**
   * @throws {RangeError} when the kernels cannot run a layer's shape.
   * @throws {StartupError} when there is not enough memory.
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
    const step = placeStep(arena, limits, layers);
    this.#threads = limits.threads ?? new KernelThreads(1);
    const perThread = scratchBytes(Math.max(0, ...layers.map(({ shape }) => shape.headSize)));
    this.#scratch = {
      scratch: arena.reserve(perThread * this.#threads.numThreads / 4),
      scratchBytes: perThread,
    };
    this.#read = {
      table: arena.reserve(PIECE_KEYS / TILE),
      keys: arena.reserve(
        Math.max(
          0,
          ...layers.map(({ shape: { blockSize, headSize } }) =>
            Math.max(PIECE_KEYS, blockSize) * headSize
          ),
        ),
      ),
    };
    const memory = arena.allocate({
      what: "The KV cache and its tables",
      setting: "kvCacheMb",
      hasLargePages: limits.hasLargePages,
    });
    this.#memory = memory;
    this.#exports = instantiateAttention(memory);
    const floats = (at: number, length: number) => new Float32Array(memory.buffer, at, length);
    this.#layers = layers.map(({ shape, write }, i) => {
      const { site, q, k, v, out, vCache } = layouts[i]!;
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
        vCache: floats(vCache, cacheLength),
      };
    });
    this.#step = step.step;
    this.#steps = new StepWriter(memory, step, limits);
  }

  /**
   * Takes the layout of the next step; its arrays may change afterwards.
   *
   * @param skipped sequences whose keys and values are written, and which {@linkcode attend} leaves out.
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
    this.#exports.kvWrite(this.#layers[layer]!.site, this.#step);
  }

  /** Attends with the layer's queries to what its cache holds; as {@linkcode run} otherwise. */
  attend(layer: number): Float32Array {
    const { site, out, outWidth, shape } = this.#layers[layer]!;
    const items = this.#steps.itemsFor(shape);
    this.#threads.run({
      kernel: "pagedAttention",
      memory: this.#memory,
      exports: this.#exports,
      site,
      step: this.#step,
      items: items.at,
      numWorks: items.count,
      ...this.#scratch,
      flops: this.#numPairs * outWidth * 4,
      polls: STEP_POLLS,
    });
    return out.subarray(0, this.#numTokens * outWidth);
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
    { firstBlock, numKeys }: { readonly firstBlock: number; readonly numKeys: number },
  ): Float32Array {
    const { shape: { blockSize, headSize } } = this.#layers[layer]!;
    const keys = new Float32Array(numKeys * headSize);
    const numBlocks = Math.ceil(numKeys / blockSize);
    const blocks = Int32Array.from({ length: numBlocks }, (_, i) => firstBlock + i);
    this.#readKeys(layer, { firstHead: head, endHead: head + 1, blocks, numKeys, into: keys });
    return keys;
  }

  /**
   * Copies keys and values of a sequence.
   *
   * @param read.blocks that hold them; `read.keys` and `read.values` are f32 `[kvHeads, numKeys, headSize]`.
   */
  readCache(
    layer: number,
    { blocks, numKeys, keys, values }: {
      readonly blocks: Int32Array;
      readonly numKeys: number;
      readonly keys: Float32Array;
      readonly values: Float32Array;
    },
  ): void {
    const { vCache, shape: { kvHeads, blockSize, headSize } } = this.#layers[layer]!;
    this.#readKeys(layer, { firstHead: 0, endHead: kvHeads, blocks, numKeys, into: keys });
    for (let head = 0; head < kvHeads; head++) {
      for (let key = 0; key < numKeys; key += blockSize) {
        const at = (blocks[key / blockSize]! * kvHeads + head) * blockSize * headSize;
        const length = Math.min(blockSize, numKeys - key) * headSize;
        values.set(vCache.subarray(at, at + length), (head * numKeys + key) * headSize);
      }
    }
  }

  /** Copies keys of some heads to `into`, `[heads, numKeys, headSize]`. */
  #readKeys(
    layer: number,
    { firstHead, endHead, blocks, numKeys, into }: {
      readonly firstHead: number;
      readonly endHead: number;
      readonly blocks: Int32Array;
      readonly numKeys: number;
      readonly into: Float32Array;
    },
  ): void {
    const { site, shape: { blockSize, headSize } } = this.#layers[layer]!;
    const { buffer } = this.#memory;
    const { table, keys } = this.#read;
    const pieceKeys = Math.max(PIECE_KEYS, blockSize);
    for (let firstKey = 0; firstKey < numKeys; firstKey += pieceKeys) {
      const count = Math.min(pieceKeys, numKeys - firstKey);
      const piece = blocks.subarray(firstKey / blockSize, (firstKey + pieceKeys) / blockSize);
      new Int32Array(buffer, table, piece.length).set(piece);
      const read = new Float32Array(buffer, keys, count * headSize);
      for (let head = firstHead; head < endHead; head++) {
        this.#exports.readKeys(site, table, head, Math.ceil(count / TILE), keys);
        into.set(read, ((head - firstHead) * numKeys + firstKey) * headSize);
      }
    }
  }

  /** Makes the threads drop the memory, which the engine frees once it is unreferenced. */
  dispose(): void {
    this.#threads.release(this.#memory);
  }
}
