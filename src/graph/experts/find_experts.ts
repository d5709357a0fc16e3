/**
 * `MoE` and `QMoE` of ONNX Runtime's own operator set (com.microsoft).
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 * @module
 */
import type { ExpertActivation, ExpertMatrix } from "../../../kernels/experts/experts_params.ts";
import { getName } from "../attention/attention.ts";
import { countElements } from "../file/tensor.ts";
import {
  type Node,
  readFloatAttribute,
  readIntAttribute,
  readStringAttribute,
  type Tensor,
} from "../file/proto.ts";
import { describeNode, type GraphIndex } from "../graph_index.ts";
import { Refusal } from "../refusal.ts";
import { findOutputScale, findRouter } from "./find_router.ts";
import {
  type ExpertWeights,
  type FoundMixture,
  joinHalves,
  type MixtureSearch,
} from "./mixture.ts";

/**
 * Indices of an operator's inputs. Each product has four: weights, scales, zero points and biases, in this order.
 */
interface Inputs {
  readonly first: readonly (number | undefined)[];
  readonly second: readonly (number | undefined)[];
  readonly third: readonly (number | undefined)[];
  /** The optional input with the weights of the chosen experts, if the operator has one. */
  readonly weights?: number;
}

const NONE = undefined;
const INPUTS: Readonly<Record<"MoE" | "QMoE", Inputs>> = {
  MoE: { first: [2, NONE, NONE, 3], second: [4, NONE, NONE, 5], third: [6, NONE, NONE, 7] },
  QMoE: { first: [2, 3, 11, 4], second: [5, 6, 12, 7], third: [8, 9, 13, 10], weights: 14 },
};

/** Activations of the operators. ONNX Runtime approximates their GELU by tanh. */
const ACTIVATIONS: Readonly<Record<string, ExpertActivation["kind"]>> = {
  relu: "relu",
  gelu: "gelu_tanh",
  silu: "silu",
  identity: "none",
};

/**
 * Finds a mixture of experts that is one operator.
 *
 * @throws {Refusal} when Hearth's kernels do not compute it.
 */
export function findExperts(node: Node, search: MixtureSearch): FoundMixture | undefined {
  if (node.opType !== "MoE" && node.opType !== "QMoE") return undefined;
  const { index } = search;
  requireKnown(node);
  const positions = INPUTS[node.opType];
  const [x, probabilities] = node.inputs as [string, string];
  const third = readMatrix(index, node, positions.third);
  const one = readMatrix(index, node, positions.first);
  const second = readMatrix(index, node, positions.second);
  if (one === undefined || second === undefined) {
    throw new Refusal(
      `${describeNode(node)} computes its experts' weights; they should be constants.`,
    );
  }
  const [experts, hidden] = second.weights.shape as [number, number];
  const inner = second.k;
  const activation = readActivation(node, third !== undefined);
  const first = third === undefined ? one : joinHalves(one, third);
  const outputs = activation.gate ? 2 * inner : inner;
  requireShape(node, first.weights, [experts, outputs, findWidth(first.matrix, hidden)]);
  requireShape(node, second.weights, [experts, hidden, findWidth(second.matrix, inner)]);
  const topK = readIntAttribute(node, "k") ?? 1;
  const weights = positions.weights === undefined ? "" : node.inputs[positions.weights] ?? "";
  const isQuantized = node.opType === "QMoE";
  const found = findRouter(search, { node, probabilities, weights, topK, experts, isQuantized });
  const { output, ...scaled } = findOutputScale(search, node, found);
  return {
    name: getName(node),
    mixture: {
      ...{ experts, topK, hidden, inner, activation },
      router: { ...found.router, ...scaled },
      first: withBlocks(first, hidden),
      second: withBlocks(second, inner),
    },
    x,
    logits: found.logits,
    output,
  };
}

/** @throws {Refusal} for layouts and routers that only some of ONNX Runtime's providers support. */
function requireKnown(node: Node): void {
  const type = readStringAttribute(node, "quant_type") ?? "int";
  if (type !== "int") {
    throw new Refusal(
      `The experts' weights of ${describeNode(node)} are ${type}, in the layout of CUDA's kernels.`,
    );
  }
  if (readIntAttribute(node, "weights_prepacked") === 1) {
    throw new Refusal(`The experts' weights of ${describeNode(node)} are packed for CUDA.`);
  }
  if (readIntAttribute(node, "use_sparse_mixer")) {
    throw new Refusal(`The router of ${describeNode(node)} is a sparse mixer.`);
  }
}

