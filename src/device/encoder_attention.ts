/**
 * Attention within encoders and to their output.
 *
 * Packed attention is the attention of a cut encoder, within each text of a packed batch. In cross-attention, keys and
 * values are computed once per encoder input, and every token of the text attends to all of them. The queries of
 * cross-attention also align texts with the encoder's output.
 *
 * @module
 */
import type {
  PackedBounds,
  PackedLimits,
  PackedParams,
} from "../../kernels/attention/packed_attention.ts";
import type { Elem } from "../gpu/kernel.ts";
import type { AttentionNode, EncoderNode } from "../graph/graph_cut.ts";
import type { Tensor } from "./ort/ort.ts";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import { type KernelParams, requireEqualHeads, toKernelParams, toRowLayout } from "./attention.ts";

/** The parameters of a packed attention. */
export interface PackedAttentionOptions extends PackedLimits {
  readonly nodes: readonly EncoderNode[];
}

/** Packed attention, one call per node and batch. */
export interface PackedAttention {
  /** Sets the bounds of the texts in the next batch. */
  begin(bounds: PackedBounds): void;
  /**
   * Runs node `layer`, and writes the result to `output`.
   *
   * @param tensors by name, including the node's q, k and v.
   * @param output destination of the result; allocated if absent.
   */
  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor;
  dispose(): void;
}

/**
 * Converts an encoder's attention node to the kernel's parameters.
 *
 * @param elem the element type that the kernel reads and writes.
 * @throws {RangeError} when keys and values have heads of different sizes.
 */
export function toPackedParams(node: EncoderNode, elem: Elem): PackedParams {
  const { heads, kvHeads, headDim, scale, softcap = 0, window = 0 } = node;
  requireEqualHeads(node);
  return {
    shape: { heads, kvHeads, headSize: headDim, elem },
    q: toRowLayout(node.q),
    k: toRowLayout(node.k),
    v: toRowLayout(node.v),
    scale,
    softcap,
    window,
  };
}

/** Parameters of cross-attention. */
export interface CrossAttentionOptions {
  /** The decoder's cross-attention nodes, in order. Their `k` and `v` are not used. */
  readonly nodes: readonly AttentionNode[];
  /** Maximum number of positions in the encoder's output for one input. */
  readonly numPositions: number;
  /** Maximum number of inputs whose keys and values are cached at once. */
  readonly numSlots: number;
  /** Maximum number of inputs that are added in one call. */
  readonly maxInputs: number;
  /** Maximum number of tokens in one step. */
  readonly maxTokens: number;
}

/**
 * Keys and values, `[inputs, positions, kvHeads, headDim]`, in the node's dtype, with at most `numPositions` positions.
 */
export interface CrossTensors {
  readonly keys: Tensor;
  readonly values: Tensor;
}

export interface CrossAttention {
  /** Caches a node's keys and values for at most `maxInputs` inputs. Input `i` goes to slot `slots[i]`. */
  keep(layer: number, tensors: CrossTensors, slots: readonly number[]): void;
  /** Sets the slot of each token of the next step. */
  begin(slots: readonly number[]): void;
  /**
   * Runs node `layer`, and writes the result to `output`.
   *
   * @param tensors by name, including the node's q.
   * @param output destination of the result; allocated if absent.
   */
  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor;
  /** Opens the alignment of texts with the positions. The caller owns it. */
  openAlignment(options: CrossAlignmentOptions): CrossAlignment;
  dispose(): void;
}

/** Positions per block of the cache; the CPU's kernels require a power of two. */
export const POSITIONS_PER_BLOCK = 16;

/** Number of blocks that an input's keys take. */
export function blocksPerSlot(numPositions: number): number {
  return Math.ceil(numPositions / POSITIONS_PER_BLOCK);
}

/** Converts a node to the kernels' parameters. Keys and values are in tensors of their own. */
export function toCrossParams(node: AttentionNode, elem: Elem): KernelParams {
  const params = toKernelParams(node, { blockSize: POSITIONS_PER_BLOCK, elem });
  const rows = { stride: node.kvHeads * node.headDim, offset: 0 };
  return { ...params, write: { ...params.write, k: rows, v: rows } };
}

/** The step in which the kernels write `numPositions` positions of each input, beginning at `first`. */
export function makePositionStep(
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
 * The step of tokens that attend to all positions: each token is a sequence of its own, at the last position.
 *
 * @param slots the slot of each token.
 * @param lengths number of positions in each slot.
 */
export function makeTokenStep(
  slots: readonly number[],
  { lengths, numBlocks }: { readonly lengths: Int32Array; readonly numBlocks: number },
): PackedStep {
  return {
    ...makePositionStep(slots, { first: 0, numPositions: 1, numBlocks }),
    positions: Int32Array.from(slots, (slot) => lengths[slot]! - 1),
    kvLengths: Int32Array.from(slots, (slot) => lengths[slot]!),
  };
}

/** Heads of one cross-attention node. */
export interface NodeHeads {
  /** Index of the node among the cross-attention nodes. */
  readonly layer: number;
  /** Indices of the heads; at least one. */
  readonly heads: readonly number[];
}

/** Parameters of an alignment. */
export interface CrossAlignmentOptions {
  /** Nodes with alignment heads: at least one, and each layer once. */
  readonly nodes: readonly NodeHeads[];
  /** Maximum number of tokens of a text. */
  readonly maxTokens: number;
}

/** A text whose queries have been collected. */
export interface TakenText {
  /** Slot of the keys. */
  readonly slot: number;
  readonly numTokens: number;
  /** Number of leading positions of the encoder's output that the text may be aligned with. */
  readonly numPositions: number;
}

/**
 * Aligns texts with an encoder's output by the attention of some decoder heads, one text at a time. The queries of a
 * text are collected step by step, and then compared with the cached keys. All memory is allocated when the alignment
 * is opened.
 */
export interface CrossAlignment {
  /**
   * Collects queries of cross-attention node `layer`, if it is one of the alignment's nodes.
   *
   * @param queries of some tokens of a text, `[1, tokens, stride]`, from a session of the backend.
   * @param firstToken index, in the text, of the first of these tokens.
   */
  take(layer: number, queries: Tensor, firstToken: number): void;
  /**
   * Aligns the text that was collected; `kernels/alignment/alignment.ts` has the formula.
   *
   * @returns f32 `[numTokens, numPositions]`, valid until the next call.
   */
  align(text: TakenText): Tensor;
  dispose(): void;
}
