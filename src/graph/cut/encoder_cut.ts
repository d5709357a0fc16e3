/**
 * What a cut encoder graph consists of: the segments ONNX Runtime runs, and the attention that runs between them.
 *
 * Texts lie one after the other on one axis of tokens (batch 1), without padding: run segment 0, then every attention
 * of level `k` within each text, then segment `k + 1`, and so on to the last.
 *
 * @module
 */
import type { AttentionNode, Segment, TensorPort } from "../graph_cut.ts";
import type { Node } from "../file/proto.ts";

/**
 * One attention: every token of a text attends to every other. The fields of {@linkcode AttentionNode} mean the same;
 * positions were added before.
 */
export interface EncoderNode extends Omit<AttentionNode, "rotary" | "localWindow" | "sinks"> {
  /** Keys a query sees on either side of its own; absent: all of its text. */
  readonly window?: number | undefined;
}

/** Nodes that reduce the rows of all tokens to the wanted result; they may mix tokens. */
export interface EncoderTail {
  readonly nodes: readonly Node[];
  /** Inputs of those nodes besides the rows. */
  readonly input: TensorPort;
  readonly output: TensorPort;
}

/** The output of the last segment: rows of some tokens, by index, or a tail's result. */
export type EncoderAnswer =
  /** `input` is int64 `["rows"]`; the output begins with those rows, `width` elements of float32 each. */
  | { readonly kind: "rows"; readonly input: TensorPort }
  | { readonly kind: "tail"; readonly input: TensorPort };

/** An encoder graph cut at its attentions. */
export interface EncoderCut {
  readonly segments: readonly Segment[];
  readonly attentions: readonly EncoderNode[];
  /** Token ids, `[1, tokens]`. */
  readonly tokens: TensorPort;
  /** Position of each token in its text, if a segment needs it. */
  readonly positions?: TensorPort | undefined;
  /** A token that positions skip: its position is that of the token before it. */
  readonly uncountedId?: number | undefined;
  /** Token type ids, if a segment needs them. */
  readonly types?: TensorPort | undefined;
  readonly answer: EncoderAnswer;
  readonly output: TensorPort;
  /** Positions in the graph's tables, if it has such. */
  readonly maxPositions?: number | undefined;
}
