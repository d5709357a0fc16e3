/**
 * Mixtures of experts that are written as an unrolled loop over the experts. Either each expert computes only the rows
 * that chose it, as in PyTorch's exports of Qwen3-MoE and Mixtral. Or it computes all rows, which are then multiplied
 * by its share: zero if a row did not choose it. Products may be quantised.
 *
 * @module
 */
import type { ExpertMatrix } from "../../../kernels/experts/experts_params.ts";
import { getName } from "../attention/attention.ts";
import {
  describeNode,
  eitherInput,
  type GraphIndex,
  readIntegers,
  readScalar,
  readVector,
} from "../graph_index.ts";
import { toValue } from "../evaluate/value.ts";
import {
  type Node,
  readIntAttribute,
  readIntsAttribute,
  readStringAttribute,
  readTensorAttribute,
  type Tensor,
} from "../file/proto.ts";
import { decodeTensorMessage } from "../file/proto_codec.ts";
import type { StoredTensor } from "../file/tensor.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { findElements, findProducer, findSpelledRouter, REPEATING } from "./find_router.ts";
import {
  type ExpertWeights,
  type FoundMixture,
  joinHalves,
  type MixtureSearch,
  stackExperts,
  takeExpert,
  transposeMatrix,
} from "./mixture.ts";
import { findGate } from "./gathered_experts.ts";

/** A product with the matrix of one expert. */
interface ExpertProduct {
  readonly input: string;
  readonly matrix: ExpertMatrix | "columns";
  readonly k: number;
  readonly outputs: number;
  readonly weights: StoredTensor;
  readonly scales?: Tensor | undefined;
  readonly zeroPoints?: Tensor | undefined;
  readonly bias?: Tensor | undefined;
}

/** An expert that was found in a graph. */
interface FoundExpert {
  readonly expert: number;
  /** Absent if the expert computes all rows. */
  readonly numExperts?: number;
  readonly indices: string;
  readonly weights: string;
  readonly x: string;
  readonly activation: FoundMixture["mixture"]["activation"];
  /** One product that computes both gate and up, or one product for each. */
  readonly first: readonly ExpertProduct[];
  readonly second: ExpertProduct;
}

/** Rows that are added to the sum over all experts. */
interface Term {
  /** Indices of the rows; all rows if absent. */
  readonly indices?: string;
  readonly updates: string;
}

/** Finds a mixture of experts by the last node of the sum over all experts. */
export function findLoopedExperts(
  node: Node,
  search: MixtureSearch,
): FoundMixture | undefined {
  const { index, probes } = search;
  const isSum = node.opType === "Add" || node.opType.startsWith("Scatter");
  const terms = isSum ? listTerms(index, node.outputs[0]!) : undefined;
  if (terms === undefined || terms.length < 2) return undefined;
  const found = terms.map((term) => findExpert(index, term));
  const experts = found.filter((each) => each !== undefined)
    .toSorted((a, b) => a.expert - b.expert);
  const [one] = experts;
  if (one === undefined || experts.length !== terms.length) return undefined;
  const { numExperts = terms.length, indices, weights, x, activation } = one;
  const isWhole = experts.length === numExperts &&
    experts.every((each, e) =>
      each.expert === e && each.indices === indices && each.weights === weights && each.x === x &&
      JSON.stringify(each.activation) === JSON.stringify(activation)
    );
  if (!isWhole) return undefined;
  const router = findSpelledRouter(search, { weights, indices, experts: numExperts });
  const numLogits = router && probes.at(SHORT_LENGTHS[0]).value(router.logits)?.shape.at(-1);
  // These are only some of the experts: a later node adds the rest.
  if (numLogits !== undefined && numLogits > numExperts) return undefined;
  if (router === undefined) {
    if (one.numExperts === undefined) return undefined;
    throw new Refusal(`Hearth does not know the router before ${describeNode(node)}.`);
  }
  const parts = one.first.map((_, i) => stackProducts(experts.map(({ first }) => first[i]!)));
  const [gate, up] = parts as [ExpertWeights, ExpertWeights?];
  return {
    name: getName(node),
    mixture: {
      ...{ experts: numExperts, topK: router.topK, router: router.router, activation },
      hidden: one.second.outputs,
      inner: one.second.k,
      first: up === undefined ? gate : joinHalves(gate, up),
      second: stackProducts(experts.map(({ second }) => second)),
    },
    ...{ x, logits: router.logits, output: node.outputs[0]! },
  };
}

