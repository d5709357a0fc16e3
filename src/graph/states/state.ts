/**
 * The state that a decoder keeps beside keys and values, as the cut sees it, whichever nodes express it: the last
 * inputs of a causal convolution, or the matrix of a linear attention.
 *
 * @module
 */
import type { StoredTensor } from "../file/stored_tensor.ts";
import { describeNode, type GraphIndex } from "../graph_index.ts";
import type { Node, Tensor } from "../file/proto.ts";
import type { Probes } from "../probes.ts";
import { Refusal } from "../refusal.ts";

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
 * Linear attention: each head has a matrix `S`, `[keyDim, valueDim]`. For each token it is multiplied by the decay, then
 * gains `k ⊗ v`, or by the delta rule `k ⊗ beta (v - Sᵀ k)`; the output is `scale * Sᵀ q`.
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
  /** The decay of a token: absent, a factor for each head, or its logarithm. */
  readonly decay?: "factor" | "logarithm" | undefined;
  /** Whether each row of `S` has a decay of its own. */
  readonly decaysRows: boolean;
  /** Rates of a token for the delta rule, one for all heads or one for each. */
  readonly rates: number;
}

/** A recurrence of the graph. */
export interface FoundState {
  readonly name: string;
  readonly recurrence: Convolution | LinearAttention;
  /**
   * Its operands as the graph has them: `x` of a convolution; `q`, `k`, `v` of a linear attention, then its decay and
   * its rates of the delta rule if it has them.
   */
  readonly operands: readonly string[];
  /** The tensor that holds its result. */
  readonly output: string;
  /** Permutations of operands to `[1, tokens, …]`, and of the result to the graph's layout, if they differ. */
  readonly operandOrders?: readonly (readonly number[] | undefined)[];
  readonly outputOrder?: readonly number[] | undefined;
}

/** The input of a finder. */
export interface StateSearch {
  readonly index: GraphIndex;
  readonly probes: Probes;
}

/** Whether a tensor is the state that the previous step left, possibly cast. */
export function isPastState({ index, probes }: StateSearch, tensor: string | undefined): boolean {
  for (let name = tensor; name !== undefined;) {
    if (probes.inputs.states?.has(name)) return true;
    const node = index.producers.get(name);
    name = node && ["Identity", "Cast"].includes(node.opType) ? node.inputs[0] : undefined;
  }
  return false;
}

/** The constant behind a tensor, through casts. @throws {Refusal} when it is computed while running. */
export function constantBehind({ index }: StateSearch, tensor: string, node: Node): Tensor {
  for (let name: string | undefined = tensor; name !== undefined;) {
    const constant = index.constants.get(name);
    if (constant !== undefined) return constant;
    const producer: Node | undefined = index.producers.get(name);
    name = producer && ["Identity", "Cast"].includes(producer.opType)
      ? producer.inputs[0]
      : undefined;
  }
  throw new Refusal(`${describeNode(node)} takes "${tensor}", which should be a constant.`);
}
