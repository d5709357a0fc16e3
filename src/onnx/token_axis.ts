/**
 * Proves that a graph treats tokens alike: that each token's result depends on that token alone, so that
 * tokens of different sequences may stand side by side on one axis.
 *
 * @module
 */
import { elementsOf } from "./dtype.ts";
import { ELEMENTWISE_RULES } from "./evaluate/elementwise.ts";
import { dependents } from "./fold_lengths.ts";
import { describeNode } from "./graph_index.ts";
import { hasSubgraph, intAttribute, type Node } from "./proto.ts";
import { type Probes, SHORT_LENGTHS } from "./probes.ts";
import { Refusal } from "./refusal.ts";
import { isSite } from "./attention_sites.ts";

/** Where the tokens are in a tensor: `multiple` consecutive indices of `axis` belong to each. */
export interface TokenAxis {
  readonly axis: number;
  readonly multiple: number;
  readonly shape: readonly number[];
}

/** The places of the tokens, by tensor. `undefined`: the tensor has none. */
export class TokenAxes {
  readonly #probes: Probes;

  constructor(probes: Probes) {
    this.#probes = probes;
  }

  /** The size of every axis in the first short run. @throws {Refusal} when that is not known. */
  shape(name: string): readonly number[] {
    const value = this.#probes.at(SHORT_LENGTHS[0]).value(name);
    if (value === undefined) throw new Refusal(`The shape of "${name}" is not known.`);
    return value.shape;
  }

  /** Where the tokens are. @throws {Refusal} when they are on two axes, or the past is in the shape. */
  of(name: string): TokenAxis | undefined {
    const [shape, withPast, longer] = SHORT_LENGTHS.map((lengths) =>
      this.#probes.at(lengths).value(name)?.shape
    );
    if (shape === undefined || withPast === undefined || longer === undefined) {
      throw new Refusal(`The shape of "${name}" is not known.`);
    }
    const varying = shape.flatMap((size, axis) => size === longer[axis] ? [] : [axis]);
    const [axis] = varying;
    const isFixed = shape.join() === withPast.join() && shape.length === longer.length;
    if (!isFixed || varying.length > 1) {
      throw new Refusal(`"${name}" holds a row per pair of tokens or per cached token.`);
    }
    if (axis === undefined) return undefined;
    const multiple = shape[axis]! / SHORT_LENGTHS[0].numTokens;
    if (longer[axis] !== multiple * SHORT_LENGTHS[2].numTokens) {
      throw new Refusal(`An axis of "${name}" does not grow with the tokens alone.`);
    }
    return { axis, multiple, shape };
  }
}

/** The tokens of a node's tensors. */
interface Places {
  readonly inputs: readonly (TokenAxis | undefined)[];
  readonly output: TokenAxis | undefined;
}

/** Whether an operator keeps tokens apart, given where they are. */
type TokenRule = (node: Node, places: Places, probes: Probes) => boolean;

function fromEnd({ axis, shape }: TokenAxis): number {
  return shape.length - axis;
}

function isAligned(input: TokenAxis | undefined, output: TokenAxis | undefined): boolean {
  if (input === undefined) return true;
  return output !== undefined && fromEnd(input) === fromEnd(output) &&
    input.multiple === output.multiple;
}

const aligned: TokenRule = (_node, { inputs, output }) =>
  inputs.every((input) => isAligned(input, output));

/** Works along one axis, the last unless the attribute says otherwise; the tokens are on another. */
const alongAxis: TokenRule = (node, { inputs }) => {
  const axis = intAttribute(node, "axis") ?? -1;
  return inputs.every((input) =>
    input === undefined || input.axis < (axis < 0 ? axis + input.shape.length : axis)
  );
};

/** Works along the last axis of every input that has tokens. */
const alongLast: TokenRule = (_node, { inputs }) =>
  inputs.every((input) => input === undefined || input.axis < input.shape.length - 1);

