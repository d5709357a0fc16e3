/**
 * Proves that a graph computes each token by itself: a token's result depends on that token only. Tokens of different
 * sequences may then be packed on one axis.
 *
 * A rule for each operator says whether it keeps tokens independent, given their axes.
 *
 * @module
 */
import { countElements } from "../file/tensor.ts";
import { ELEMENTWISE_RULES } from "../evaluate/elementwise.ts";
import { hasSubgraph, type Node, readIntAttribute } from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";
import { findDependents } from "./fold_lengths.ts";
import { describeNode } from "../graph_index.ts";
import { Refusal } from "../refusal.ts";
import { isKernelNode } from "../attention/replace_attentions.ts";

/** The axis of a tensor that holds the tokens: `multiple` consecutive indices of `axis` belong to each token. */
interface TokenAxis {
  readonly axis: number;
  readonly multiple: number;
  readonly shape: readonly number[];
}

/** The tokens' axes of a node's tensors. */
interface NodeAxes {
  readonly inputs: readonly (TokenAxis | undefined)[];
  readonly output: TokenAxis | undefined;
}

/** Whether an operator keeps tokens independent, given their axes. */
type TokenAxisRule = (node: Node, axes: NodeAxes, probes: Probes) => boolean;

function fromEnd({ axis, shape }: TokenAxis): number {
  return shape.length - axis;
}

function isAligned(input: TokenAxis | undefined, output: TokenAxis | undefined): boolean {
  if (input === undefined) return true;
  return output !== undefined && fromEnd(input) === fromEnd(output) &&
    input.multiple === output.multiple;
}

/** Operators that compute each element by itself. */
const aligned: TokenAxisRule = (_node, { inputs, output }) =>
  inputs.every((input) => isAligned(input, output));

/** Operators that work along one axis, by default the last. The tokens must be on an earlier axis. */
const alongAxis: TokenAxisRule = (node, { inputs }) => {
  const axis = readIntAttribute(node, "axis") ?? -1;
  return inputs.every((input) =>
    input === undefined || input.axis < (axis < 0 ? axis + input.shape.length : axis)
  );
};

/** Operators that work along the last axis. The tokens must be on another axis. */
const alongLast: TokenAxisRule = (_node, { inputs }) =>
  inputs.every((input) => input === undefined || input.axis < input.shape.length - 1);

/** Matrix products, which sum over the last axis of the first factor and the second-to-last of the second. */
const product: TokenAxisRule = (_node, { inputs: [a, b, ...rest] }) =>
  (a === undefined || fromEnd(a) > 1) && (b === undefined || fromEnd(b) !== 2) &&
  rest.every((input) => input === undefined);

/**
 * Operators that keep the elements in order. The product of the sizes before the tokens' axis must be the same in
 * output and input.
 */
const reordering: TokenAxisRule = (_node, { inputs: [input], output }) => {
  if (input === undefined || output === undefined) return input === output;
  const before = ({ axis, shape }: TokenAxis) => countElements(shape.slice(0, axis));
  return before(input) === before(output);
};

/** Operators that work along one axis. The tokens must be on another axis, which is the same in output and inputs. */
const besideAxis: TokenAxisRule = (node, { inputs, output }) => {
  const rank = output?.shape.length ?? 0;
  const axis = readIntAttribute(node, "axis") ?? 0;
  return inputs.every((input) => isAligned(input, output)) &&
    output?.axis !== (axis < 0 ? axis + rank : axis);
};

/** Lookups of a table's rows by token, or of a part of each token's row. */
const gather = (attribute: string): TokenAxisRule => (node, { inputs: [table, indices] }) => {
  if (table === undefined) return true;
  const axis = readIntAttribute(node, attribute) ?? 0;
  return indices === undefined && table.axis !== (axis < 0 ? axis + table.shape.length : axis);
};

/** Operators that move axes, or reduce axes other than the tokens'. The size of the tokens' axis must not change. */
const surviving: TokenAxisRule = (_node, { inputs: [input], output }) =>
  input?.multiple === output?.multiple;

/** Operators that take a part of other axes, and all tokens in order. */
const slicing: TokenAxisRule = (node, { inputs: [input], output }, probes) => {
  const steps = node.inputs[4];
  const known = steps ? probes.at(SHORT_LENGTHS[0]).value(steps)?.data : new Float64Array();
  return input?.axis === output?.axis && input?.multiple === output?.multiple &&
    known !== undefined && known.every((step) => step > 0);
};

