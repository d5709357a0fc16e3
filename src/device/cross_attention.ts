/**
 * Cross-attention: keys and values are computed once per encoder input, and every token of the text attends to all of
 * them.
 *
 * @module
 */
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import type { Elem } from "../gpu/kernel.ts";
import type { AttentionNode } from "../graph/graph_cut.ts";
import type { Tensor } from "./ort/ort.ts";
import { type KernelParams, toKernelParams } from "./attention_params.ts";
import type { CrossAlignment, CrossAlignmentOptions } from "./cross_alignment.ts";

/** Its parameters. */
export interface CrossAttentionOptions {
  /** The decoder's cross-attentions, in order; their k and v are not used. */
  readonly nodes: readonly AttentionNode[];
  /** Most positions of the encoder's output for one input. */
  readonly numPositions: number;
  /** Most inputs whose keys and values are kept at once. */
  readonly numSlots: number;
  /** Most inputs kept in one call. */
  readonly maxInputs: number;
  /** Most tokens in one step. */
  readonly maxTokens: number;
}

/** Keys and values, `[inputs, positions, kvHeads, headDim]`, of the node's dtype; at most `numPositions`. */
export interface CrossTensors {
  readonly keys: Tensor;
  readonly values: Tensor;
}

export interface CrossAttention {
  /** Keeps the keys and values of one node, input `i` in slot `slots[i]`; at most `maxInputs`. */
  keep(layer: number, tensors: CrossTensors, slots: readonly number[]): void;
  /** Takes the slot of each token of the next step. */
  begin(slots: readonly number[]): void;
  /**
   * Attends at node `layer`, and writes the result to `output`.
   *
   * @param tensors by name, the one that the node names as q.
   * @param output destination of the result; allocated if absent.
   */
  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor;
  /** The aligner of texts with the positions. The caller owns it. */
  openAlignment(options: CrossAlignmentOptions): CrossAlignment;
  dispose(): void;
}

/** Positions per block of the cache; the CPU's kernels require a power of two. */
export const POSITIONS_PER_BLOCK = 16;

/** Blocks that an input's keys take. */
export function blocksPerSlot(numPositions: number): number {
  return Math.ceil(numPositions / POSITIONS_PER_BLOCK);
}

/** A node in the kernels' terms. Its keys and values come as rows of their own. */
export function toCrossParams(node: AttentionNode, elem: Elem): KernelParams {
  const params = toKernelParams(node, { blockSize: POSITIONS_PER_BLOCK, elem });
  const rows = { stride: node.kvHeads * node.headDim, offset: 0 };
  return { ...params, write: { ...params.write, k: rows, v: rows } };
}

/** The step that writes `numPositions` positions of each input from `first` on, as the kernels take it. */
export function stepOfPositions(
  slots: readonly number[],
  { first, numPositions, numBlocks }: {
    readonly first: number;
    readonly numPositions: number;
    readonly numBlocks: number;
  },
): PackedStep {
  const numTokens = slots.length * numPositions;
  return {
    sequences: slots,
    numTokens,
    positions: Int32Array.from({ length: numTokens }, (_, token) => first + token % numPositions),
    queryStarts: Int32Array.from({ length: slots.length + 1 }, (_, s) => s * numPositions),
    kvLengths: new Int32Array(slots.length).fill(first + numPositions),
    blockTables: Int32Array.from(
      { length: slots.length * numBlocks },
      (_, i) => slots[Math.floor(i / numBlocks)]! * numBlocks + i % numBlocks,
    ),
    maxBlocksPerSequence: numBlocks,
  };
}

/**
 * The step of tokens that see all positions: each is a sequence of its own, at the last position.
 *
 * @param slots of each token.
 * @param lengths positions of each slot.
 */
export function stepOfTokens(
  slots: readonly number[],
  { lengths, numBlocks }: { readonly lengths: Int32Array; readonly numBlocks: number },
): PackedStep {
  return {
    ...stepOfPositions(slots, { first: 0, numPositions: 1, numBlocks }),
    positions: Int32Array.from(slots, (slot) => lengths[slot]! - 1),
    kvLengths: Int32Array.from(slots, (slot) => lengths[slot]!),
  };
}
