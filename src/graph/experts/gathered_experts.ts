/**
 * Mixtures of experts whose matrices are gathered for each row and multiplied in a batch, and the gates of spelled-out
 * experts. PyTorch's exports of transformers 5 (`batched_mm`) compute experts this way, and so does onnxruntime-genai's
 * builder for devices without `MoE`.
 *
 * @module
 */
import { getName } from "../attention/attention.ts";
import { eitherInput, type GraphIndex, readIntegers, readScalar } from "../graph_index.ts";
import { countElements } from "../file/tensor.ts";
import { type Node, readIntAttribute, readIntsAttribute, type Tensor } from "../file/proto.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { findElements, findProducer, findSpelledRouter, REPEATING } from "./find_router.ts";
import {
  type ExpertWeights,
  type FoundMixture,
  type MixtureSearch,
  transposeExperts,
} from "./mixture.ts";
import type { ExpertActivation } from "../../../kernels/experts/experts_params.ts";

/** A product of rows with the matrices of the experts in `indices`. */
interface GatheredProduct {
  readonly indices: string;
  readonly input: string;
  readonly weights: ExpertWeights;
}

/** Finds a mixture of experts by the sum over the chosen experts. */
export function findGatheredExperts(node: Node, search: MixtureSearch): FoundMixture | undefined {
  if (node.opType !== "ReduceSum") return undefined;
  const { index } = search;
  const weighed = findProducer(index, node.inputs[0]);
  if (weighed?.opType !== "Mul") return undefined;
  for (const [left, right] of [weighed.inputs, weighed.inputs.toReversed()] as [string, string][]) {
    const second = findProduct(index, left);
    if (second === undefined) continue;
    const gate = findGate(index, second.input);
    const first = gate && gate.gate === gate.up ? findProduct(index, gate.gate) : undefined;
    if (gate === undefined || first === undefined || first.indices !== second.indices) {
      return undefined;
    }
    const [experts, hidden, inner] = second.weights.weights.shape as [number, number, number];
    const found = findSpelledRouter(search, { weights: right, indices: first.indices, experts });
    const x = findRepeatedRows(search, first.input, hidden);
    const isWhole = first.weights.weights.shape.join() === [experts, 2 * inner, hidden].join() &&
      isOverChosen(search, node, hidden);
    if (found === undefined || x === undefined || !isWhole) return undefined;
    const { router, logits, topK } = found;
    const { activation } = gate;
    return {
      name: getName(node),
      mixture: {
        ...{ experts, topK, hidden, inner, router, activation },
        first: first.weights,
        second: second.weights,
      },
      ...{ x, logits, output: findCastAfter(index, node) },
    };
  }
  return undefined;
}

/**
 * Whether a sum adds up the chosen experts of each token. A tensor of unknown shape is taken to be
 * `[tokens, chosen, hidden]`.
 */
function isOverChosen({ index, probes }: MixtureSearch, node: Node, hidden: number): boolean {
  const { numTokens } = SHORT_LENGTHS[0];
  const shapes = [node.inputs[0]!, node.outputs[0]!].map((name) =>
    probes.at(SHORT_LENGTHS[0]).value(name)?.shape
  );
  const [before, after] = shapes.map((shape) => shape?.filter((size) => size !== 1));
  if (before !== undefined) {
    return before[0] === numTokens && after?.join() === [numTokens, hidden].join();
  }
  const axes = readIntsAttribute(node, "axes") ?? readIntegers(index, node.inputs[1]);
  return axes?.length === 1 && (axes[0] === 1 || axes[0] === -2);
}

/** Matches `W[indices] · x + b[indices]`, or the same with the matrix on the right. */
function findProduct(index: GraphIndex, tensor: string): GatheredProduct | undefined {
  const node = findProducer(index, tensor);
  if (node?.opType === "Add") {
    for (const [left, right] of [node.inputs, node.inputs.toReversed()] as [string, string][]) {
      const bias = findGathered(index, right);
      const product = bias && findProduct(index, left);
      if (product === undefined || bias?.indices !== product.indices) continue;
      return { ...product, weights: { ...product.weights, bias: bias.constant } };
    }
    return undefined;
  }
  if (node?.opType !== "MatMul") return undefined;
  const [left, right] = node.inputs as [string, string];
  const [matrix, transposed] = [findGathered(index, left), findGathered(index, right)];
  const found = matrix ?? transposed;
  if (found?.constant.shape.length !== 3) return undefined;
  const weights = matrix === undefined ? transposeExperts(found.constant) : found.constant;
  return {
    indices: found.indices,
    input: matrix === undefined ? left : right,
    weights: { matrix: { kind: "rows" }, weights },
  };
}

/** Finds the constant from whose first axis a tensor is gathered. */
function findGathered(
  index: GraphIndex,
  tensor: string,
): { readonly constant: Tensor; readonly indices: string } | undefined {
  const node = findProducer(index, tensor);
  if (node?.opType !== "Gather" && node?.opType !== "GatherND") return undefined;
  const constant = index.constants.get(node.inputs[0]!);
  if (readIntAttribute(node, "axis") || readIntAttribute(node, "batch_dims")) return undefined;
  return constant && { constant, indices: findElements(index, node.inputs[1]!) };
}

