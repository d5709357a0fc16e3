/**
 * Parts of mixtures of experts that PyTorch's exporters spell out: activations with a gate, and the weights of the chosen
 * experts.
 *
 * @module
 */
import type { ExpertActivation } from "../../../kernels/experts/experts_params.ts";
import { eitherInput, type GraphIndex, readIntegers, readScalar } from "../graph_index.ts";
import { intAttribute, type Node } from "../file/proto.ts";
import { choiceBy, elementsBehind, findSigmoidLogits } from "./find_router.ts";
import type { Router } from "./mixture.ts";

/** The node that computed a tensor's elements, before reshapes. */
export function producerBehind(index: GraphIndex, tensor: string | undefined): Node | undefined {
  return tensor === undefined ? undefined : index.producers.get(elementsBehind(index, tensor));
}

/** The activated tensor, the tensor that it multiplies, and their layout if both are parts of one row. */
interface FoundGate {
  readonly activation: ExpertActivation;
  readonly gate: string;
  readonly up: string;
}

/** `swish(gate) * up`, both with bounds or without: `g * sigmoid(alpha g) * (u + beta)`. */
export function findGate(index: GraphIndex, tensor: string): FoundGate | undefined {
  const node = producerBehind(index, tensor);
  if (node?.opType !== "Mul") return undefined;
  for (const [left, right] of [node.inputs, node.inputs.toReversed()] as [string, string][]) {
    const swish = findSwish(index, left);
    if (swish === undefined) continue;
    const up = findBounded(index, right);
    const gate = findBounded(index, swish.input);
    const parts = listParts(index, gate.input, up.input);
    // Only the activated tensor's upper bound counts.
    const isKnown = gate.limit === up.limit && gate.lower === -Infinity &&
      up.lower === -up.limit && gate.beta === 0;
    if (parts === undefined || !isKnown) return undefined;
    const { order } = parts;
    const { beta } = up;
    const { limit } = gate;
    return {
      activation: { kind: "silu", alpha: swish.alpha, gate: { order, beta, limit } },
      gate: parts.gate,
      up: parts.up,
    };
  }
  return undefined;
}

/** `x * sigmoid(alpha x)`. */
function findSwish(
  index: GraphIndex,
  tensor: string,
): { readonly input: string; readonly alpha: number } | undefined {
  const node = producerBehind(index, tensor);
  if (node?.opType === "Swish" || node?.opType === "QuickGelu") return undefined;
  if (node?.opType !== "Mul") return undefined;
  const pair = eitherInput(node, (name) => {
    const sigmoid = producerBehind(index, name);
    return sigmoid?.opType === "Sigmoid" ? sigmoid : undefined;
  });
  if (pair === undefined) return undefined;
  const input = elementsBehind(index, pair.other);
  const argument = elementsBehind(index, pair.found.inputs[0]!);
  if (argument === input) return { input, alpha: 1 };
  const scaled = index.producers.get(argument);
  const factor = scaled?.opType === "Mul"
    ? eitherInput(scaled, (name) => readScalar(index, name))
    : undefined;
  if (factor === undefined || elementsBehind(index, factor.other) !== input) return undefined;
  return { input, alpha: factor.found };
}

/** `clip(x, lower, limit) + beta`. */
interface Bounded {
  readonly input: string;
  readonly lower: number;
  readonly limit: number;
  readonly beta: number;
}

/** Any part of the expression may be missing. */
function findBounded(index: GraphIndex, tensor: string): Bounded {
  const whole = elementsBehind(index, tensor);
  const add = index.producers.get(whole);
  const sum = add?.opType === "Add"
    ? eitherInput(add, (name) => readScalar(index, name))
    : undefined;
  const beta = sum?.found ?? 0;
  const input = sum === undefined ? whole : elementsBehind(index, sum.other);
  const clip = index.producers.get(input);
  const plain = { input, lower: -Infinity, limit: Infinity, beta };
  if (clip?.opType !== "Clip") return plain;
  const [, lower, limit] = clip.inputs.map((name) => name === "" ? null : readScalar(index, name));
  if (lower === undefined || typeof limit !== "number") return plain;
  return { input: elementsBehind(index, clip.inputs[0]!), lower: lower ?? -Infinity, limit, beta };
}

type Order = NonNullable<ExpertActivation["gate"]>["order"];

