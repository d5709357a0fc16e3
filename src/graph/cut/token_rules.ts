/**
 * Which operators keep tokens independent, given their axis.
 *
 * @module
 */
import { countElements } from "../file/dtype.ts";
import { ELEMENTWISE_RULES } from "../evaluate/elementwise.ts";
import { intAttribute, type Node } from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/** Where the tokens are in a tensor: `multiple` consecutive indices of `axis` belong to each. */
export interface TokenAxis {
  readonly axis: number;
  readonly multiple: number;
  readonly shape: readonly number[];
}

/** The tokens of a node's tensors. */
interface TokenAxes {
  readonly inputs: readonly (TokenAxis | undefined)[];
  readonly output: TokenAxis | undefined;
}

/** Whether an operator keeps tokens independent, given their axes. */
type TokenAxisRule = (node: Node, axes: TokenAxes, probes: Probes) => boolean;

function fromEnd({ axis, shape }: TokenAxis): number {
  return shape.length - axis;
}

function isAligned(input: TokenAxis | undefined, output: TokenAxis | undefined): boolean {
  if (input === undefined) return true;
  return output !== undefined && fromEnd(input) === fromEnd(output) &&
    input.multiple === output.multiple;
}

/** Treats every element alike. */
const aligned: TokenAxisRule = (_node, { inputs, output }) =>
  inputs.every((input) => isAligned(input, output));

/** Works along one axis, the last unless the attribute says otherwise; the tokens are on another. */
const alongAxis: TokenAxisRule = (node, { inputs }) => {
  const axis = intAttribute(node, "axis") ?? -1;
  return inputs.every((input) =>
    input === undefined || input.axis < (axis < 0 ? axis + input.shape.length : axis)
  );
};

/** Works along the last axis of every input that has tokens. */
const alongLast: TokenAxisRule = (_node, { inputs }) =>
  inputs.every((input) => input === undefined || input.axis < input.shape.length - 1);

/** A matrix product: sums over the last axis of the first factor and the second-to-last of the second. */
const product: TokenAxisRule = (_node, { inputs: [a, b, ...rest] }) =>
  (a === undefined || fromEnd(a) > 1) && (b === undefined || fromEnd(b) !== 2) &&
  rest.every((input) => input === undefined);

/** Keeps the elements in order; axes before the tokens' axis must stay before it. */
const reordering: TokenAxisRule = (_node, { inputs: [input], output }) => {
  if (input === undefined || output === undefined) return input === output;
  const before = ({ axis, shape }: TokenAxis) => countElements(shape.slice(0, axis));
  return before(input) === before(output);
};

/** Works on an axis of its own, and leaves the tokens' axis as it is. */
const besideAxis =
  (name: string, fallback: number) => (node: Node, { inputs, output }: TokenAxes) => {
    const rank = output?.shape.length ?? 0;
    const axis = intAttribute(node, name) ?? fallback;
    return inputs.every((input) => isAligned(input, output)) &&
      output?.axis !== (axis < 0 ? axis + rank : axis);
  };

/** Rows of a table by token, or a part of each token's row. */
const gather = (attribute: string): TokenAxisRule => (node, { inputs: [table, indices] }) => {
  if (table === undefined) return true;
  const axis = intAttribute(node, attribute) ?? 0;
  return indices === undefined && table.axis !== (axis < 0 ? axis + table.shape.length : axis);
};

/** Moves or sums other axes; the tokens' axis survives with its size. */
const surviving: TokenAxisRule = (_node, { inputs: [input], output }) =>
  input?.multiple === output?.multiple;

/** Takes a part of other axes, and the whole tokens' axis in order. */
const slicing: TokenAxisRule = (node, { inputs: [input], output }, probes) => {
  const steps = node.inputs[4];
  const known = steps ? probes.at(SHORT_LENGTHS[0]).value(steps)?.data : new Float64Array();
  return input?.axis === output?.axis && input?.multiple === output?.multiple &&
    known !== undefined && known.every((step) => step > 0);
};

/** Rotates each token by its own angle: its position in a table, or its own row of a table. */
const rotation: TokenAxisRule = (node, { inputs: [x, ...others] }) => {
  if (x === undefined || x.axis >= x.shape.length - 1) return false;
  const [first, second, third] = others;
  if (node.domain === "com.microsoft") return first !== undefined && !second && !third;
  const hasPositions = node.inputs[3] !== undefined && node.inputs[3] !== "";
  return hasPositions
    ? third !== undefined && !first && !second
    : first !== undefined && second !== undefined;
};

/** The rules by operator; any other may mix tokens. */
export const TOKEN_RULES: Readonly<Record<string, TokenAxisRule>> = {
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
  MRotaryEmbedding: rotation,
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
  GatherND: (node, axes, probes) =>
    axes.inputs[0] === undefined ||
    (axes.inputs[1] === undefined && surviving(node, axes, probes)),
  GatherElements: (node, axes) => axes.inputs[0] === undefined || besideAxis("axis", 0)(node, axes),
  Slice: slicing,
  Gather: gather("axis"),
  GatherBlockQuantized: gather("gather_axis"),
  ConstantOfShape: () => true,
};