/** Lists the terms of the sum over all experts: an expert's results for all rows, or for the rows at some indices. */
function listTerms(index: GraphIndex, tensor: string): Term[] | undefined {
  const node = findProducer(index, tensor);
  if (node?.opType === "ConstantOfShape") return isAllZeros(node) ? [] : undefined;
  if (node?.opType === "Add") {
    const [left, right] = node.inputs.map((input) => listTerms(index, input));
    return left && right && [...left, ...right];
  }
  if (node?.opType === "Mul") {
    return eitherInput(node, (input) => findShare(index, input)) && [{ updates: tensor }];
  }
  if (node?.opType !== "ScatterElements" && node?.opType !== "ScatterND") return undefined;
  const [data, indices, updates] = node.inputs as [string, string, string];
  const before = listTerms(index, data);
  // An expert computes a token's row at most once, so the first expert may overwrite the zeros. Later ones must add.
  const adds = before?.length === 0 || readStringAttribute(node, "reduction") === "add";
  return before && adds ? [...before, { indices, updates }] : undefined;
}

function isAllZeros(node: Node): boolean {
  const value = readTensorAttribute(node, "value");
  return value === undefined ||
    !toValue(decodeTensorMessage(value))?.data?.some((each) => each !== 0);
}

/**
 * Matches an expert's share of each row: the sum of the row's weights, after those of other experts are set to zero.
 */
function findShare(
  index: GraphIndex,
  tensor: string,
): Pick<FoundExpert, "expert" | "indices" | "weights"> | undefined {
  const sum = findProducer(index, tensor);
  const masked = sum?.opType === "ReduceSum" ? index.producers.get(sum.inputs[0]!) : undefined;
  if (masked?.opType !== "Mul") return undefined;
  const mask = eitherInput(masked, (input) => {
    const equal = findProducer(index, input);
    const expert = equal?.opType === "Equal"
      ? eitherInput(equal, (name) => readScalar(index, name))
      : undefined;
    return expert && { expert: expert.found, indices: findElements(index, expert.other) };
  });
  return mask && { ...mask.found, weights: findElements(index, mask.other) };
}

/** Finds an expert that computes all rows. */
function findWholeExpert(index: GraphIndex, updates: string): FoundExpert | undefined {
  const share = eitherInput(
    index.producers.get(findElements(index, updates))!,
    (input) => findShare(index, input),
  );
  const second = share && findProduct(index, share.other);
  const products = second && findFirst(index, second);
  if (products === undefined) return undefined;
  const [x, ...others] = products.first.map(({ input }) => findElements(index, input));
  return others.every((other) => other === x)
    ? { ...share!.found, ...products, second: second!, x: x! }
    : undefined;
}

/** Finds the activation and the products before an expert's second product. */
function findFirst(
  index: GraphIndex,
  { input, k, outputs }: ExpertProduct,
): Pick<FoundExpert, "activation" | "first"> | undefined {
  const gate = findGate(index, input);
  if (gate === undefined) return undefined;
  const names = gate.gate === gate.up ? [gate.gate] : [gate.gate, gate.up];
  const first = names.map((name) => findProduct(index, name));
  if (!first.every((product) => product !== undefined)) return undefined;
  const isWhole = first.every((product) =>
    product.k === outputs && product.outputs * first.length === 2 * k
  );
  return isWhole ? { activation: gate.activation, first } : undefined;
}

function findExpert(index: GraphIndex, { indices: at, updates }: Term): FoundExpert | undefined {
  if (at === undefined) return findWholeExpert(index, updates);
  const rows = findElements(index, at, REPEATING);
  const choice = findChoice(index, rows);
  const weighed = index.producers.get(findElements(index, updates, REPEATING));
  if (choice === undefined || weighed?.opType !== "Mul") return undefined;
  for (const [left, right] of [weighed.inputs, weighed.inputs.toReversed()] as [string, string][]) {
    const second = findProduct(index, left);
    const share = findProducer(index, right);
    if (second === undefined || !share?.opType.startsWith("Gather")) continue;
    const products = findFirst(index, second);
    if (products === undefined) return undefined;
    const gathers = products.first.map(({ input }) => findProducer(index, input));
    const isOfRows = gathers.every((gather) =>
      gather?.opType === "Gather" && findElements(index, gather.inputs[1]!) === rows
    );
    const xs = gathers.map((gather) => findElements(index, gather?.inputs[0] ?? ""));
    if (!isOfRows || xs.some((x) => x !== xs[0])) return undefined;
    return {
      ...choice,
      weights: findElements(index, share.inputs[0]!),
      ...{ ...products, second, x: xs[0]! },
    };
  }
  return undefined;
}

/**
 * Finds the expert that computes these rows. They are listed as the non-zero elements of the expert's part of a one-hot
 * tensor.
 */