/** A matrix whose number of scales has not been checked yet. */
interface ReadMatrix extends ExpertWeights {
  readonly weights: Tensor;
  /** Elements of a row. */
  readonly k: number;
}

function readMatrix(
  index: GraphIndex,
  node: Node,
  positions: readonly (number | undefined)[],
): ReadMatrix | undefined {
  const [weights, scales, zeroPoints, bias] = positions.map((position) => {
    const name = position === undefined ? "" : node.inputs[position] ?? "";
    const constant = index.constants.get(name);
    if (name === "" || constant !== undefined) return constant;
    throw new Refusal(`${describeNode(node)} computes "${name}", which should be a constant.`);
  });
  if (weights === undefined) return undefined;
  const width = weights.shape[2] ?? 0;
  if (weights.dtype !== "uint8") return { matrix: { kind: "rows" }, weights, bias, k: width };
  const bits = readIntAttribute(node, "expert_weight_bits") ?? 4;
  if (bits !== 4 && bits !== 8) {
    throw new Refusal(`The experts' weights of ${describeNode(node)} have ${bits} bits.`);
  }
  const k = width * 8 / bits;
  const blockSize = readIntAttribute(node, "block_size") || k;
  if (zeroPoints !== undefined && !readIntAttribute(node, "block_size")) {
    throw new Refusal(`${describeNode(node)} has zero points without blocks.`);
  }
  const hasZeroPoints = zeroPoints !== undefined;
  const matrix = { kind: "nbits", bits, blockSize, hasZeroPoints } as const;
  return { matrix, weights, scales, zeroPoints, bias, k };
}

/** The number of elements, or of packed bytes, in a row of `weights`. */
function findWidth(matrix: ExpertMatrix, k: number): number {
  return matrix.kind === "rows" ? k : k * matrix.bits / 8;
}

function requireShape(
  node: Node,
  { name, shape }: Pick<Tensor, "name" | "shape">,
  wanted: number[],
) {
  if (shape.join() === wanted.join()) return;
  throw new Refusal(
    `The experts' weights "${name}" of ${describeNode(node)} are [${shape.join(", ")}]; ` +
      `[${wanted.join(", ")}] is expected.`,
  );
}

/** Returns the weights. @throws {Refusal} unless each block has a scale. */
function withBlocks({ k: _, ...weights }: ReadMatrix, k: number): ExpertWeights {
  const { matrix, scales } = weights;
  if (matrix.kind === "rows") return weights;
  const [experts, outputs] = weights.weights.shape as [number, number];
  const wanted = experts * outputs * Math.ceil(k / matrix.blockSize);
  if (scales === undefined || countElements(scales.shape) !== wanted) {
    throw new Refusal(
      `The experts' weights "${weights.weights.name}" have ` +
        `${scales ? countElements(scales.shape) : 0} scales; ${wanted} are expected.`,
    );
  }
  return weights;
}

function readActivation(node: Node, hasThird: boolean): ExpertActivation {
  const type = readStringAttribute(node, "activation_type") ?? "relu";
  const fusion = readIntAttribute(node, "swiglu_fusion") ?? 0;
  const alpha = readFloatAttribute(node, "activation_alpha") ?? 1;
  if (type === "swiglu") {
    if (fusion === 0 && !hasThird) {
      throw new Refusal(`${describeNode(node)} has SwiGLU without its second matrix.`);
    }
    return {
      ...{ kind: "silu", alpha } as const,
      gate: {
        order: fusion === 1 ? "interleaved" : "halves",
        beta: readFloatAttribute(node, "activation_beta") ?? 0,
        limit: readFloatAttribute(node, "swiglu_limit") ?? Infinity,
      },
    };
  }
  const kind = ACTIVATIONS[type];
  if (kind === undefined) throw new Refusal(`${describeNode(node)} has the activation "${type}".`);
  const gate = hasThird ? { order: "halves", beta: 0, limit: Infinity } as const : undefined;
  return { kind, alpha: 1, gate };
}
