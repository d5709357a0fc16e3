/**
 * Finds recurrences that are operators of a graph: causal convolutions and linear attention. A causal convolution is
 * `CausalConvWithState`, or a `Conv` over the state and the tokens of the step. Linear attention is `LinearAttention`;
 * if it runs token by token, `find_scan.ts` finds it.
 *
 * @module
 */
import type { Convolution, LinearAttention } from "../graph_cut.ts";
import { COPYING, describeNode, followBack, type GraphIndex } from "../graph_index.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";
import { getName, requireConstant } from "../attention/attention.ts";
import { countElements } from "../file/tensor.ts";
import {
  type Node,
  readFloatAttribute,
  readIntAttribute,
  readIntsAttribute,
  readStringAttribute,
} from "../file/proto.ts";
import { Refusal } from "../refusal.ts";
import { numbered } from "../attention/traced_operand.ts";

/** A recurrence that was found in a graph. */
export interface FoundState {
  readonly name: string;
  readonly recurrence: Convolution | LinearAttention;
  /**
   * Names of the operands: `x` of a convolution; `q`, `k`, `v` of a linear attention, followed by its decay and by the
   * rates of the delta rule, if it has them.
   */
  readonly operands: readonly string[];
  /** The tensor that holds the recurrence's result. */
  readonly output: string;
  /**
   * Permutations of the operands to `[1, tokens, …]`, and of the result from there to the graph's layout. If none is
   * needed, it is `undefined` or absent.
   */
  readonly operandOrders?: readonly (readonly number[] | undefined)[];
  readonly outputOrder?: readonly number[] | undefined;
}

/** A graph to search for recurrences. */
export interface StateSearch {
  readonly index: GraphIndex;
  readonly probes: Probes;
}

/** Whether a tensor is an input for a recurrent state, possibly cast. */
export function isPastState({ index, probes }: StateSearch, tensor: string | undefined): boolean {
  const original = tensor && followBack(index, tensor, COPYING);
  return original !== undefined && probes.inputs.states?.has(original) === true;
}

/** Swaps `[1, channels, tokens]` and `[1, tokens, channels]`. */
const SWAP = [0, 2, 1];

/** `CausalConvWithState` of ONNX Runtime and, since opset 27, of ONNX. */
export function findCausalConv(node: Node, search: StateSearch): FoundState | undefined {
  if (node.opType !== "CausalConvWithState") return undefined;
  const [x, weightName, biasName, past] = node.inputs as [string, string, string?, string?];
  if (!isPastState(search, past)) {
    throw new Refusal(`The past of ${describeNode(node)} is computed; it should be an input.`);
  }
  const isPlain = (readIntAttribute(node, "ndim") ?? 1) === 1 &&
    (readIntAttribute(node, "dilation") ?? 1) === 1 && !readIntAttribute(node, "state_window") &&
    (readIntsAttribute(node, "dilations") ?? []).every((dilation) => dilation === 1);
  const activation = readStringAttribute(node, "activation") ?? "none";
  if (!isPlain || !["none", "silu", "swish"].includes(activation)) {
    throw new Refusal(`${describeNode(node)} has dilations or an activation that Hearth lacks.`);
  }
  const weights = requireConstant(search, weightName, node);
  const isChannelsLast = readIntAttribute(node, "channels_last") === 1;
  return {
    name: getName(node),
    recurrence: {
      kind: "convolution",
      channels: weights.shape[0]!,
      taps: weights.shape[2]!,
      weights,
      bias: biasName ? requireConstant(search, biasName, node) : undefined,
      activation: activation === "none" ? undefined : "silu",
    },
    operands: [x],
    output: node.outputs[0]!,
    ...isChannelsLast ? {} : { operandOrders: [SWAP], outputOrder: SWAP },
  };
}

/** `Conv(Concat(state, x))`, possibly followed by `Slice` nodes that keep only the results for the step's tokens. */
export function findSpelledOutConv(node: Node, search: StateSearch): FoundState | undefined {
  const { index } = search;
  const joined = node.opType === "Conv" ? index.producers.get(node.inputs[0]!) : undefined;
  const [past, x, ...more] = joined?.inputs ?? [];
  if (joined?.opType !== "Concat" || more.length > 0 || !isPastState(search, past)) {
    return undefined;
  }
  const weights = requireConstant(search, node.inputs[1]!, node);
  const [channels, perGroup, taps, ...others] = weights.shape as [number, number, number];
  const isDepthwise = perGroup === 1 && readIntAttribute(node, "group") === channels &&
    others.length === 0;
  const isPlain = ["strides", "dilations"].every((name) =>
    (readIntsAttribute(node, name) ?? [1])[0] === 1
  );
  const axis = readIntAttribute(joined, "axis");
  if (!isDepthwise || !isPlain || (axis !== 2 && axis !== -1)) {
    throw new Refusal(`${describeNode(node)} reads a state, but not as a causal convolution.`);
  }
  const output = findResults(search, node, { past: past!, taps });
  const biasName = node.inputs[2];
  return {
    name: getName(node),
    recurrence: {
      kind: "convolution",
      ...{ channels, taps, weights },
      bias: biasName ? requireConstant(search, biasName, node) : undefined,
    },
    operands: [x!],
    output,
    operandOrders: [SWAP],
    outputOrder: SWAP,
  };
}

/**
 * The tensor that holds a `Conv`'s result for each token of the step, and for no other tokens.
 *
 * @throws {Refusal} when there is none.
 */
