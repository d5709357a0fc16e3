/**
 * Attention within encoders and to their output on the CPU, with the SIMD kernels.
 *
 * @module
 */
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { SimdPackedAttention } from "../../../kernels/attention/packed_attention_simd.ts";
import { numQueryRows, type PackedBounds } from "../../../kernels/attention/packed_attention.ts";
import type { AttentionNode, EncoderNode } from "../../graph/graph_cut.ts";
import { Tensor } from "../ort/ort.ts";
import {
  blocksPerSlot,
  type CrossAlignment,
  type CrossAlignmentOptions,
  type CrossAttention,
  type CrossAttentionOptions,
  type CrossTensors,
  makePositionStep,
  makeTokenStep,
  type PackedAttention,
  type PackedAttentionOptions,
  type TakenText,
  toCrossParams,
  toPackedParams,
} from "../encoder_attention.ts";
import { copyElements, copyOperands, isPacked, makeTensor } from "./tensors.ts";
import { SimdAttention } from "../../../kernels/attention/attention_simd.ts";
import type { KernelParams } from "../attention.ts";
import { addAlignment } from "../../../kernels/alignment/alignment.ts";

export class CpuPackedAttention implements PackedAttention {
  readonly #nodes: readonly EncoderNode[];
  #kernel: SimdPackedAttention | undefined;
  #numRows = 0;

