/**
 * Alignment of texts with an encoder's output by the attention of some decoder heads: a text's queries are gathered
 * step by step, and then compared with the kept keys.
 *
 * @module
 */
import type { Tensor } from "./ort/ort.ts";

/** Heads of one attention to the encoder. */
export interface NodeHeads {
  /** The attention's index among the cross-attentions. */
  readonly layer: number;
  /** Heads, at least one. */
  readonly heads: readonly number[];
}

/** Its parameters. */
export interface CrossAlignmentOptions {
  /** Nodes, at least one, each layer once. */
  readonly nodes: readonly NodeHeads[];
  /** Most tokens of a text. */
  readonly maxTokens: number;
}

/** A text whose queries have been taken. */
export interface TakenText {
  /** The slot of its keys. */
  readonly slot: number;
  readonly numTokens: number;
  /** How many of the encoder's positions, from the first on, the text may be aligned with. */
  readonly numPositions: number;
}

/** One text at a time; all memory is allocated when it is made. */
export interface CrossAlignment {
  /**
   * Takes queries at attention `layer`; other attentions' queries are ignored.
   *
   * @param queries of some tokens of a text, `[1, tokens, stride]`, outputs of a session of the backend.
   * @param firstToken the first one's index in the text.
   */
  take(layer: number, queries: Tensor, firstToken: number): void;
  /**
   * Aligns the text that was taken; `kernels/alignment/alignment_reference.ts` has the formula.
   *
   * @returns f32 `[numTokens, numPositions]`, valid until the next call.
   */
  align(text: TakenText): Tensor;
  dispose(): void;
}
