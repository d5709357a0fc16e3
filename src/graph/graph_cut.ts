/**
 * The result of cutting a graph: segments, which ONNX Runtime or Hearth's kernels run, and the attention, recurrence
 * and experts nodes between them. Tensors keep their names from the original graph; a name is unique within a cut.
 *
 * @module
 */
import { countStoredBytes, type StoredTensor, type TensorType } from "./file/tensor.ts";
import { listRead, type ModelProto, type Node, type Tensor, withGraph } from "./file/proto.ts";
import type { Mixture } from "./experts/mixture.ts";

export type { Mixture, TensorType };

/** A size known at load, the number of tokens packed in this step, or the number of rows whose logits are wanted. */
type Dim = number | "tokens" | "rows";

/** A tensor that enters or leaves a segment. */
export interface TensorPort {
  readonly name: string;
  readonly dtype: TensorType;
  readonly shape: readonly Dim[];
  /** Whether all consumers of an int64 input run on the GPU. */
  readonly isIndex?: boolean | undefined;
}

/** The number of elements of a tensor for each token, text or row: the product of the sizes that are numbers. */
export function countPerRow({ shape }: TensorPort): number {
  return shape.reduce<number>(
    (product, dim) => typeof dim === "number" ? product * dim : product,
    1,
  );
}

/** A segment of the graph between kernel nodes, as a complete model. */
export interface Segment {
  readonly index: number;
  readonly model: ModelProto;
  readonly inputs: readonly TensorPort[];
  readonly outputs: readonly TensorPort[];
}

/**
 * The heads of each token in a tensor that a kernel node reads: element `d` of head `h` of token `t` is at `t *
 * tokenStride + offset + h * headDim + d`. If one tensor holds q, k and v, all three refer to it.
 */
export interface HeadRows {
  readonly tensor: string;
  /** Elements from one token to the next. */
  readonly tokenStride: number;
  /** Elements before the first head. */
  readonly offset: number;
}

/** Rotary position embedding that the attention node applies to q and k, by the token's position in its sequence. */
export interface Rotary {
  /** `[positions, dim / 2]`. Nodes that share a table refer to the same tensor. */
  readonly cos: StoredTensor;
  readonly sin: StoredTensor;
  /** Number of leading elements of a head that are rotated. */
  readonly dim: number;
  /** Pairs are `(2i, 2i + 1)` when true and `(i, i + dim / 2)` when false. */
  readonly interleaved: boolean;
  /** If tokens have several positions: the index of the position that rotates each pair. */
  readonly sections?: readonly number[] | undefined;
}

/**
 * An attention of the decoder. Each token of a step attends to the tokens of its sequence up to itself, cached ones
 * included. The score of query `i` for key `j`, both counted from the start of the sequence, is `scale * q·k`. If there
 * is a softcap, a score `s` becomes `softcap * tanh(s / softcap)`. If there are slopes, `slope * (j - i)` is then
 * added. Key `j` is visible if `i - localWindow < j <= i`.
 */
export interface AttentionNode {
  /** Index among the attention nodes, in the order they run. It is also the layer of the KV cache. */
  readonly layer: number;
  /** The segment that runs before this node. The next segment may read this node's output. */
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
  /** The factor itself; 0 does not stand for a default. */
  readonly scale: number;
  /** Dtype of q, k, v and output. */
  readonly dtype: "float32" | "float16";
  readonly rotary?: Rotary | undefined;
  /** Number of keys that a query sees, including its own; all if absent. */
  readonly localWindow?: number | undefined;
  readonly softcap?: number | undefined;
  /** `[heads]`: an extra logit for each head, in the softmax's denominator only. The softcap does not apply to it. */
  readonly sinks?: StoredTensor | undefined;
  /** The slope of each head, for a bias by distance (ALiBi). */
  readonly slopes?: readonly number[] | undefined;
}

/**
 * A depthwise causal convolution along the tokens: with `x` a channel's inputs and `w` its weights,
 * `y[t] = activation(bias + sum_k w[k] x[t - taps + 1 + k])`.
 */
export interface Convolution {
  readonly kind: "convolution";
  readonly channels: number;
  readonly taps: number;
  /** `[channels, 1, taps]`. */
  readonly weights: StoredTensor;
  /** `[channels]`. */
  readonly bias?: StoredTensor | undefined;
  readonly activation?: "silu" | undefined;
}

/**
 * Linear attention: each head has a matrix `S`, `[keyDim, valueDim]`. For each token, `S` is multiplied by the decay.
 * Then `k ⊗ v` is added, or `k ⊗ beta (v - Sᵀ k)` with the delta rule, where `beta` is the rate. The output is `scale *
 * Sᵀ q`.
 *
 * @see {@link https://arxiv.org/abs/2412.06464 | Gated Delta Networks}
 * @see {@link https://arxiv.org/abs/2405.21060 | Mamba-2: k is B, v is x, q is C}
 */
export interface LinearAttention {
  readonly kind: "linear_attention";
  /** Heads of values and states. */
  readonly heads: number;
  /** Head `h` reads query head `floor(h * queryHeads / heads)`. */
  readonly queryHeads: number;
  /** Head `h` reads key head `floor(h * keyHeads / heads)`. */
  readonly keyHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly scale: number;
  /** Whether decays are given as factors or as their logarithms; absent if there is no decay. */
  readonly decay?: "factor" | "logarithm" | undefined;
  /** Whether each row of `S` has a decay of its own. */
  readonly decaysRows: boolean;
  /** Number of rates per token for the delta rule: one for all heads, or one for each; 0 without the delta rule. */
  readonly rates: number;
}

/**
 * A recurrence of the decoder. Each sequence has a state of fixed size, which is zero at first and which its tokens
 * update in order.
 */
