/**
 * Aligns the tokens of a text with an encoder's output, using the cross-attention weights of some of the decoder's
 * heads: `alignment` on the GPU, and its reference, which the CPU backend runs.
 *
 * Let `w[t, k]` be the softmax over the keys of `scale * q[t] · k[k]`, with mean `m[k]` and standard deviation `s[k]`
 * over the tokens. A head's share is
 *
 * `median of (w[t, j] - m[j]) / (s[j] + 1e-8) for j = k - 3 … k + 3`
 *
 * where keys beyond either end are mirrored, and the alignment is the mean of the shares of all heads. Three keys or
 * fewer are not smoothed. At keys that no token attends to, `1e-8` keeps rounding errors from being amplified.
 *
 * @see `find_alignment` in openai/whisper's `timing.py`
 * @module
 */
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import template from "./alignment.wgsl" with { type: "text" };
import type { AttentionShape } from "../attention/attention_shape.ts";
import { expand, FOUR } from "../common/wgsl.ts";
import type { RowLayout } from "../attention/kv_write.ts";

/** Added to the standard deviation of a key's weights, because the deviation may be 0. */
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
  /** Index of the text's first block of keys in the cache. The text's blocks are consecutive. */
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

/** WGSL of one of the three kernels. */
function alignmentSource(part: "IS_WEIGHTS" | "IS_NORMALIZE" | "IS_MEAN"): string {
  return expand(template, {
    ...{ IS_WEIGHTS: false, IS_NORMALIZE: false, IS_MEAN: false },
    [part]: true,
  });
}

/** Kernels of one layer. */
interface LayerKernels {
  readonly heads: GPUBuffer;
  readonly numHeads: number;
  readonly weigh: Kernel<typeof WEIGHTS>;
}

/** Aligns texts on the GPU. All memory is allocated in the constructor; layers share the memory for weights. */
export class Alignment {
  /** f32 `[numTokens, numKeys]`: the alignment of the text that was encoded last. */
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
      source: alignmentSource("IS_NORMALIZE"),
      bindings: NORMALIZE,
      constants: { WG: THREADS, LEAST_DEVIATION },
    });
    this.#mean = Kernel.get(gpu, {
      name: "alignment_mean",
      source: alignmentSource("IS_MEAN"),
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

  /** Frees the buffers. Work that has been submitted still runs. */
  dispose(): void {
    for (const buffer of [this.result, this.#weights, this.#text]) buffer.destroy();
    for (const { heads } of this.#layers) heads.destroy();
  }

  #openLayer({ shape, q, scale, heads }: AlignmentLayer): LayerKernels {
    const buffer = this.#allocate("heads", heads.length);
    this.#gpu.device.queue.writeBuffer(buffer, 0, Uint32Array.from(heads));
    const weigh = Kernel.get(this.#gpu, {
      name: "alignment_weights",
      source: FOUR[shape.elem] + alignmentSource("IS_WEIGHTS"),
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

/** The inputs for one head's share of an alignment. */
interface AlignmentHead {
  /** f32 `[numTokens, headSize]`. */
  readonly queries: Float32Array;
  /** f32 `[numKeys, headSize]`. */
  readonly keys: Float32Array;
  readonly numTokens: number;
  readonly numKeys: number;
  readonly headSize: number;
  readonly scale: number;
  /** Factor of the head in the mean: 1 / number of heads of all layers. */
  readonly share: number;
}

const REACH = 3;

/** Adds a head's share to `alignment`, f32 `[numTokens, numKeys]`, on the CPU. */
export function addAlignment(alignment: Float32Array, head: AlignmentHead): void {
  const { numTokens, numKeys, share } = head;
  const weights = weigh(head);
  normalize(weights, head);
  for (let at = 0; at < numTokens * numKeys; at += numKeys) {
    const medians = filterMedian(weights.subarray(at, at + numKeys));
    for (let key = 0; key < numKeys; key++) alignment[at + key]! += medians[key]! * share;
  }
}

function weigh(head: AlignmentHead): Float32Array {
  const { queries, keys, numTokens, numKeys, headSize, scale } = head;
  const weights = new Float32Array(numTokens * numKeys);
  for (let token = 0; token < numTokens; token++) {
    const query = queries.subarray(token * headSize, (token + 1) * headSize);
    const row = weights.subarray(token * numKeys, (token + 1) * numKeys);
    let largest = -Infinity;
    for (let key = 0, at = 0; key < numKeys; key++) {
      let score = 0;
      for (let d = 0; d < headSize; d++, at++) score += query[d]! * keys[at]!;
      row[key] = score * scale;
      largest = Math.max(largest, row[key]!);
    }
    let sum = 0;
    for (let key = 0; key < numKeys; key++) sum += row[key] = Math.exp(row[key]! - largest);
    for (let key = 0; key < numKeys; key++) row[key]! /= sum;
  }
  return weights;
}

function normalize(weights: Float32Array, { numTokens, numKeys }: AlignmentHead): void {
  const means = new Float64Array(numKeys);
  const deviations = new Float64Array(numKeys);
  const rows = Array.from(
    { length: numTokens },
    (_, token) => weights.subarray(token * numKeys, (token + 1) * numKeys),
  );
  for (const row of rows) {
    for (let key = 0; key < numKeys; key++) means[key]! += row[key]! / numTokens;
  }
  for (const row of rows) {
    for (let key = 0; key < numKeys; key++) {
      const difference = row[key]! - means[key]!;
      deviations[key]! += difference * difference / numTokens;
    }
  }
  for (let key = 0; key < numKeys; key++) {
    deviations[key] = Math.sqrt(deviations[key]!) + LEAST_DEVIATION;
  }
  for (const row of rows) {
    for (let key = 0; key < numKeys; key++) row[key] = (row[key]! - means[key]!) / deviations[key]!;
  }
}

/**
 * The median of each value and its six neighbours. The window is kept sorted: each step removes one value and inserts
 * another.
 */
function filterMedian(row: Float32Array): Float32Array {
  const { length } = row;
  if (length <= REACH) return row;
  const mirrored = new Float32Array(length + 2 * REACH);
  mirrored.set(row, REACH);
  for (let i = 1; i <= REACH; i++) {
    mirrored[REACH - i] = row[i]!;
    mirrored[REACH + length - 1 + i] = row[length - 1 - i]!;
  }
  const sorted = mirrored.slice(0, 2 * REACH + 1).sort();
  const medians = new Float32Array(length);
  medians[0] = sorted[REACH]!;
  for (let key = 1; key < length; key++) {
    const incoming = mirrored[key + 2 * REACH]!;
    let position = 0;
    while (position < 2 * REACH && sorted[position] !== mirrored[key - 1]!) position++;
    for (; position > 0 && sorted[position - 1]! > incoming; position--) {
      sorted[position] = sorted[position - 1]!;
    }
    for (; position < 2 * REACH && sorted[position + 1]! < incoming; position++) {
      sorted[position] = sorted[position + 1]!;
    }
    sorted[position] = incoming;
    medians[key] = sorted[REACH]!;
  }
  return medians;
}
