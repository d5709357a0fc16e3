/**
 * What cut graphs consist of: the segments that ONNX Runtime or Hearth's kernels run, and the attentions between them.
 * Tensor names are those of the original graph and unique over the whole cut.
 *
 * @module
 */
import type { TensorType } from "./file/dtype.ts";
import { listRead, type ModelProto, type Node, type Tensor, withGraph } from "./file/proto.ts";
import { storedBytes, type StoredTensor } from "./file/stored_tensor.ts";
import type { Mixture } from "./experts/mixture.ts";
import type { Convolution, LinearAttention } from "./states/state.ts";

export type { Convolution, LinearAttention, Mixture, TensorType };

/** A size known at load, the tokens packed in this step, or the rows whose logits are wanted. */
type Dim = number | "tokens" | "rows";

/** A tensor that enters or leaves a segment. */
export interface TensorPort {
  readonly name: string;
  readonly dtype: TensorType;
  readonly shape: readonly Dim[];
  /** Whether all consumers of an int64 input run on the GPU. */
  readonly isIndex?: boolean | undefined;
}

/** One segment of the graph between attention levels, a complete model of its own. */
export interface Segment {
  readonly index: number;
  readonly model: ModelProto;
  readonly inputs: readonly TensorPort[];
  readonly outputs: readonly TensorPort[];
}

/**
 * Rows of heads inside a crossing tensor, token-major: element `d` of head `h` of token `t` lies at
 * `t * tokenStride + offset + h * headDim + d`. A tensor with packed q, k and v is named by all three.
 */
export interface HeadRows {
  readonly tensor: string;
  /** Elements from one token to the next. */
  readonly tokenStride: number;
  /** Elements before the first head. */
  readonly offset: number;
}

/** Rotary position embedding that the attention is to apply to q and k, by the token's position in its sequence. */
export interface Rotary {
  /** `[positions, dim / 2]`; nodes that share a table name the same tensor. */
  readonly cos: StoredTensor;
  readonly sin: StoredTensor;
  /** How many leading elements of a head are rotated. */
  readonly dim: number;
  /** Pairs are `(2i, 2i + 1)` when true and `(i, i + dim / 2)` when false. */
  readonly interleaved: boolean;
  /** For tokens with several positions: which of them rotates each pair. */
  readonly sections?: readonly number[] | undefined;
}

/**
 * One attention of the decoder: causal softmax attention of the step's tokens over their sequence's cached keys and
 * values and their own. Score of query `i` for key `j`, both counted from the sequence's start:
 * `s = scale * q·k`, then `softcap * tanh(s / softcap)` where there is one; visible when `i - localWindow < j <= i`.
 */
export interface AttentionNode {
  /** Index among the attentions, in the order they run: the layer of the KV cache. */
  readonly layer: number;
  /** The segment that must have run before; the next one may need this node's output. */
  readonly afterSegment: number;
  /** Name of the graph's node, for messages. */
  readonly name: string;
  readonly q: HeadRows;
  readonly k: HeadRows;
  readonly v: HeadRows;
  /** `[1, tokens, heads * vHeadDim]`, the input of a later segment. */
  readonly output: TensorPort;
  readonly heads: number;
  /** Query head `h` reads key-value head `floor(h * kvHeads / heads)`. */
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vHeadDim: number;
  /** The factor itself, never 0 for "default". */
  readonly scale: number;
  /** Dtype of q, k, v and output. */
  readonly dtype: "float32" | "float16";
  readonly rotary?: Rotary | undefined;
  /** Keys a query sees, its own included; absent: all. */
  readonly localWindow?: number | undefined;
  readonly softcap?: number | undefined;
  /** `[heads]`: per head one more logit in the softmax's denominator, after the softcap; it has no value. */
  readonly sinks?: StoredTensor | undefined;
}

/**
 * A recurrence of the decoder, over a state of fixed size that each sequence has: it goes through the step's tokens of
 * each sequence in order, from what their predecessors left, or from zeros.
 */
