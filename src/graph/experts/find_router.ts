/**
 * The routers of mixtures of experts: the softmax of `MoE` and `QMoE`, a choice by sigmoids that exporters spell out
 * around these operators (LFM2-MoE), and routers that are spelled out completely.
 *
 * @module
 */
import {
  describeNode,
  eitherInput,
  followBack,
  type GraphIndex,
  readScalar,
  readVector,
} from "../graph_index.ts";
import { type Node, readIntAttribute } from "../file/proto.ts";
import { Refusal } from "../refusal.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import type { MixtureSearch, Router } from "./mixture.ts";

/** A router, and the tensor of its logits. */
interface FoundRouter {
  readonly router: Router;
  readonly logits: string;
  /** The probabilities of the chosen experts, if the graph computes them. */
  readonly chosen?: string;
}

interface RouterOptions {
  readonly node: Node;
  /** The operator's second input, by which it chooses experts. */
  readonly probabilities: string;
  /** The tensor with the weights of the chosen experts; empty if these are the softmax of `probabilities`. */
  readonly weights: string;
  readonly topK: number;
  readonly experts: number;
  readonly isQuantized: boolean;
}

/** Operators that keep their input's elements in order. */
const PASSING = new Set(["Reshape", "Cast", "Identity", "Squeeze", "Unsqueeze", "Flatten"]);

/** Operators that keep elements in order, and operators that repeat elements. */
export const REPEATING: ReadonlySet<string> = PASSING.union(new Set(["Expand", "Tile"]));

/**
 * Follows a tensor back through these operators. They include casts, because routers compute in f32 whatever the type
 * of their logits.
 */
export function findElements(
  index: GraphIndex,
  tensor: string,
  operators: ReadonlySet<string> = PASSING,
): string {
  return followBack(index, tensor, operators);
}

/** The node that computes a tensor, before reshapes and casts. */
export function findProducer(index: GraphIndex, tensor: string | undefined): Node | undefined {
  return tensor === undefined ? undefined : index.producers.get(findElements(index, tensor));
}

/** Finds the router of a `MoE` or `QMoE` node. @throws {Refusal} when Hearth does not know the router. */
export function findRouter(search: MixtureSearch, options: RouterOptions): FoundRouter {
  const { node, probabilities, weights } = options;
  const { index } = search;
  const behind = findElements(index, probabilities);
  const producer = index.producers.get(behind);
  if (weights !== "") return matchSeparateWeights(index, options, behind);
  if (producer?.opType === "ScatterElements" || producer?.opType === "Where") {
    const found = matchScatteredScores(index, producer, options);
    if (found !== undefined) return found;
    throw new Refusal(`Hearth does not know the router before ${describeNode(node)}.`);
  }
  return {
    router: {
      ...{ scores: "softmax", epsilon: 0, scale: 1, prefersLast: true } as const,
      // ONNX Runtime's QMoE computes the softmax over only the chosen experts, and ignores the attribute.
      normalizes: options.isQuantized || readIntAttribute(node, "normalize_routing_weights") === 1,
    },
    logits: findElements(index, probabilities),
  };
}

/** Matches experts that are chosen by sigmoids with a bias, and weighted by the sigmoids without it. */
function matchSeparateWeights(
  index: GraphIndex,
  { node, weights, experts }: RouterOptions,
  behind: string,
): FoundRouter {
  const scores = findElements(index, weights);
  const logits = findSigmoidLogits(index, scores);
  const choice = findChoiceBias(index, behind, scores, experts);
  if (logits === undefined || choice === undefined) {
    throw new Refusal(`Hearth does not know the router before ${describeNode(node)}.`);
  }
  const normalizes = readIntAttribute(node, "normalize_routing_weights") === 1;
  const router = { scores: "sigmoid", ...choice, normalizes, epsilon: 0, scale: 1 } as const;
  return { router: { ...router, prefersLast: true }, logits: findElements(index, logits) };
}

/**
 * Matches numbers that are far below 0 except those of the chosen experts, which are the logarithms of their sigmoids.
 * The softmax of these numbers is the chosen sigmoids, divided by their sum.
 */
function matchScatteredScores(
  index: GraphIndex,
  { opType, inputs }: Node,
  { topK, experts }: RouterOptions,
): FoundRouter | undefined {
  if (opType !== "ScatterElements") return undefined;
  const [, indices, updates] = inputs as [string, string, string];
  const top = index.producers.get(indices);
  if (top?.opType !== "TopK" || top.outputs[1] !== indices) return undefined;
  if (readScalar(index, top.inputs[1]) !== topK || readIntAttribute(top, "largest") === 0) {
    return undefined;
  }
  const log = index.producers.get(findElements(index, updates));
  if (log?.opType !== "Log") return undefined;
  const clip = index.producers.get(log.inputs[0]!);
  const chosen = clip?.opType === "Clip" ? clip.inputs[0]! : log.inputs[0]!;
  const gather = index.producers.get(chosen);
  if (gather?.opType !== "GatherElements" || gather.inputs[1] !== indices) return undefined;
  const scores = gather.inputs[0]!;
  const logits = findSigmoidLogits(index, scores);
  const choice = findChoiceBias(index, top.inputs[0]!, scores, experts);
  if (logits === undefined || choice === undefined) return undefined;
  const router = { scores: "sigmoid", ...choice, normalizes: true, epsilon: 0, scale: 1 } as const;
  return {
    router: { ...router, prefersLast: false },
    logits: findElements(index, logits),
    chosen,
  };
}