/** Sums over the last axis of the first factor and the last but one of the second. */
const product: TokenRule = (_node, { inputs: [a, b, ...rest] }) =>
  (a === undefined || fromEnd(a) > 1) && (b === undefined || fromEnd(b) !== 2) &&
  rest.every((input) => input === undefined);

/** Keeps the elements in order; the rows in front of the tokens must stay in front of them. */
const reordering: TokenRule = (_node, { inputs: [input], output }) => {
  if (input === undefined || output === undefined) return input === output;
  const before = ({ axis, shape }: TokenAxis) => elementsOf(shape.slice(0, axis));
  return before(input) === before(output);
};

/** Works on an axis of its own, and leaves the tokens' axis as it is. */
const besideAxis = (name: string, fallback: number) => (node: Node, { inputs, output }: Places) => {
  const rank = output?.shape.length ?? 0;
  const axis = intAttribute(node, name) ?? fallback;
  return inputs.every((input) => isAligned(input, output)) &&
    output?.axis !== (axis < 0 ? axis + rank : axis);
};

/** Rows of a table by token, or a part of each token's row. */
const gather = (attribute: string): TokenRule => (node, { inputs: [table, indices] }) => {
  if (table === undefined) return true;
  const axis = intAttribute(node, attribute) ?? 0;
  return indices === undefined && table.axis !== (axis < 0 ? axis + table.shape.length : axis);
};

/** Moves or sums other axes; the tokens' axis survives with its size. */
const surviving: TokenRule = (_node, { inputs: [input], output }) =>
  input?.multiple === output?.multiple;

/** Takes a part of other axes; of the tokens' axis all, in order. */
const slicing: TokenRule = (node, { inputs: [input], output }, probes) => {
  const steps = node.inputs[4];
  const known = steps ? probes.at(SHORT_LENGTHS[0]).value(steps)?.data : new Float64Array();
  return input?.axis === output?.axis && input?.multiple === output?.multiple &&
    known !== undefined && known.every((step) => step > 0);
};

/** Turns each token by its own angle: its position in a table, or its own row of a table. */
const rotation: TokenRule = (node, { inputs: [x, ...others] }) => {
  if (x === undefined || x.axis >= x.shape.length - 1) return false;
  const [first, second, third] = others;
  if (node.domain === "com.microsoft") return first !== undefined && !second && !third;
  const hasPositions = node.inputs[3] !== undefined && node.inputs[3] !== "";
  return hasPositions
    ? third !== undefined && !first && !second
    : first !== undefined && second !== undefined;
};

const RULES: Readonly<Record<string, TokenRule>> = {
  ...Object.fromEntries(Object.keys(ELEMENTWISE_RULES).map((name) => [name, aligned])),
  QuantizeLinear: aligned,
  DequantizeLinear: aligned,
  DynamicQuantizeLinear: aligned,
  Expand: (_node, { inputs: [input], output }) => isAligned(input, output),
  Tile: aligned,
  MatMul: product,
  FusedMatMul: product,
  MatMulInteger: product,
  MatMulIntegerToFloat: product,
  DynamicQuantizeMatMul: product,
  Gemm: (node, { inputs: [a, b] }) =>
    b === undefined && intAttribute(node, "transA") !== 1 && a?.axis !== 1,
  MatMulNBits: alongLast,
  MatMulBnb4: alongLast,
  MoE: alongLast,
  QMoE: alongLast,
  LayerNormalization: alongAxis,
  RMSNormalization: alongAxis,
  SimplifiedLayerNormalization: alongAxis,
  LpNormalization: alongAxis,
  Softmax: alongAxis,
  LogSoftmax: alongAxis,
  TopK: alongAxis,
  SkipLayerNormalization: alongLast,
  SkipSimplifiedLayerNormalization: alongLast,
  RotaryEmbedding: rotation,
  ReduceSum: surviving,
  ReduceMean: surviving,
  ReduceMax: surviving,
  ReduceMin: surviving,
  ReduceProd: surviving,
  Reshape: reordering,
  Squeeze: reordering,
  Unsqueeze: reordering,
  Flatten: reordering,
  Transpose: surviving,
  Concat: besideAxis("axis", 0),
  Split: besideAxis("axis", 0),
  GatherND: (node, places, probes) =>
    places.inputs[0] === undefined ||
    (places.inputs[1] === undefined && surviving(node, places, probes)),
  GatherElements: (node, places) =>
    places.inputs[0] === undefined || besideAxis("axis", 0)(node, places),
  Slice: slicing,
  Gather: gather("axis"),
  GatherBlockQuantized: gather("gather_axis"),
  ConstantOfShape: () => true,
};