/** The two operands: halves of a row, alternating elements of it, or two tensors. */
function listParts(
  index: GraphIndex,
  gate: string,
  up: string,
): { readonly order: Order; readonly gate: string; readonly up: string } | undefined {
  const [one, two] = [index.producers.get(gate), index.producers.get(up)];
  if (one?.opType === "Split" && one === two) {
    const [whole] = one.inputs as [string];
    const isFirst = one.outputs[0] === gate && one.outputs[1] === up && one.outputs.length === 2;
    return isFirst ? { order: "halves", gate: whole, up: whole } : undefined;
  }
  if (one?.opType === "Slice" && two?.opType === "Slice" && one.inputs[0] === two.inputs[0]) {
    const [whole] = one.inputs as [string];
    const [start, other] = [one, two].map(({ inputs }) => readInteger(index, inputs[1]));
    const steps = [one, two].map(({ inputs }) => readInteger(index, inputs[4]) ?? 1);
    if (start !== 0) return undefined;
    if (steps.every((step) => step === 2) && other === 1) {
      return { order: "interleaved", gate: whole, up: whole };
    }
    // One begins where the other ends.
    const isNext = one.inputs[2] === two.inputs[1] ||
      readInteger(index, one.inputs[2]) === other;
    const isHalf = steps.every((step) => step === 1) && isNext;
    return isHalf ? { order: "halves", gate: whole, up: whole } : undefined;
  }
  return { order: "halves", gate, up };
}

function readInteger(index: GraphIndex, name: string | undefined): number | undefined {
  const values = readIntegers(index, name);
  return values?.length === 1 ? values[0] : readScalar(index, name);
}

/** The router behind the chosen experts' weights. */
interface SpelledRouter {
  readonly router: Router;
  readonly logits: string;
  readonly topK: number;
}

/**
 * The router whose choice is `indices`: a softmax before or after the choice, or sigmoids and a bias.
 *
 * @param weights those of the chosen experts.
 */
export function findSpelledRouter(
  index: GraphIndex,
  { weights, indices, experts }: {
    readonly weights: string;
    readonly indices: string;
    readonly experts: number;
  },
): SpelledRouter | undefined {
  const top = index.producers.get(indices);
  const topK = top?.opType === "TopK" && top.outputs[1] === indices
    ? readInteger(index, top.inputs[1])
    : undefined;
  if (top === undefined || topK === undefined || intAttribute(top, "largest") === 0) {
    return undefined;
  }
  const [values] = top.outputs as [string];
  const choice = elementsBehind(index, top.inputs[0]!);
  const { name, scale } = withoutScale(index, elementsBehind(index, weights));
  const plain = { epsilon: 0, scale, prefersLast: false } as const;
  const node = index.producers.get(name);
  if (node?.opType === "Softmax" && elementsBehind(index, node.inputs[0]!) === values) {
    return { router: { ...plain, scores: "softmax", normalizes: true }, logits: choice, topK };
  }
  const { share, epsilon, normalizes } = withoutSum(index, name);
  const ratio = { ...plain, epsilon, normalizes };
  const softmax = index.producers.get(choice);
  if (share === values && softmax?.opType === "Softmax") {
    const logits = elementsBehind(index, softmax.inputs[0]!);
    return { router: { ...ratio, scores: "softmax" }, logits, topK };
  }
  const gather = index.producers.get(share);
  const scores = share === values
    ? choice
    : gather?.opType === "GatherElements" && gather.inputs[1] === indices
    ? elementsBehind(index, gather.inputs[0]!)
    : undefined;
  if (scores === undefined) return undefined;
  const logits = findSigmoidLogits(index, scores);
  const bias = choiceBy(index, choice, scores, experts);
  if (logits === undefined || bias === undefined) return undefined;
  return {
    router: { ...ratio, scores: "sigmoid", ...bias },
    logits: elementsBehind(index, logits),
    topK,
  };
}

function withoutScale(index: GraphIndex, name: string): { name: string; scale: number } {
  const node = index.producers.get(name);
  const factor = node?.opType === "Mul"
    ? eitherInput(node, (input) => readScalar(index, input))
    : undefined;
  return factor === undefined
    ? { name, scale: 1 }
    : { name: elementsBehind(index, factor.other), scale: factor.found };
}

/** `share / (sum of shares + epsilon)`. */
function withoutSum(
  index: GraphIndex,
  name: string,
): { readonly share: string; readonly epsilon: number; readonly normalizes: boolean } {
  const plain = { share: name, epsilon: 0, normalizes: false };
  const node = index.producers.get(name);
  if (node?.opType !== "Div") return plain;
  const share = elementsBehind(index, node.inputs[0]!);
  let sum = producerBehind(index, node.inputs[1]);
  let epsilon = 0;
  if (sum?.opType === "Add") {
    const added = eitherInput(sum, (input) => readScalar(index, input));
    if (added === undefined) return plain;
    epsilon = added.found;
    sum = producerBehind(index, added.other);
  }
  const isSum = sum?.opType === "ReduceSum" && elementsBehind(index, sum.inputs[0]!) === share;
  return isSum ? { share, epsilon, normalizes: true } : plain;
}
