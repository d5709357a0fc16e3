/**
 * Causal convolutions with a state: `CausalConvWithState`, or a `Conv` over the state and the step's tokens.
 *
 * @module
 */
import { getName } from "../attention/attention.ts";
import { countElements } from "../file/dtype.ts";
import { intAttribute, intsAttribute, type Node, stringAttribute } from "../file/proto.ts";
import { describeNode } from "../graph_index.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { constantBehind, type FoundState, isPastState, type StateSearch } from "./state.ts";

/** Swaps `[1, channels, tokens]` and `[1, tokens, channels]`. */
const SWAP = [0, 2, 1];

/** `CausalConvWithState` of ONNX Runtime and, since opset 27, of ONNX. */
export function findCausalConv(node: Node, search: StateSearch): FoundState | undefined {
  if (node.opType !== "CausalConvWithState") return undefined;
  const [x, weightName, biasName, past] = node.inputs as [string, string, string?, string?];
  if (!isPastState(search, past)) {
    throw new Refusal(`The past of ${describeNode(node)} is computed; it should be an input.`);
  }
  const isPlain = (intAttribute(node, "ndim") ?? 1) === 1 &&
    (intAttribute(node, "dilation") ?? 1) === 1 && !intAttribute(node, "state_window") &&
    (intsAttribute(node, "dilations") ?? []).every((dilation) => dilation === 1);
  const activation = stringAttribute(node, "activation") ?? "none";
  if (!isPlain || !["none", "silu", "swish"].includes(activation)) {
    throw new Refusal(`${describeNode(node)} has dilations or an activation that Hearth lacks.`);
  }
  const weights = constantBehind(search, weightName, node);
  const isChannelsLast = intAttribute(node, "channels_last") === 1;
  return {
    name: getName(node),
    recurrence: {
      kind: "convolution",
      channels: weights.shape[0]!,
      taps: weights.shape[2]!,
      weights,
      bias: biasName ? constantBehind(search, biasName, node) : undefined,
      activation: activation === "none" ? undefined : "silu",
    },
    operands: [x],
    output: node.outputs[0]!,
    ...isChannelsLast ? {} : { operandOrders: [SWAP], outputOrder: SWAP },
  };
}

/** `Conv(Concat(state, x))`, of which a `Slice` takes the results for the step's tokens. */
export function findSpelledOutConv(node: Node, search: StateSearch): FoundState | undefined {
  const { index } = search;
  const joined = node.opType === "Conv" ? index.producers.get(node.inputs[0]!) : undefined;
  const [past, x, ...more] = joined?.inputs ?? [];
  if (joined?.opType !== "Concat" || more.length > 0 || !isPastState(search, past)) {
    return undefined;
  }
  const weights = constantBehind(search, node.inputs[1]!, node);
  const [channels, perGroup, taps, ...others] = weights.shape as [number, number, number];
  const isDepthwise = perGroup === 1 && intAttribute(node, "group") === channels &&
    others.length === 0;
  const isPlain = ["strides", "dilations"].every((name) =>
    (intsAttribute(node, name) ?? [1])[0] === 1
  );
  const axis = intAttribute(joined, "axis");
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
      bias: biasName ? constantBehind(search, biasName, node) : undefined,
    },
    operands: [x!],
    output,
    operandOrders: [SWAP],
    outputOrder: SWAP,
  };
}

/** The tensor that holds a `Conv`'s result for each token of the step, and for no others. */
function findResults(
  { index, probes }: StateSearch,
  conv: Node,
  { past, taps }: { readonly past: string; readonly taps: number },
): string {
  const [made] = conv.outputs as [string];
  const consumer = index.onlyConsumer(made);
  const sliced = consumer?.opType === "Slice" ? consumer.outputs[0]! : made;
  const pad = intsAttribute(conv, "pads")?.[0] ?? 0;
  for (const lengths of SHORT_LENGTHS) {
    const run = probes.at(lengths);
    const [shape, width] = [run.value(made)?.shape, run.value(past)?.shape[2]];
    if (shape === undefined || width === undefined) {
      throw new Refusal(`What ${describeNode(conv)} reads cannot be followed.`);
    }
    // The index of each result: that of token 0 begins `taps - 1` tokens before it.
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
