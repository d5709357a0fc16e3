/**
 * Aligns the tokens of a text with an encoder's output, using the cross-attention weights of some of the decoder's
 * heads.
 *
 * `alignment_reference.ts` has the formula.
 *
 * @module
 */
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import meanSource from "./alignment_mean.wgsl" with { type: "text" };
import normalizeSource from "./alignment_normalize.wgsl" with { type: "text" };
import weightsSource from "./alignment_weights.wgsl" with { type: "text" };
import type { AttentionShape } from "../attention/attention_shape.ts";
import { FOUR } from "../common/elements.ts";
import type { RowLayout } from "../attention/kv_write.ts";

/** Added to the standard deviation of a key's weights, which may be 0. */
export const LEAST_DEVIATION = 1e-8;

/** One layer's contribution to an alignment. */
export interface AlignmentLayer {
  readonly shape: AttentionShape;
  /** Layout of the rows of queries. */
  readonly q: RowLayout;
  readonly scale: number;
  /** The heads whose weights are used, at least one. */
  readonly heads: readonly number[];
}

/** Limits for a text. */
interface AlignmentLimits {
  readonly maxTokens: number;
  readonly maxKeys: number;
}

/** A text to align. */
export interface AlignedText {
  readonly numTokens: number;
  /** Number of keys that tokens may be aligned with, counted from the first one in the cache. */
  readonly numKeys: number;
  /** Index of the text's first block of keys in the cache; the others follow it. */
  readonly firstBlock: number;
}

/** Buffers of one layer. */
interface AlignmentTensors {
  /** elem `[numTokens, q.stride]`. */
  readonly q: GPUBuffer;
  /** elem `[blocks, kvHeads, blockSize, headSize]`. */
  readonly kCache: GPUBuffer;
}

const WEIGHTS = {
  text: "read",
  heads: "read",
  q: "read",
  kCache: "read",
  weights: "read_write",
} as const;
const NORMALIZE = { text: "read", weights: "read_write" } as const;
const MEAN = { text: "read", heads: "read", weights: "read", alignment: "read_write" } as const;

const THREADS = 64;
const TEXT_WORDS = 3;

/** Kernels of one layer. */
interface LayerKernels {
  readonly heads: GPUBuffer;
  readonly numHeads: number;
  readonly weigh: Kernel<typeof WEIGHTS>;
}

/** Aligns texts. All memory is allocated in the constructor; it holds the weights of one layer at a time. */
export class Alignment {
  /** f32 `[numTokens, numKeys]`, after all layers are encoded. */
  readonly result: GPUBuffer;
  readonly #gpu: GpuContext;
  readonly #layers: readonly LayerKernels[];
  readonly #normalize: Kernel<typeof NORMALIZE>;
  readonly #mean: Kernel<typeof MEAN>;
  readonly #text: GPUBuffer;
  readonly #weights: GPUBuffer;

  constructor(
    gpu: GpuContext,
    layers: readonly AlignmentLayer[],
    { maxTokens, maxKeys }: AlignmentLimits,
  ) {
    const most = Math.max(...layers.map(({ heads }) => heads.length));
    const total = layers.reduce((sum, { heads }) => sum + heads.length, 0);
    this.#gpu = gpu;
    this.result = this.#allocate("result", maxTokens * maxKeys);
    this.#weights = this.#allocate("weights", most * maxTokens * maxKeys);
    this.#text = this.#allocate("text", TEXT_WORDS);
    this.#layers = layers.map((layer) => this.#openLayer(layer));
    this.#normalize = Kernel.get(gpu, {
      name: "alignment_normalize",
      source: normalizeSource,
      bindings: NORMALIZE,
      constants: { WG: THREADS, LEAST_DEVIATION },
    });
    this.#mean = Kernel.get(gpu, {
      name: "alignment_mean",
      source: meanSource,
      bindings: MEAN,
      constants: { WG: THREADS, SHARE: 1 / total },
    });
  }

  /** Uploads a text, and appends the work: three dispatches per layer. Submit it before the next call. */
  encode(
    encoder: GPUCommandEncoder,
    { numTokens, numKeys, firstBlock }: AlignedText,
    tensors: readonly AlignmentTensors[],
  ): void {
    const words = Uint32Array.of(numTokens, numKeys, firstBlock);
    this.#gpu.device.queue.writeBuffer(this.#text, 0, words);
    encoder.clearBuffer(this.result, 0, 4 * numTokens * numKeys);
    const pass = encoder.beginComputePass();
    const [text, weights, alignment] = [this.#text, this.#weights, this.result];
    const keyGroups = Math.ceil(numKeys / THREADS);
    this.#layers.forEach(({ heads, numHeads, weigh }, layer) => {
      weigh.encode(pass, { text, heads, ...tensors[layer]!, weights }, [numTokens, numHeads]);
      this.#normalize.encode(pass, { text, weights }, [keyGroups, numHeads]);
      this.#mean.encode(pass, { text, heads, weights, alignment }, [keyGroups, numTokens]);
    });
    pass.end();
  }

  /** Frees its buffers; work submitted before still runs. */
  dispose(): void {
    for (const buffer of [this.result, this.#weights, this.#text]) buffer.destroy();
    for (const { heads } of this.#layers) heads.destroy();
  }

  #openLayer({ shape, q, scale, heads }: AlignmentLayer): LayerKernels {
    const buffer = this.#allocate("heads", heads.length);
    this.#gpu.device.queue.writeBuffer(buffer, 0, Uint32Array.from(heads));
    const weigh = Kernel.get(this.#gpu, {
      name: "alignment_weights",
      source: FOUR[shape.elem] + weightsSource,
      bindings: WEIGHTS,
      constants: {
        HEAD_FOURS: shape.headSize / 4,
        KV_HEADS: shape.kvHeads,
        GROUP: shape.heads / shape.kvHeads,
        BLOCK_SIZE: shape.blockSize,
        Q_STRIDE: q.stride / 4,
        Q_OFFSET: q.offset / 4,
        SCALE: scale,
        WG: THREADS,
      },
    });
    return { heads: buffer, numHeads: heads.length, weigh };
  }

  #allocate(label: string, numWords: number): GPUBuffer {
    return createBuffer(this.#gpu, {
      label: `alignment ${label}`,
      size: 4 * numWords,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
    });
  }
}
