/**
 * Alignment of texts with an encoder's output by the attention of some decoder heads. The queries of a text are
 * collected step by step, and then compared with the cached keys.
 *
 * @module
 */
import type { Tensor } from "./ort/ort.ts";

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
  /** Most tokens of a text. */
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

/** Aligns one text at a time. All memory is allocated when it is opened. */
export interface CrossAlignment {
  /**
   * Collects queries of attention node `layer`; those of other nodes are ignored.
   *
   * @param queries of some tokens of a text, `[1, tokens, stride]`, from a session of the backend.
   * @param firstToken index of the first one in the text.
   */
  take(layer: number, queries: Tensor, firstToken: number): void;
  /**
   * Aligns the text that was collected; `kernels/alignment/alignment_reference.ts` has the formula.
   *
   * @returns f32 `[numTokens, numPositions]`, valid until the next call.
   */
  align(text: TakenText): Tensor;
  dispose(): void;
}
