/**
 * Mixtures of experts whose matrices are gathered for each row and multiplied in a batch: PyTorch's exports of transformers
 * 5 (`batched_mm`), and onnxruntime-genai's builder for devices without `MoE`.
 *
 * @module
 */
import { getName } from "../attention/attention.ts";
import { type GraphIndex, readIntegers } from "../graph_index.ts";
import { countElements } from "../file/dtype.ts";
import { intAttribute, intsAttribute, type Node, type Tensor } from "../file/proto.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { elementsBehind } from "./find_router.ts";
import type { ExpertWeights, FoundMixture, MixtureSearch } from "./mixture.ts";
import { findGate, findSpelledRouter, producerBehind } from "./spelled_parts.ts";
import { transposeExperts } from "./join_weights.ts";

/** A product of rows with the matrices of experts that `indices` names. */
interface GatheredProduct {
  readonly indices: string;
  readonly input: string;
  readonly weights: ExpertWeights;
}

/** A sum over the chosen experts. */
export function findGatheredExperts(node: Node, search: MixtureSearch): FoundMixture | undefined {
  if (node.opType !== "ReduceSum") return undefined;
  const { index } = search;
  const weighed = producerBehind(index, node.inputs[0]);
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
    const found = findSpelledRouter(index, { weights: right, indices: first.indices, experts });
    const x = rowsBehind(search, first.input, hidden);
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
      ...{ x, logits, output: castAfter(index, node) },
    };
  }
  return undefined;
}

/**
 * Whether a sum adds up the chosen experts of each token; what is summed is taken for `[tokens, chosen, hidden]` if its
 * shape is unknown.
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
  const axes = intsAttribute(node, "axes") ?? readIntegers(index, node.inputs[1]);
  return axes?.length === 1 && (axes[0] === 1 || axes[0] === -2);
}

/** `W[indices] · x + b[indices]`, or with the matrix on the right. */
function findProduct(index: GraphIndex, tensor: string): GatheredProduct | undefined {
  const node = producerBehind(index, tensor);
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

/** Rows of a constant along its first axis. */
function findGathered(
  index: GraphIndex,
  tensor: string,
): { readonly constant: Tensor; readonly indices: string } | undefined {
  const node = producerBehind(index, tensor);
  if (node?.opType !== "Gather" && node?.opType !== "GatherND") return undefined;
  const constant = index.constants.get(node.inputs[0]!);
  if (intAttribute(node, "axis") || intAttribute(node, "batch_dims")) return undefined;
  return constant && { constant, indices: elementsBehind(index, node.inputs[1]!) };
}

/** The rows that are repeated for each of their experts. */
function rowsBehind(
  { index, probes }: MixtureSearch,
  tensor: string,
  hidden: number,
): string | undefined {
  let name = elementsBehind(index, tensor);
  for (
    let node = index.producers.get(name);
    node?.opType === "Expand" || node?.opType === "Tile";
    node = index.producers.get(name)
  ) name = elementsBehind(index, node.inputs[0]!);
  const shape = probes.at(SHORT_LENGTHS[0]).value(name)?.shape;
  const wanted = SHORT_LENGTHS[0].numTokens * hidden;
  return shape !== undefined && countElements(shape) === wanted ? name : undefined;
}

/** The result after a cast to the graph's own type, if only the sum is in f32. */
function castAfter(index: GraphIndex, node: Node): string {
  let [output] = node.outputs as [string];
  for (let next = index.onlyConsumer(output); next; next = index.onlyConsumer(output)) {
    if (!["Cast", "Squeeze", "Reshape"].includes(next.opType)) break;
    if (next.opType === "Cast") return next.outputs[0]!;
    output = next.outputs[0]!;
  }
  return node.outputs[0]!;
}