/** Operators that may take a length to shape their result with, by the inputs that take it. */
const SHAPED_BY_LENGTH: Readonly<Record<string, number>> = {
  Reshape: 1,
  Expand: 1,
  Slice: 1,
  ConstantOfShape: 0,
};

/** One scale for all activations of a step. */
const MIXING_SCALES = new Set(["DynamicQuantizeLinear", "DynamicQuantizeMatMul"]);

/** What the proof found out. */
export interface TokenProof {
  readonly axes: TokenAxes;
  /** Tensors that hold lengths of the step, not tokens: small integers. */
  readonly lengths: ReadonlySet<string>;
  readonly notes: readonly string[];
}

/**
 * Goes through the nodes that ONNX Runtime will run.
 *
 * @param probes of the graph, its attentions being site nodes.
 * @throws {Refusal} at the first node that may mix tokens.
 */
export function proveTokensAlike(probes: Probes): TokenProof {
  const { nodes } = probes.index.graph;
  const axes = new TokenAxes(probes);
  const measuring = nodes.filter(({ opType }) => opType === "Shape" || opType === "Size");
  const fromLengths = dependents(nodes, measuring.flatMap(({ outputs }) => outputs));
  const fromInputs = dependents(nodes, [
    ...probes.index.inputs.keys(),
    ...nodes.filter(isSite).flatMap(({ outputs }) => outputs),
  ]);
  const lengths = new Set<string>();
  const mixing = new Set<string>();
  for (const node of nodes) {
    if (isSite(node) || !node.outputs.some((name) => fromInputs.has(name))) continue;
    if (hasSubgraph(node)) {
      throw new Refusal(`${describeNode(node)} chooses or repeats while it runs.`);
    }
    const isMeasuring = measuring.includes(node);
    const rule = RULES[node.opType];
    if (rule === undefined && !isMeasuring) {
      throw new Refusal(
        `${describeNode(node)} may mix tokens: it is not known to treat them alike.`,
      );
    }
    const inputs = node.inputs.map((name) => name === "" ? undefined : axes.of(name));
    const output = axes.of(node.outputs.find((name) => name !== "")!);
    if (isMeasuring || node.inputs.some((name) => lengths.has(name))) {
      const firstShaping = SHAPED_BY_LENGTH[node.opType];
      const shapes = firstShaping !== undefined &&
        node.inputs.every((name, i) => i >= firstShaping || !lengths.has(name));
      if (output === undefined && inputs.every((input) => input === undefined || isMeasuring)) {
        for (const name of node.outputs) if (fromLengths.has(name)) lengths.add(name);
      } else if (!shapes) {
        throw new Refusal(`${describeNode(node)} computes with the number of tokens in a step.`);
      }
    }
    if (!isMeasuring && !rule!(node, { inputs, output }, probes)) {
      throw new Refusal(`${describeNode(node)} mixes tokens.`);
    }
    if (MIXING_SCALES.has(node.opType)) mixing.add(node.opType);
  }
  const notes = [...mixing].map((name) =>
    `${name} quantises the activations of a step with one scale: a token's result depends a little on its neighbours.`
  );
  return { axes, lengths, notes };
}