  /** @throws {RangeError} when the kernel cannot run a node's shape. */
  constructor({ nodes }: PackedAttentionOptions, threads?: KernelThreads) {
    this.#nodes = nodes;
    this.#kernel = new SimdPackedAttention(
      nodes.map((node) => ({ ...toPackedParams(node, "f32"), isPacked: isPacked(node) })),
      threads,
    );
  }

  begin(bounds: PackedBounds): void {
    this.#kernel!.begin(bounds);
    this.#numRows = numQueryRows(bounds);
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>): Tensor {
    const node = this.#nodes[layer]!;
    copyOperands(node, tensors, this.#kernel!.inputs(layer));
    const dims = [1, this.#numRows, node.heads * node.vHeadDim];
    // A copy, since a graph may read it after later layers have run.
    return makeTensor(node.dtype, dims, this.#kernel!.run(layer));
  }

  /** The garbage collector frees the memory. */
  dispose(): void {
    this.#kernel?.dispose();
    this.#kernel = undefined;
  }
}

/** Positions written at a time: room for all of them would be as large as the cache itself. */
const POSITIONS_AT_ONCE = 64;

/** Allocates all its memory when it is constructed. */
export class CpuCrossAttention implements CrossAttention {
  readonly #nodes: readonly AttentionNode[];
  readonly #params: readonly KernelParams[];
  /** Number of blocks per slot. */
  readonly #numBlocks: number;
  /** Number of positions in each slot. */
  readonly #lengths: Int32Array;
  #kernels: SimdAttention | undefined;
  #numTokens = 0;

  /**
   * @throws {RangeError} when the kernels cannot run a node's shape.
   * @throws {StartupError} when there is not enough memory.
   */
  constructor(
    { nodes, numPositions, numSlots, maxTokens }: CrossAttentionOptions,
    threads?: KernelThreads,
  ) {
    this.#nodes = nodes;
    this.#params = nodes.map((node) => toCrossParams(node, "f32"));
    const maxBlocksPerSequence = blocksPerSlot(numPositions);
    this.#numBlocks = maxBlocksPerSequence;
    this.#lengths = new Int32Array(numSlots);
    this.#kernels = new SimdAttention(
      this.#params.map((params) => ({ ...params, isPacked: false })),
      {
        maxTokens: Math.max(maxTokens, POSITIONS_AT_ONCE),
        maxSequences: maxTokens,
        maxBlocksPerSequence,
        numBlocks: numSlots * maxBlocksPerSequence,
        threads,
        // A slot is filled at once, and every token reads all of it.
        hasLargePages: true,
      },
    );
  }

  keep(layer: number, { keys, values }: CrossTensors, slots: readonly number[]): void {
    const kernels = this.#kernels!;
    const { k, v } = kernels.inputs(layer);
    const length = keys.dims[1]!;
    const width = keys.size / (slots.length * length);
    const numBlocks = this.#numBlocks;
    slots.forEach((slot, input) => {
      this.#lengths[slot] = length;
      for (let first = 0; first < length; first += POSITIONS_AT_ONCE) {
        const numPositions = Math.min(POSITIONS_AT_ONCE, length - first);
        const from = (input * length + first) * width;
        copyElements(keys, k, from, from + numPositions * width);
        copyElements(values, v, from, from + numPositions * width);
        kernels.begin(makePositionStep([slot], { first, numPositions, numBlocks }));
        kernels.write(layer);
      }
    });
  }

  begin(slots: readonly number[]): void {
    this.#kernels!.begin(
      makeTokenStep(slots, { lengths: this.#lengths, numBlocks: this.#numBlocks }),
    );
    this.#numTokens = slots.length;
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>): Tensor {
    const node = this.#nodes[layer]!;
    copyElements(tensors.get(node.q.tensor)!, this.#kernels!.inputs(layer).q);
    const dims = [1, this.#numTokens, node.heads * node.vHeadDim];
    // A copy, since ONNX Runtime takes no shared memory.
    return makeTensor(node.dtype, dims, this.#kernels!.attend(layer));
  }

  openAlignment(options: CrossAlignmentOptions): CrossAlignment {
    const numBlocks = this.#numBlocks;
    const kept = this.#params.map((params, layer) => ({
      params,
      getKeys: (head: number, slot: number, numKeys: number) =>
        this.#kernels!.getKeys(layer, head, { firstBlock: slot * numBlocks, numKeys }),
    }));
    return new CpuCrossAlignment(options, kept);
  }

  /** The garbage collector frees the memory. */
  dispose(): void {
    this.#kernels?.dispose();
    this.#kernels = undefined;
  }
}

/** A cross-attention node and its cached keys. */
interface KeptNode {
  readonly params: KernelParams;
  /** Returns the first keys of a head in a slot: f32 `[numKeys, headSize]`. */
  readonly getKeys: (head: number, slot: number, numKeys: number) => Float32Array;
}

interface AlignedLayer extends KeptNode {
  readonly heads: readonly number[];
  /** Queries: f32 `[maxTokens, stride]`. */
  readonly queries: Float32Array;
}

class CpuCrossAlignment implements CrossAlignment {
  /** Layers by the index of their attention node. */
  readonly #layers: ReadonlyMap<number, AlignedLayer>;
  readonly #numHeads: number;

  /** @param kept every cross-attention node. */
  constructor({ nodes, maxTokens }: CrossAlignmentOptions, kept: readonly KeptNode[]) {
    this.#layers = new Map(nodes.map(({ layer, heads }) => {
      const node = kept[layer]!;
      const queries = new Float32Array(maxTokens * node.params.write.q.stride);
      return [layer, { ...node, heads, queries }];
    }));
    this.#numHeads = nodes.reduce((sum, { heads }) => sum + heads.length, 0);
  }

  take(layer: number, queries: Tensor, firstToken: number): void {
    const own = this.#layers.get(layer);
    if (own === undefined) return;
    const { stride } = own.params.write.q;
    copyElements(queries, own.queries.subarray(firstToken * stride), 0, queries.dims[1]! * stride);
  }

  align({ slot, numTokens, numPositions }: TakenText): Tensor {
    const alignment = new Float32Array(numTokens * numPositions);
    for (const { params, heads, queries, getKeys } of this.#layers.values()) {
      const { shape: { heads: allHeads, kvHeads, headSize }, write: { q }, attend } = params;
      for (const head of heads) {
        const own = new Float32Array(numTokens * headSize);
        for (let token = 0; token < numTokens; token++) {
          const at = token * q.stride + q.offset + head * headSize;
          own.set(queries.subarray(at, at + headSize), token * headSize);
        }
        addAlignment(alignment, {
          queries: own,
          keys: getKeys(Math.floor(head / (allHeads / kvHeads)), slot, numPositions),
          ...{ numTokens, numKeys: numPositions, headSize },
          scale: attend.scale,
          share: 1 / this.#numHeads,
        });
      }
    }
    return new Tensor("float32", alignment, [numTokens, numPositions]);
  }

  /** The garbage collector frees the memory. */
  dispose(): void {}
}