export interface RecurrenceNode {
  /** The segment that runs before this node. The next segment may read this node's output. */
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

/** A mixture of experts of the decoder: a router chooses some experts for each token. */
export interface ExpertsNode {
  /** The segment that runs before this node. The next segment may read this node's output. */
  readonly afterSegment: number;
  /** Name of the graph's node, for messages. */
  readonly name: string;
  readonly mixture: Mixture;
  /** The tokens' rows, and the router's logits. */
  readonly operands: readonly [x: HeadRows, logits: HeadRows];
  /** A row per token, the input of a later segment. */
  readonly output: TensorPort;
  /** Dtype of the operands and of the output. */
  readonly dtype: "float32" | "float16";
}

/**
 * A decoder graph cut at its attention, recurrence and experts nodes.
 *
 * A step packs the tokens of all its sequences on one axis, with a batch of 1. It runs each segment, and then the nodes
 * whose `afterSegment` is that segment. The last segment computes only the wanted rows. A step that wants no rows ends
 * once the keys and values of the last attention node are cached.
 */
export interface GraphCut {
  readonly segments: readonly Segment[];
  readonly attentions: readonly AttentionNode[];
  readonly states: readonly RecurrenceNode[];
  readonly experts: readonly ExpertsNode[];
  /** The input of the first segment: token ids `[1, tokens]` or embeddings `[1, tokens, hidden]`. */
  readonly tokens: TensorPort & { readonly kind: "ids" | "embeddings" };
  /**
   * The per-layer embeddings of each token, `[1, tokens, layers, width]`; absent when no segment reads them. They come
   * from the same source as the embeddings.
   */
  readonly perLayer?: TensorPort | undefined;
  /** A graph that looks up the embeddings of token ids, if the lookup was taken out of the first segment. */
  readonly embedding?: ModelProto | undefined;
  /**
   * Position of each token in its sequence; `[1, tokens]`, or `[3, 1, tokens]` for sectioned rotary. Absent when no
   * segment needs it.
   */
  readonly positions?: TensorPort | undefined;
  /** int64 `["rows"]`: indices of the packed tokens whose rows the last segment computes. */
  readonly rows: TensorPort;
  /**
   * Logits over the vocabulary, or hidden states if the graph has no vocabulary projection: `width` elements for each
   * wanted row, one row after the other, usually as `[1, rows, width]`.
   */
  readonly output: TensorPort & { readonly width: number };
  /** Number of positions in the graph's tables (rotary, position embeddings, masks), if it has any. */
  readonly maxPositions?: number | undefined;
  /**
   * LongRoPE: length of the longest sequence that uses the rotary angles for short sequences. In longer sequences each
   * token reads the row of the rotary tables at its position plus this number.
   */
  readonly longFrom?: number | undefined;
  /** Remarks for `inspect` and the log. */
  readonly notes: readonly string[];
}

/** Replaces the nodes of a segment, and keeps only the constants that the new nodes read. */
export function rebuildSegment(
  segment: Segment,
  nodes: readonly Node[],
  constants: readonly Tensor[],
): Segment {
  const initializers = listRead(nodes, constants);
  return { ...segment, model: withGraph(segment.model, { nodes, initializers }) };
}

/** Changes the model of each segment. */
export function mapModels(cut: GraphCut, change: (model: ModelProto) => ModelProto): GraphCut {
  const segments = cut.segments.map((own) => ({ ...own, model: change(own.model) }));
  return { ...cut, segments };
}

/** Bytes of a segment's constants. */
export function countWeightBytes({ model }: Pick<Segment, "model">): number {
  return model.graph.initializers.reduce((sum, tensor) => sum + countStoredBytes(tensor), 0);
}

/**
 * An attention of an encoder: each token attends to the tokens of its text, on both sides. The fields mean the same as
 * in {@linkcode AttentionNode}. The node applies no rotation; the segment before it does.
 */
export interface EncoderNode
  extends Omit<AttentionNode, "rotary" | "localWindow" | "sinks" | "slopes"> {
  /** Number of keys that a query sees on either side of its own; all of its text if absent. */
  readonly window?: number | undefined;
}

/** Nodes that reduce the rows of all tokens to the wanted result. They may mix tokens. */
export interface EncoderTail {
  readonly nodes: readonly Node[];
  /** The input that these nodes read in addition to the rows. */
  readonly input: TensorPort;
  readonly output: TensorPort;
}

/** The result of the last segment: the rows of some tokens, or the result of a tail. */
export type EncoderAnswer =
  /** `input` is int64 `["rows"]`: the indices of the tokens whose rows are computed. */
  | { readonly kind: "rows"; readonly input: TensorPort }
  | { readonly kind: "tail"; readonly input: TensorPort };

/**
 * An encoder graph cut at its attentions.
 *
 * Several texts are packed on one axis of tokens, with a batch of 1 and without padding. The segments run in order. The
 * attention nodes after a segment attend within each text.
 */
export interface EncoderCut {
  readonly segments: readonly Segment[];
  readonly attentions: readonly EncoderNode[];
  /** Token ids, `[1, tokens]`. */
  readonly tokens: TensorPort;
  /** Position of each token in its text, if a segment needs it. */
  readonly positions?: TensorPort | undefined;
  /** Id of the token that positions do not count: its position is that of the token before it. */
  readonly uncountedId?: number | undefined;
  /** Token type ids, if a segment needs them. */
  readonly types?: TensorPort | undefined;
  readonly answer: EncoderAnswer;
  readonly output: TensorPort;
  /** Number of positions in the graph's tables, if it has any. */
  readonly maxPositions?: number | undefined;
}