/**
 * The constant bias that is added to `scores` to get `choice`, if any; `undefined` if `choice` is computed in another
 * way.
 */
function findChoiceBias(
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

/** Finds `x` of `Sigmoid(x)`, or of `1 / (1 + exp(-x))`. */
function findSigmoidLogits(index: GraphIndex, name: string): string | undefined {
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

/**
 * Finds the factor by which LFM2-MoE multiplies the experts' output: the sum of their probabilities, divided by that
 * sum plus epsilon.
 *
 * @returns the router's `epsilon` and `scale`, and the tensor that holds the result.
 */
export function findOutputScale(
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
  let factor = index.producers.get(findElements(index, other));
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

/** A router that is spelled out. */
interface SpelledRouter {
  readonly router: Router;
  readonly logits: string;
  readonly topK: number;
}

/**
 * Finds a spelled-out router: a softmax before or after the choice, or sigmoids and a bias.
 *
 * @param options.weights the weights of the chosen experts.
 * @param options.indices the indices of the chosen experts.
 */
export function findSpelledRouter(
  search: MixtureSearch,
  { weights, indices, experts }: {
    readonly weights: string;
    readonly indices: string;
    readonly experts: number;
  },
): SpelledRouter | undefined {
  const { index } = search;
  const top = index.producers.get(indices);
  const topK = top?.opType === "TopK" && top.outputs[1] === indices
    ? readScalar(index, top.inputs[1])
    : undefined;
  if (top === undefined || topK === undefined || readIntAttribute(top, "largest") === 0) {
    return undefined;
  }
  const [values] = top.outputs as [string];
  const choice = withoutMask(search, findElements(index, top.inputs[0]!));
  const { name, scale } = withoutScale(index, findElements(index, weights));
  const plain = { epsilon: 0, scale, prefersLast: false } as const;
  const node = index.producers.get(name);
  if (node?.opType === "Softmax" && findElements(index, node.inputs[0]!) === values) {
    return { router: { ...plain, scores: "softmax", normalizes: true }, logits: choice, topK };
  }
  const { share, epsilon, normalizes } = matchWithoutSum(index, name);
  const ratio = { ...plain, epsilon, normalizes };
  const gather = index.producers.get(share);
  const scores = share === values
    ? choice
    : gather?.opType === "GatherElements" && gather.inputs[1] === indices
    ? findElements(index, gather.inputs[0]!)
    : undefined;
  if (scores === undefined) return undefined;
  const softmax = index.producers.get(scores);
  const isSoftmax = softmax?.opType === "Softmax";
  const logits = isSoftmax ? softmax.inputs[0] : findSigmoidLogits(index, scores);
  const bias = findChoiceBias(index, choice, scores, experts);
  if (logits === undefined || bias === undefined) return undefined;
  return {
    router: { ...ratio, scores: isSoftmax ? "softmax" : "sigmoid", ...bias },
    logits: findElements(index, logits),
    topK,
  };
}

/**
 * Skips a mask that leaves out no expert. Routers that first choose groups of experts have a mask even for a single
 * group.
 */
function withoutMask({ index, probes }: MixtureSearch, name: string): string {
  const node = index.producers.get(name);
  if (node?.opType !== "Where") return name;
  const [condition, ...branches] = node.inputs as [string, string, string];
  const chosen = probes.at(SHORT_LENGTHS[0]).value(condition)?.data;
  const kept = branches.find((_, i) => chosen?.every((each) => each === 1 - i));
  return kept === undefined ? name : findElements(index, kept);
}

function withoutScale(index: GraphIndex, name: string): { name: string; scale: number } {
  const node = index.producers.get(name);
  const factor = node?.opType === "Mul"
    ? eitherInput(node, (input) => readScalar(index, input))
    : undefined;
  return factor === undefined
    ? { name, scale: 1 }
    : { name: findElements(index, factor.other), scale: factor.found };
}

/** A lower bound of a sum of shares is ignored if it is smaller than this. */
const MAX_BOUND = 1e-6;

/** Matches `share / (sum of shares + epsilon)`. */
function matchWithoutSum(
  index: GraphIndex,
  name: string,
): { readonly share: string; readonly epsilon: number; readonly normalizes: boolean } {
  const plain = { share: name, epsilon: 0, normalizes: false };
  const node = index.producers.get(name);
  if (node?.opType !== "Div") return plain;
  const share = findElements(index, node.inputs[0]!);
  let sum = findProducer(index, node.inputs[1]);
  let epsilon = 0;
  // A tiny lower bound only prevents division by zero.
  if (sum?.opType === "Clip" && readScalar(index, sum.inputs[1])! < MAX_BOUND && !sum.inputs[2]) {
    sum = findProducer(index, sum.inputs[0]);
  }
  if (sum?.opType === "Add") {
    const added = eitherInput(sum, (input) => readScalar(index, input));
    if (added === undefined) return plain;
    epsilon = added.found;
    sum = findProducer(index, added.other);
  }
  const isSum = sum?.opType === "ReduceSum" && findElements(index, sum.inputs[0]!) === share;
  return isSum ? { share, epsilon, normalizes: true } : plain;
}