/** Rotations of each token by its own angle: either looked up by the token's position, or given in a row per token. */
const rotation: TokenAxisRule = (node, { inputs: [x, ...others] }) => {
  if (x === undefined || x.axis >= x.shape.length - 1) return false;
  const [first, second, third] = others;
  if (node.domain === "com.microsoft") return first !== undefined && !second && !third;
  const hasPositions = node.inputs[3] !== undefined && node.inputs[3] !== "";
  return hasPositions
    ? third !== undefined && !first && !second
    : first !== undefined && second !== undefined;
};

/** The rules by operator. Operators without a rule may mix tokens. */
const TOKEN_RULES: Readonly<Record<string, TokenAxisRule>> = {
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
    b === undefined && readIntAttribute(node, "transA") !== 1 && a?.axis !== 1,
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
  MRotaryEmbedding: rotation,
  ReduceSum: surviving,
  ReduceSumSquare: surviving,
  ReduceMean: surviving,
  ReduceMax: surviving,
  ReduceMin: surviving,
  ReduceProd: surviving,
  Reshape: reordering,
  Squeeze: reordering,
  Unsqueeze: reordering,
  Flatten: reordering,
  Transpose: surviving,
  Concat: besideAxis,
  Split: besideAxis,
  GatherND: (node, axes, probes) =>
    axes.inputs[0] === undefined ||
    (axes.inputs[1] === undefined && surviving(node, axes, probes)),
  GatherElements: (node, axes, probes) =>
    axes.inputs[0] === undefined || besideAxis(node, axes, probes),
  ScatterElements: besideAxis,
  // The new axis is the last one.
  OneHot: (node, { inputs: [indices], output }) =>
    (readIntAttribute(node, "axis") ?? -1) === -1 && indices?.axis === output?.axis &&
    indices?.multiple === output?.multiple,
  Slice: slicing,
  Gather: gather("axis"),
  GatherBlockQuantized: gather("gather_axis"),
  ConstantOfShape: () => true,
};

/** Finds the tokens' axis of each tensor, by partial evaluation. */
export class TokenAxes {
  readonly #probes: Probes;

  constructor(probes: Probes) {
    this.#probes = probes;
  }

  /** A tensor's shape in the first short run. @throws {Refusal} when it is not known. */
  shape(name: string): readonly number[] {
    const value = this.#probes.at(SHORT_LENGTHS[0]).value(name);
    if (value === undefined) throw new Refusal(`The shape of "${name}" is not known.`);
    return value.shape;
  }

  /**
   * The tokens' axis of a tensor; `undefined` if it has none.
   *
   * @throws {Refusal} when several axes depend on the number of tokens, or one depends on the past length.
   */
  find(name: string): TokenAxis | undefined {
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

/** Operators that may read lengths of the step as sizes, and the index of the first input that may hold them. */
const SHAPED_BY_LENGTH: Readonly<Record<string, number>> = {
  Reshape: 1,
  Expand: 1,
  Slice: 1,
  ConstantOfShape: 0,
};

/** Operators that quantise all activations of a step with one scale. */
const MIXING_SCALES = new Set(["DynamicQuantizeLinear", "DynamicQuantizeMatMul"]);

/** The result of the proof. */
export interface TokenProof {
  readonly axes: TokenAxes;
  /** Tensors of small integers that hold lengths of the step, such as its number of tokens. */
  readonly lengths: ReadonlySet<string>;
  readonly notes: readonly string[];
}

/**
 * Checks every node that is not a kernel node.
 *
 * @param probes of a graph whose attentions are kernel nodes.
 * @throws {Refusal} at the first node that may mix tokens.
 */
export function proveTokensAlike(probes: Probes): TokenProof {
  const { nodes } = probes.index.graph;
  const axes = new TokenAxes(probes);
  const measuring = nodes.filter(({ opType }) => opType === "Shape" || opType === "Size");
  const fromLengths = findDependents(nodes, measuring.flatMap(({ outputs }) => outputs));
  const fromInputs = findDependents(nodes, [
    ...probes.index.inputs.keys(),
    ...nodes.filter(isKernelNode).flatMap(({ outputs }) => outputs),
  ]);
  const lengths = new Set<string>();
  const mixing = new Set<string>();
  for (const node of nodes) {
    if (isKernelNode(node) || !node.outputs.some((name) => fromInputs.has(name))) continue;
    if (hasSubgraph(node)) {
      throw new Refusal(`${describeNode(node)} runs graphs of its own (a branch or a loop).`);
    }
    const isMeasuring = measuring.includes(node);
    const rule = TOKEN_RULES[node.opType];
    if (rule === undefined && !isMeasuring) {
      throw new Refusal(
        `${describeNode(node)} may mix tokens: it is not known to treat them alike.`,
      );
    }
    const inputs = node.inputs.map((name) => name === "" ? undefined : axes.find(name));
    const output = axes.find(node.outputs.find((name) => name !== "")!);
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