export interface RecurrenceNode {
  /** Index among nodes of this kind, in the order they run. */
  readonly index: number;
  /** The segment that must have run before; the next one may need this node's output. */
  readonly afterSegment: number;
  /** Name of the graph's node, for messages. */
  readonly name: string;
  readonly recurrence: Convolution | LinearAttention;
  /** A convolution's input; a linear attention's q, k and v, then its decay and rates in f32 if it has them. */
  readonly operands: readonly HeadRows[];
  /** A row per token, the input of a later segment. */
  readonly output: TensorPort;
  /** Dtype of the output and of all operands except decay and rates. */
  readonly dtype: "float32" | "float16";
}

/** A mixture of experts of the decoder: a router chooses some for each token. */
export interface ExpertsNode {
  /** Index among nodes of this kind, in the order they run. */
  readonly index: number;
  /** The segment that must have run before; the next one may need this node's output. */
  readonly afterSegment: number;
  /** Name of the graph's node, for messages. */
  readonly name: string;
  readonly mixture: Mixture;
  /** The tokens' rows, and the router's logits. */
  readonly operands: readonly [x: HeadRows, logits: HeadRows];
  /** A row per token, the input of a later segment. */
  readonly output: TensorPort;
  /** Dtype of operands, output, and of the constants before they are widened. */
  readonly dtype: "float32" | "float16";
}

/**
 * A decoder graph cut at its attentions.
 *
 * One step packs the tokens of all its sequences on one axis (batch 1): run segment 0, then for every attention node of
 * level `k` attend over the paged cache, then run segment `k + 1`, and so on to the last, which computes the wanted
 * rows only. A step that wants no row is done once the last node's keys and values are cached.
 */
export interface GraphCut {
  readonly segments: readonly Segment[];
  readonly attentions: readonly AttentionNode[];
  readonly states: readonly RecurrenceNode[];
  readonly experts: readonly ExpertsNode[];
  /** What the first segment reads: token ids `[1, tokens]` or embeddings `[1, tokens, hidden]`. */
  readonly tokens: TensorPort & { readonly kind: "ids" | "embeddings" };
  /**
   * The per-layer embeddings of each token, `[1, tokens, layers, width]`; absent when no segment reads them. They come
   * from the same source as the embeddings.
   */
  readonly perLayer?: TensorPort | undefined;
  /** The table lookup that makes embeddings of token ids, if taken out of the first segment. */
  readonly embedding?: ModelProto | undefined;
  /**
   * Position of each token in its sequence; `[1, tokens]`, or `[3, 1, tokens]` for sectioned rotary. Absent when no
   * segment needs it.
   */
  readonly positions?: TensorPort | undefined;
  /** int64 `["rows"]`: the packed tokens whose rows the last segment computes. */
  readonly rows: TensorPort;
  /**
   * `width` elements per wanted row, one row after the other, `[1, rows, width]` as a rule: logits over the
   * vocabulary, or hidden states in a graph without a projection.
   */
  readonly output: TensorPort & { readonly width: number };
  /** Positions in the graph's tables (rotary, position embedding, mask buffers), if it has such. */
  readonly maxPositions?: number | undefined;
  /**
   * Tokens of the longest sequence whose tokens read the rows of rotary tables that their positions name. In a longer one
   * all tokens read this many rows further on (LongRoPE).
   */
  readonly longFrom?: number | undefined;
  /** Remarks for `inspect` and the log. */
  readonly notes: readonly string[];
}

/** A segment with other nodes, and those of the constants that they read. */
export function rebuildSegment(
  segment: Segment,
  nodes: readonly Node[],
  constants: readonly Tensor[],
): Segment {
  const initializers = listRead(nodes, constants);
  return { ...segment, model: withGraph(segment.model, { nodes, initializers }) };
}

/** A cut with another graph in each segment. */
export function mapModels(cut: GraphCut, change: (model: ModelProto) => ModelProto): GraphCut {
  const segments = cut.segments.map((own) => ({ ...own, model: change(own.model) }));
  return { ...cut, segments };
}

/** Bytes of a segment's constants. */
export function countWeightBytes({ model }: Pick<Segment, "model">): number {
  return model.graph.initializers.reduce((sum, tensor) => sum + storedBytes(tensor), 0);
}

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

/**
 * An encoder graph cut at its attentions.
 *
 * Texts lie one after the other on one axis of tokens (batch 1), without padding: run segment 0, then every attention
 * of level `k` within each text, then segment `k + 1`, and so on to the last.
 */
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
