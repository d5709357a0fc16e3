/**
 * How texts lie along what an encoder made, by where some heads of a decoder look: of a text's tokens the queries are
 * gathered, step by step, and then compared with the keys that are kept.
 *
 * @module
 */
import type { Tensor } from "../onnx/ort.ts";

/** Heads of one attention to the encoder. */
export interface SiteHeads {
  /** The attention's place among those to the encoder. */
  readonly layer: number;
  /** At least one. */
  readonly heads: readonly number[];
}

/** What it is made for. */
export interface CrossAlignmentOptions {
  /** At least one, each layer once. */
  readonly sites: readonly SiteHeads[];
  /** Most tokens of a text. */
  readonly maxTokens: number;
}

/** A text whose queries have been taken. */
export interface TakenText {
  /** Where its keys are kept. */
  readonly slot: number;
  readonly numTokens: number;
  /** Of the encoder's places, how many from the first on the text may lie along. */
  readonly numPositions: number;
}

/** One text at a time; all memory is allocated when it is made. */
export interface CrossAlignment {
  /**
   * Takes queries at attention `layer`; those of attentions that have no part in it are left alone.
   *
   * @param queries of some tokens of a text, `[1, tokens, stride]`, as a session of the backend gave them.
   * @param firstToken the first one's place in the text.
   */
  take(layer: number, queries: Tensor, firstToken: number): void;
  /**
   * Aligns the text that was taken; `kernels/alignment_reference.ts` has the formula.
   *
   * @returns f32 `[numTokens, numPositions]`, good until the next call.
   */
  align(text: TakenText): Tensor;
  dispose(): void;
}
