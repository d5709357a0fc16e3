/**
 * Cross-attention on the CPU, with the SIMD kernels.
 *
 * @module
 */
import { SimdAttention } from "../../../kernels/attention/attention_simd.ts";
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import type { AttentionNode } from "../../graph/graph_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import {
  blocksPerSlot,
  type CrossAttention,
  type CrossAttentionOptions,
  type CrossTensors,
  stepOfPositions,
  stepOfTokens,
  toCrossParams,
} from "../cross_attention.ts";
import type { KernelParams } from "../attention_params.ts";
import { CpuCrossAlignment } from "./cross_alignment.ts";
import type { CrossAlignment, CrossAlignmentOptions } from "../cross_alignment.ts";
import { copyElements, makeTensor } from "./tensors.ts";

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
        kernels.begin(stepOfPositions([slot], { first, numPositions, numBlocks }));
        kernels.write(layer);
      }
    });
  }

  begin(slots: readonly number[]): void {
    this.#kernels!.begin(
      stepOfTokens(slots, { lengths: this.#lengths, numBlocks: this.#numBlocks }),
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