function findResults(
  { index, probes }: StateSearch,
  conv: Node,
  { past, taps }: { readonly past: string; readonly taps: number },
): string {
  const [made] = conv.outputs as [string];
  let sliced = made;
  for (
    let node = index.onlyConsumer(made);
    node?.opType === "Slice";
    node = index.onlyConsumer(sliced)
  ) {
    sliced = node.outputs[0]!;
  }
  const pad = readIntsAttribute(conv, "pads")?.[0] ?? 0;
  for (const lengths of SHORT_LENGTHS) {
    const run = probes.at(lengths);
    const [shape, width] = [run.value(made)?.shape, run.value(past)?.shape[2]];
    if (shape === undefined || width === undefined) {
      throw new Refusal(
        `The shapes of the state and the result of ${describeNode(conv)} are not known.`,
      );
    }
    // The index of each result along the tokens. The result of token 0 reads tokens from `-(taps - 1)` on.
    const data = Float64Array.from({ length: countElements(shape) }, (_, i) => i % shape[2]!);
    const indices = sliced === made
      ? data
      : run.valueWith(sliced, new Map([[made, { dtype: "float32", shape, data }]]))?.data;
    const first = width - taps + 1 + pad;
    const { numTokens } = lengths;
    const isEach = indices?.length === shape[1]! * numTokens &&
      indices.every((index, i) => index === first + i % numTokens);
    if (first < 0 || !isEach) {
      throw new Refusal(`${describeNode(conv)} does not give a result for each token.`);
    }
  }
  return sliced;
}

/** Operators that may be between rows and their repeated heads. */
const REPEATING = new Set(["Reshape", "Expand", "Unsqueeze"]);

/**
 * Skips nodes that repeat heads, as Mamba-2 does with the heads of a group. Kernels need no repetition: they read a
 * shared head by its index.
 *
 * @param size number of elements in a head.
 */
function skipRepeats({ index, probes }: StateSearch, operand: string, size: number): string {
  const run = probes.at(SHORT_LENGTHS[0]);
  const wanted = run.value(operand)?.shape;
  if (wanted?.length !== 3) return operand;
  const [, numTokens, width] = wanted as [number, number, number];
  let rows = operand;
  let node = index.producers.get(operand);
  while (node !== undefined && REPEATING.has(node.opType)) {
    const [name] = node.inputs as [string];
    node = index.producers.get(name);
    const value = run.value(name);
    const own = value?.shape[2] ?? 0;
    if (value?.shape.join() !== [1, numTokens, own].join() || own % size !== 0) continue;
    const read = run.valueWith(operand, new Map([[name, numbered(value)]]))?.data;
    const perHead = width / own * size;
    const isRepeated = read?.every((x, i) => {
      const [token, element] = [Math.floor(i / width), i % width];
      return x - 1 === token * own + Math.floor(element / perHead) * size + element % size;
    });
    if (isRepeated) rows = name;
  }
  return rows;
}

/** Update rules by name: whether they have a decay, and whether they are delta rules, which have rates. */
const RULES: Readonly<Record<string, { readonly decays: boolean; readonly isDelta: boolean }>> = {
  linear: { decays: false, isDelta: false },
  gated: { decays: true, isDelta: false },
  delta: { decays: false, isDelta: true },
  gated_delta: { decays: true, isDelta: true },
};

/**
 * `LinearAttention` of ONNX Runtime's own operator set (com.microsoft) and, since opset 27, of ONNX. The rows of q, k
 * and v consist of heads.
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 */
export function findLinearAttention(node: Node, search: StateSearch): FoundState | undefined {
  if (node.opType !== "LinearAttention") return undefined;
  const [q, k, v, past, decay, rates] = node.inputs as [string, string, string, ...string[]];
  if (!isPastState(search, past)) {
    throw new Refusal(`The past of ${describeNode(node)} is computed; it should be an input.`);
  }
  const rule = RULES[readStringAttribute(node, "update_rule") ?? "gated_delta"];
  const queryHeads = readIntAttribute(node, "q_num_heads") ?? 0;
  const heads = readIntAttribute(node, "kv_num_heads") ?? queryHeads;
  if (rule === undefined || queryHeads > heads || heads === 0) {
    throw new Refusal(
      `${describeNode(node)} has ${queryHeads} heads of queries for ${heads} states, or an ` +
        "update rule that Hearth does not know.",
    );
  }
  const findWidth = (name: string | undefined) => {
    const width = search.probes.at(SHORT_LENGTHS[0]).value(name ?? "")?.shape.at(-1);
    if (width !== undefined) return width;
    throw new Refusal(`${describeNode(node)} takes "${name}", whose shape is not known.`);
  };
  const keyDim = findWidth(q) / queryHeads;
  const [queries, keys] = [q, k].map((name) => skipRepeats(search, name, keyDim)) as [
    string,
    string,
  ];
  const scale = readFloatAttribute(node, "scale") || 1 / Math.sqrt(keyDim);
  return {
    name: getName(node),
    recurrence: {
      kind: "linear_attention",
      ...{ heads, keyDim, scale },
      queryHeads: findWidth(queries) / keyDim,
      keyHeads: findWidth(keys) / keyDim,
      valueDim: findWidth(v) / heads,
      decay: rule.decays ? "logarithm" : undefined,
      decaysRows: rule.decays && findWidth(decay) === heads * keyDim && keyDim > 1,
      rates: rule.isDelta ? findWidth(rates) : 0,
    },
    operands: [queries, keys, v, ...rule.decays ? [decay!] : [], ...rule.isDelta ? [rates!] : []],
    output: node.outputs[0]!,
  };
}
