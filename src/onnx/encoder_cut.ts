/**
 * What a cut encoder graph consists of: the segments ONNX Runtime runs, and the attention that runs between them.
 *
 * Texts lie one after the other on one axis of tokens (batch 1), without padding: run segment 0, then every attention
 * of level `k` within each text, then segment `k + 1`, and so on to the last.
 *
 * @module
 */
import type { AttentionSite, Segment, TensorPort } from "./graph_cut.ts";
import type { Node } from "./proto.ts";

/**
 * One attention: every token of a text attends to every other. The fields of {@linkcode AttentionSite} mean the same;
 * positions were added before.
 */
export interface EncoderSite extends Omit<AttentionSite, "rotary" | "localWindow" | "sinks"> {
  /** Keys a query sees on either side of its own; absent: all of its text. */
  readonly window?: number | undefined;
}

/** Nodes that make of the rows of all tokens what is wanted of the texts; they may mix tokens. */
export interface EncoderTail {
  readonly nodes: readonly Node[];
  /** What they take besides the rows. */
  readonly input: TensorPort;
  readonly output: TensorPort;
}

/** What the last segment gives: rows of some tokens, by index, or what a tail makes of them all. */
export type EncoderAnswer =
  /** `input` is int64 `["rows"]`; the output begins with those rows, `width` elements of float32 each. */
  | { readonly kind: "rows"; readonly input: TensorPort }
  | { readonly kind: "tail"; readonly input: TensorPort };

/** An encoder graph cut at its attentions. */
export interface EncoderCut {
  readonly segments: readonly Segment[];
  readonly attentions: readonly EncoderSite[];
  /** Token ids, `[1, tokens]`. */
  readonly tokens: TensorPort;
  /** Place of each token in its text, where a segment needs it. */
  readonly positions?: TensorPort | undefined;
  /** A token that positions do not count: its own is that of the token before it. */
  readonly uncountedId?: number | undefined;
  /** Which of two texts each token belongs to, where a segment needs it. */
  readonly types?: TensorPort | undefined;
  readonly answer: EncoderAnswer;
  readonly output: TensorPort;
  /** Positions the graph's tables reach, where it has such. */
  readonly maxPositions?: number | undefined;
}

/** A cut, or in one sentence why the graph is not cut. */
export type EncoderCutResult = { readonly cut: EncoderCut } | { readonly refused: string };
