/**
 * The router before `MoE` and `QMoE`: the operators' own softmax, or a choice by sigmoids that exporters spell out around
 * it (LFM2-MoE).
 *
 * @module
 */
import { describeNode, type GraphIndex, readScalar, readVector } from "../graph_index.ts";
import { intAttribute, type Node } from "../file/proto.ts";
import { Refusal } from "../refusal.ts";
import type { MixtureSearch, Router } from "./mixture.ts";

/** A router, and the tensor of its logits. */
interface FoundRouter {
  readonly router: Router;
  readonly logits: string;
  /** The probabilities of the chosen experts, where the graph has them. */
  readonly chosen?: string;
}

interface RouterOptions {
  readonly node: Node;
  /** The operator's second input: what it chooses by. */
  readonly probabilities: string;
  /** The tensor that weighs the chosen experts, if it is not the softmax of the router's; empty for none. */
  readonly weights: string;
  readonly topK: number;
  readonly experts: number;
  readonly isQuantized: boolean;
}

/** Operators that only reshape or rename their input's elements. */
const PASSING = new Set(["Reshape", "Cast", "Identity", "Squeeze", "Unsqueeze", "Flatten"]);

/** The tensor whose elements another one holds, reshaped or renamed. */
export function elementsBehind(index: GraphIndex, tensor: string): string {
  let name = tensor;
  for (let node = index.producers.get(name); node && PASSING.has(node.opType);) {
    name = node.inputs[0]!;
    node = index.producers.get(name);
  }
  return name;
}

/** @throws {Refusal} when the experts are chosen by a router that is not known. */
export function findRouter(search: MixtureSearch, options: RouterOptions): FoundRouter {
  const { node, probabilities, weights } = options;
  const { index } = search;
  const behind = elementsBehind(index, probabilities);
  const producer = index.producers.get(behind);
  if (weights !== "") return bySeparateWeights(index, options, behind);
  if (producer?.opType === "ScatterElements" || producer?.opType === "Where") {
    const found = byScatteredScores(index, producer, options);
    if (found !== undefined) return found;
    throw new Refusal(`The router before ${describeNode(node)} is none that Hearth knows.`);
  }
  return {
    router: {
      ...{ scores: "softmax", epsilon: 0, scale: 1, prefersLast: true } as const,
      // ONNX Runtime's QMoE takes the softmax of the chosen experts alone, whatever the attribute says.
      normalizes: options.isQuantized || intAttribute(node, "normalize_routing_weights") === 1,
    },
    logits: withoutReshapes(index, probabilities),
  };
}

/** Experts chosen by one tensor and weighed by another: sigmoids with a bias, and without it. */
function bySeparateWeights(
  index: GraphIndex,
  { node, weights, experts }: RouterOptions,
  behind: string,
): FoundRouter {
  const scores = elementsBehind(index, weights);
  const logits = findSigmoidLogits(index, scores);
  const choice = choiceBy(index, behind, scores, experts);
  if (logits === undefined || choice === undefined) {
    throw new Refusal(`The router before ${describeNode(node)} is none that Hearth knows.`);
  }
  const normalizes = intAttribute(node, "normalize_routing_weights") === 1;
  const router = { scores: "sigmoid", ...choice, normalizes, epsilon: 0, scale: 1 } as const;
  return { router: { ...router, prefersLast: true }, logits: withoutReshapes(index, logits) };
}

/**
 * The logarithms of the chosen experts' sigmoids, scattered among numbers far below them: their softmax equals the
 * sigmoids divided by their sum.
 */
