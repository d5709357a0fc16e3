/**
 * Recognizes activations in a graph, as one operator or spelled out.
 *
 * @module
 */
import type { Activation } from "../../kernels/common/activation.ts";
import { type Node, readFloatAttribute, readStringAttribute } from "../graph/file/proto.ts";
import { eitherInput, type GraphIndex, readScalar } from "../graph/graph_index.ts";

/** An activation of a tensor. */
interface FoundActivation {
  readonly activation: Activation;
  readonly input: string;
  /** Tensors between the input and the result, which need not be computed if nothing else reads them. */
  readonly between: readonly string[];
}

const CLOSE = 1e-3;

function isNear(value: number | undefined, wanted: number): boolean {
  return value !== undefined && Math.abs(value - wanted) <= CLOSE * Math.abs(wanted);
}

/** Returns the activation that computes a tensor, if there is one. */
export function findActivation(index: GraphIndex, name: string): FoundActivation | undefined {
  const node = index.producers.get(name);
  if (node === undefined) return undefined;
  const single = readOperator(node);
  if (single !== undefined) return { activation: single, input: node.inputs[0]!, between: [] };
  if (node.opType === "Pow") return matchSquaredRelu(index, node, node.inputs[0]!);
  if (node.opType !== "Mul") return undefined;
  const [left, right] = node.inputs as [string, string];
  if (left === right) return matchSquaredRelu(index, node, left);
  return matchSigmoidProduct(index, node) ?? matchSpelledGelu(index, node);
}

function readOperator(node: Node): Activation | undefined {
  switch (node.opType) {
    case "Relu":
      return "relu";
    case "Tanh":
      return "tanh";
    case "Sigmoid":
      return "sigmoid";
    case "Exp":
      return "exp";
    case "Softplus":
      return "softplus";
    case "Elu":
      return (readFloatAttribute(node, "alpha") ?? 1) === 1 ? "elu" : undefined;
    case "Gelu":
      return readStringAttribute(node, "approximate") === "tanh" ? "gelu_tanh" : "gelu";
    case "FastGelu":
      return node.inputs.length === 1 ? "gelu_tanh" : undefined;
    case "QuickGelu": {
      const alpha = readFloatAttribute(node, "alpha") ?? 1.702;
      if (isNear(alpha, 1.702)) return "gelu_sigmoid";
      return alpha === 1 ? "silu" : undefined;
    }
    case "Swish":
      return (readFloatAttribute(node, "alpha") ?? 1) === 1 ? "silu" : undefined;
  }
  return undefined;
}

/** Matches `relu(x)²`. */
function matchSquaredRelu(
  index: GraphIndex,
  node: Node,
  root: string,
): FoundActivation | undefined {
  const relu = index.producers.get(root);
  if (relu?.opType !== "Relu") return undefined;
  if (node.opType === "Pow" && readScalar(index, node.inputs[1]) !== 2) return undefined;
  return { activation: "relu_squared", input: relu.inputs[0]!, between: [root] };
}

/** Matches `x * sigmoid(x)`, or `x * sigmoid(1.702 x)`. */
function matchSigmoidProduct(index: GraphIndex, node: Node): FoundActivation | undefined {
  const pair = eitherInput(node, (name) => {
    const producer = index.producers.get(name);
    return producer?.opType === "Sigmoid" ? producer : undefined;
  });
  if (pair === undefined) return undefined;
  const { found: sigmoid, other: input } = pair;
  const between = [...sigmoid.outputs];
  const [argument] = sigmoid.inputs as [string];
  if (argument === input) return { activation: "silu", input, between };
  const scaled = index.producers.get(argument);
  if (scaled?.opType !== "Mul") return undefined;
  const factor = eitherInput(scaled, (name) => readScalar(index, name));
  if (factor?.other !== input || !isNear(factor.found, 1.702)) return undefined;
  return { activation: "gelu_sigmoid", input, between: [...between, argument] };
}