function findChoice(
  index: GraphIndex,
  rows: string,
): Pick<FoundExpert, "expert" | "indices"> & { numExperts: number } | undefined {
  const part = index.producers.get(rows);
  if (part?.opType !== "Split" && part?.opType !== "Gather") return undefined;
  let name = findElements(index, part.inputs[0]!);
  const transposed = index.producers.get(name);
  if (transposed?.opType === "Transpose") name = findElements(index, transposed.inputs[0]!);
  const found = index.producers.get(name);
  const mask = found?.opType === "NonZero" ? findProducer(index, found.inputs[0]) : undefined;
  if (mask?.opType !== "Gather") return undefined;
  const expert = readScalar(index, mask.inputs[1]);
  const swapped = findProducer(index, mask.inputs[0]);
  const oneHot = swapped?.opType === "Transpose"
    ? findProducer(index, swapped.inputs[0])
    : undefined;
  if (oneHot?.opType !== "OneHot" || expert === undefined) return undefined;
  const numExperts = readScalar(index, oneHot.inputs[1]);
  if (numExperts === undefined) return undefined;
  return { expert, numExperts, indices: findElements(index, oneHot.inputs[0]!) };
}

function findProduct(index: GraphIndex, tensor: string): ExpertProduct | undefined {
  const node = findProducer(index, tensor);
  if (node?.opType === "Add") {
    const biased = eitherInput(node, (input) => readVector(index, input));
    const product = biased && findProduct(index, biased.other);
    return product && { ...product, bias: biased.found };
  }
  if (node === undefined) return undefined;
  const [input] = node.inputs as [string];
  const weights = index.constants.get(node.inputs[1] ?? "");
  const taken = node.opType === "MatMul" ? findTakenMatrix(index, node.inputs[1]!) : undefined;
  if (taken !== undefined) {
    const [outputs, k] = taken.shape as [number, number];
    return { input, matrix: { kind: "rows" }, k, outputs, weights: taken };
  }
  if (weights === undefined) return undefined;
  if (node.opType === "MatMul" && weights.shape.length === 2) {
    const [k, outputs] = weights.shape as [number, number];
    return { input, matrix: "columns", k, outputs, weights };
  }
  if (node.opType !== "MatMulNBits") return undefined;
  const [k, outputs, blockSize] = ["K", "N", "block_size"].map((name) =>
    readIntAttribute(node, name)!
  ) as [number, number, number];
  const bits = readIntAttribute(node, "bits") ?? 4;
  const [, , scales, zeroPoints] = node.inputs.map((name) => index.constants.get(name));
  const isKnown = (bits === 4 || bits === 8) && (zeroPoints?.dtype ?? "uint8") === "uint8";
  if (!isKnown || scales === undefined || (node.inputs[4] ?? "") !== "") {
    throw new Refusal(`Hearth does not know the experts' product ${describeNode(node)}.`);
  }
  const hasZeroPoints = zeroPoints !== undefined;
  const matrix = { kind: "nbits", bits, blockSize, hasZeroPoints } as const;
  return { ...{ input, matrix, k, outputs, weights, scales, zeroPoints } };
}

/**
 * Finds the matrix `[outputs, k]` that a graph takes from those of all experts, `[experts, outputs, k]`, and
 * transposes.
 */
function findTakenMatrix(index: GraphIndex, name: string): StoredTensor | undefined {
  const transpose = index.producers.get(name);
  const perm = transpose && (readIntsAttribute(transpose, "perm") ?? [1, 0]);
  if (transpose?.opType !== "Transpose" || perm?.join() !== "1,0") return undefined;
  const gather = findProducer(index, transpose.inputs[0]);
  if (gather?.opType !== "Gather" || readIntAttribute(gather, "axis")) return undefined;
  const matrices = index.constants.get(gather.inputs[0]!);
  const expert = readIntegers(index, gather.inputs[1]);
  if (matrices?.shape.length !== 3 || expert?.length !== 1) return undefined;
  return takeExpert(matrices, expert[0]!);
}

/**
 * Stacks the weights of one product of all experts.
 *
 * @throws {Refusal} when their layouts differ.
 */
function stackProducts(products: readonly ExpertProduct[]): ExpertWeights {
  const [{ matrix, k, outputs, weights: own }] = products as [ExpertProduct];
  const stack = (
    key: "weights" | "scales" | "zeroPoints" | "bias",
    shape: readonly number[],
    transpose = (tensor: StoredTensor) => tensor,
  ) => {
    const tensors = products.map((product) => product[key]).filter((each) => each !== undefined);
    if (tensors.length === 0) return undefined;
    if (tensors.length < products.length) {
      throw new Refusal(`Only some of the experts around "${own.name}" have ${key}.`);
    }
    return stackExperts(tensors.map(transpose), shape);
  };
  const bias = stack("bias", [outputs]);
  if (matrix === "columns" || matrix.kind === "rows") {
    const isTransposed = matrix === "columns";
    const weights = stack("weights", [outputs, k], isTransposed ? transposeMatrix : undefined)!;
    return { matrix: { kind: "rows" }, weights, bias };
  }
  const blocks = k / matrix.blockSize;
  return {
    matrix,
    weights: stack("weights", [outputs, k * matrix.bits / 8])!,
    scales: stack("scales", [outputs, blocks]),
    zeroPoints: stack("zeroPoints", [outputs, Math.ceil(blocks * matrix.bits / 8)]),
    bias,
  };
}