function byScatteredScores(
  index: GraphIndex,
  { opType, inputs }: Node,
  { topK, experts }: RouterOptions,
): FoundRouter | undefined {
  if (opType !== "ScatterElements") return undefined;
  const [, indices, updates] = inputs as [string, string, string];
  const top = index.producers.get(indices);
  if (top?.opType !== "TopK" || top.outputs[1] !== indices) return undefined;
  if (readScalar(index, top.inputs[1]) !== topK || intAttribute(top, "largest") === 0) {
    return undefined;
  }
  const log = index.producers.get(elementsBehind(index, updates));
  if (log?.opType !== "Log") return undefined;
  const clip = index.producers.get(log.inputs[0]!);
  const chosen = clip?.opType === "Clip" ? clip.inputs[0]! : log.inputs[0]!;
  const gather = index.producers.get(chosen);
  if (gather?.opType !== "GatherElements" || gather.inputs[1] !== indices) return undefined;
  const scores = gather.inputs[0]!;
  const logits = findSigmoidLogits(index, scores);
  const choice = choiceBy(index, top.inputs[0]!, scores, experts);
  if (logits === undefined || choice === undefined) return undefined;
  const router = { scores: "sigmoid", ...choice, normalizes: true, epsilon: 0, scale: 1 } as const;
  return {
    router: { ...router, prefersLast: false },
    logits: withoutReshapes(index, logits),
    chosen,
  };
}

/** The constant bias added to the scores for the choice, if any; `undefined` if something else makes the choice. */
export function choiceBy(
  index: GraphIndex,
  choice: string,
  scores: string,
  experts: number,
): Pick<Router, "bias"> | undefined {
  if (choice === scores) return {};
  const add = index.producers.get(choice);
  if (add?.opType !== "Add") return undefined;
  const [left, right] = add.inputs as [string, string];
  const other = left === scores ? right : right === scores ? left : undefined;
  const bias = readVector(index, other, experts);
  return bias && { bias };
}

/** `x` of `Sigmoid(x)`, or of `1 / (1 + exp(-x))`. */
export function findSigmoidLogits(index: GraphIndex, name: string): string | undefined {
  const node = index.producers.get(name);
  if (node?.opType === "Sigmoid") return node.inputs[0];
  if (node?.opType !== "Reciprocal") return undefined;
  const sum = index.producers.get(node.inputs[0]!);
  const power = sum?.opType === "Add"
    ? sum.inputs.map((input) => index.producers.get(input)).find((each) => each?.opType === "Exp")
    : undefined;
  const isOne = sum?.inputs.some((input) => readScalar(index, input) === 1);
  const negated = power && index.producers.get(power.inputs[0]!);
  return isOne && negated?.opType === "Neg" ? negated.inputs[0] : undefined;
}

/** The tensor behind reshapes and casts; a router computes in f32 whatever type its logits have. */
function withoutReshapes(index: GraphIndex, tensor: string): string {
  return elementsBehind(index, tensor);
}

/**
 * The factor after the experts' sum in LFM2-MoE: the sum of their probabilities over that sum plus epsilon.
 *
 * @returns the router's `epsilon` and `scale`, and the tensor that holds the product.
 */
export function outputWithScale(
  { index }: MixtureSearch,
  node: Node,
  { router: { epsilon, scale }, chosen }: FoundRouter,
): Pick<Router, "epsilon" | "scale"> & { readonly output: string } {
  const [own] = node.outputs as [string];
  const plain = { epsilon, scale, output: own };
  const multiply = index.onlyConsumer(own);
  if (chosen === undefined || multiply?.opType !== "Mul") return plain;
  const other = multiply.inputs.find((input) => input !== own);
  if (other === undefined) return plain;
  let factor = index.producers.get(elementsBehind(index, other));
  let routed = 1;
  if (factor?.opType === "Mul") {
    const constant = factor.inputs.find((input) => readScalar(index, input) !== undefined);
    routed = readScalar(index, constant) ?? NaN;
    factor = index.producers.get(factor.inputs.find((input) => input !== constant) ?? "");
  }
  if (factor?.opType !== "Div" || Number.isNaN(routed)) return plain;
  const [sum, withMore] = factor.inputs as [string, string];
  const total = index.producers.get(sum);
  const more = index.producers.get(withMore);
  if (total?.opType !== "ReduceSum" || total.inputs[0] !== chosen) return plain;
  if (more?.opType !== "Add" || !more.inputs.includes(sum)) return plain;
  const added = readScalar(index, more.inputs.find((input) => input !== sum));
  if (added === undefined) return plain;
  return { epsilon: added, scale: scale * routed, output: multiply.outputs[0]! };
}