/** The factors of a product, including those of nested products. Constant factors are multiplied into `scale`. */
function readFactors(index: GraphIndex, name: string, depth: number): Factors {
  const node = index.producers.get(name);
  if (depth > 0 && node?.opType === "Mul") {
    const parts = node.inputs.map((input): Factors => {
      const scalar = readScalar(index, input);
      return scalar === undefined
        ? readFactors(index, input, depth - 1)
        : { scale: scalar, names: [], between: [] };
    });
    return {
      scale: parts.reduce((product, { scale }) => product * scale, 1),
      names: parts.flatMap(({ names }) => names),
      between: [name, ...parts.flatMap(({ between }) => between)],
    };
  }
  const divisor = node?.opType === "Div" ? readScalar(index, node.inputs[1]) : undefined;
  if (divisor === undefined) return { scale: 1, names: [name], between: [] };
  return { scale: 1 / divisor, names: [node!.inputs[0]!], between: [name] };
}

interface Factors {
  readonly scale: number;
  readonly names: readonly string[];
  readonly between: readonly string[];
}

/**
 * Matches `0.5 x (1 + erf(x / √2))`, or the same with `tanh(√(2 / π) (x + 0.044715 x³))`, with the factors in any
 * order.
 */
function matchSpelledGelu(index: GraphIndex, node: Node): FoundActivation | undefined {
  const { scale, names, between } = readFactors(index, node.outputs[0]!, 3);
  if (!isNear(scale, 0.5) || names.length !== 2) return undefined;
  for (const [input, other] of [names, names.toReversed()] as [string, string][]) {
    const sum = index.producers.get(other);
    const plusOne = sum?.opType === "Add" &&
      eitherInput(sum, (name) => readScalar(index, name) === 1 || undefined);
    if (!plusOne) continue;
    const outer = index.producers.get(plusOne.other);
    const inner = outer && findInner(index, outer, input);
    if (inner === undefined) continue;
    const passed = [...between, other, plusOne.other, ...inner.between];
    return {
      activation: inner.activation,
      input,
      between: passed.filter((name) => name !== node.outputs[0]),
    };
  }
  return undefined;
}

function findInner(
  index: GraphIndex,
  outer: Node,
  input: string,
): Pick<FoundActivation, "activation" | "between"> | undefined {
  const { scale, names, between } = readFactors(index, outer.inputs[0]!, 1);
  if (names.length !== 1) {
    return outer.opType === "Tanh" ? findNested(index, outer, input) : undefined;
  }
  if (outer.opType === "Erf") {
    return names[0] === input && isNear(scale, Math.SQRT1_2)
      ? { activation: "gelu", between }
      : undefined;
  }
  if (outer.opType !== "Tanh" || !isNear(scale, Math.sqrt(2 / Math.PI))) return undefined;
  const cubic = index.producers.get(names[0]!);
  if (cubic?.opType !== "Add" || !cubic.inputs.includes(input)) return undefined;
  const scaled = cubic.inputs.find((name) => name !== input);
  const cube = readFactors(index, scaled ?? "", 3);
  if (!isNear(cube.scale, 0.044715)) return undefined;
  const power = index.producers.get(cube.names[0] ?? "");
  const isPower = cube.names.length === 1 && power?.opType === "Pow" &&
    power.inputs[0] === input && readScalar(index, power.inputs[1]) === 3;
  if (!isPower && cube.names.join() !== [input, input, input].join()) return undefined;
  const passed = [...between, names[0]!, ...cube.between, ...isPower ? cube.names : []];
  return { activation: "gelu_tanh", between: passed };
}

/** Matches the argument `√(2 / π) x (1 + 0.044715 x²)` of BLOOM's tanh. */
function findNested(
  index: GraphIndex,
  outer: Node,
  input: string,
): Pick<FoundActivation, "activation" | "between"> | undefined {
  const { scale, names, between } = readFactors(index, outer.inputs[0]!, 2);
  const sum = names.find((name) => name !== input);
  const add = index.producers.get(sum ?? "");
  const isProduct = names.length === 2 && names.includes(input) &&
    isNear(scale, Math.sqrt(2 / Math.PI));
  const plusOne = isProduct && add?.opType === "Add"
    ? eitherInput(add, (name) => readScalar(index, name) === 1 || undefined)
    : undefined;
  const square = plusOne && readFactors(index, plusOne.other, 2);
  return square && isNear(square.scale, 0.044715) && square.names.join() === [input, input].join()
    ? { activation: "gelu_tanh", between: [...between, sum!, ...square.between] }
    : undefined;
}