/** Finds the rows that a tensor repeats for each chosen expert. */
function findRepeatedRows(
  { index, probes }: MixtureSearch,
  tensor: string,
  hidden: number,
): string | undefined {
  const name = findElements(index, tensor, REPEATING);
  const shape = probes.at(SHORT_LENGTHS[0]).value(name)?.shape;
  const wanted = SHORT_LENGTHS[0].numTokens * hidden;
  return shape !== undefined && countElements(shape) === wanted ? name : undefined;
}

/** The result of the sum or, if a cast follows, the result of the cast: some graphs compute only the sum in f32. */
function findCastAfter(index: GraphIndex, node: Node): string {
  let [output] = node.outputs as [string];
  for (let next = index.onlyConsumer(output); next; next = index.onlyConsumer(output)) {
    if (!["Cast", "Squeeze", "Reshape"].includes(next.opType)) break;
    if (next.opType === "Cast") return next.outputs[0]!;
    output = next.outputs[0]!;
  }
  return node.outputs[0]!;
}

/**
 * An activation with a gate: the activated tensor `gate` and the tensor `up`. The two names are equal if both are parts
 * of the rows of one tensor.
 */
interface FoundGate {
  readonly activation: ExpertActivation;
  readonly gate: string;
  readonly up: string;
}

/** Matches `g * sigmoid(alpha g) * (u + beta)`, where both `g` and `u` may be clipped. */
export function findGate(index: GraphIndex, tensor: string): FoundGate | undefined {
  const node = findProducer(index, tensor);
  if (node?.opType !== "Mul") return undefined;
  for (const [left, right] of [node.inputs, node.inputs.toReversed()] as [string, string][]) {
    const swish = findSwish(index, left);
    if (swish === undefined) continue;
    const up = findBounded(index, right);
    const gate = findBounded(index, swish.input);
    const parts = listParts(index, gate.input, up.input);
    // The gate may only have an upper bound. `up` must have the same upper bound, and its negative as the lower bound.
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

/** Matches `x * sigmoid(alpha x)`. */
function findSwish(
  index: GraphIndex,
  tensor: string,
): { readonly input: string; readonly alpha: number } | undefined {
  const node = findProducer(index, tensor);
  if (node?.opType === "Swish" || node?.opType === "QuickGelu") return undefined;
  if (node?.opType !== "Mul") return undefined;
  const pair = eitherInput(node, (name) => {
    const sigmoid = findProducer(index, name);
    return sigmoid?.opType === "Sigmoid" ? sigmoid : undefined;
  });
  if (pair === undefined) return undefined;
  const input = findElements(index, pair.other);
  const argument = findElements(index, pair.found.inputs[0]!);
  if (argument === input) return { input, alpha: 1 };
  const scaled = index.producers.get(argument);
  const factor = scaled?.opType === "Mul"
    ? eitherInput(scaled, (name) => readScalar(index, name))
    : undefined;
  if (factor === undefined || findElements(index, factor.other) !== input) return undefined;
  return { input, alpha: factor.found };
}

/** The expression `clip(x, lower, limit) + beta`. */
interface Bounded {
  readonly input: string;
  readonly lower: number;
  readonly limit: number;
  readonly beta: number;
}

/** Matches `clip(x, lower, limit) + beta`, any part of which may be missing; `min(x, limit)` counts as a clip too. */
function findBounded(index: GraphIndex, tensor: string): Bounded {
  const whole = findElements(index, tensor);
  const add = index.producers.get(whole);
  const sum = add?.opType === "Add"
    ? eitherInput(add, (name) => readScalar(index, name))
    : undefined;
  const beta = sum?.found ?? 0;
  const input = sum === undefined ? whole : findElements(index, sum.other);
  const clip = index.producers.get(input);
  const plain = { input, lower: -Infinity, limit: Infinity, beta };
  if (clip?.opType === "Min" && clip.inputs.length === 2) {
    const least = eitherInput(clip, (name) => readScalar(index, name));
    if (least === undefined) return plain;
    return { ...plain, input: findElements(index, least.other), limit: least.found };
  }
  if (clip?.opType !== "Clip") return plain;
  const [, lower, limit] = clip.inputs.map((name) => name === "" ? null : readScalar(index, name));
  if (lower === undefined || typeof limit !== "number") return plain;
  return { input: findElements(index, clip.inputs[0]!), lower: lower ?? -Infinity, limit, beta };
}

type Order = NonNullable<ExpertActivation["gate"]>["order"];

/** Finds the operands of a gate: halves of a row, alternating elements of a row, or two tensors. */
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
    const [start, other] = [one, two].map(({ inputs }) => readScalar(index, inputs[1]));
    const steps = [one, two].map(({ inputs }) => readScalar(index, inputs[4]) ?? 1);
    if (start !== 0) return undefined;
    if (steps.every((step) => step === 2) && other === 1) {
      return { order: "interleaved", gate: whole, up: whole };
    }
    // The second part begins where the first ends.
    const isNext = one.inputs[2] === two.inputs[1] ||
      readScalar(index, one.inputs[2]) === other;
    const isHalf = steps.every((step) => step === 1) && isNext;
    return isHalf ? { order: "halves", gate: whole, up: whole } : undefined;
  }
  return { order: "halves", gate, up };
}
