/**
 * Recognizes norms in a graph, as one operator or spelled out.
 *
 * @module
 */
import type { NormParams } from "../../kernels/matmul/matvec_params.ts";
import { countElements } from "../graph/file/tensor.ts";
import {
  describeNode,
  eitherInput,
  followBack,
  type GraphIndex,
  readScalar,
  readVector,
} from "../graph/graph_index.ts";
import {
  type Node,
  readFloatAttribute,
  readIntAttribute,
  type Tensor,
} from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";
import { EPSILON, findCentred, findMean, findSquared } from "../graph/rewrite/plain_norms.ts";

const CASTS = new Set(["Cast"]);

/** A norm over the last axis. */
export interface FoundNorm {
  readonly node: Node;
  readonly params: NormParams;
  readonly gamma: Tensor;
  readonly beta?: Tensor | undefined;
  /** The tensor that is normalised, or the two tensors whose sum is normalised. */
  readonly inputs: readonly string[];
}

/** A tensor that is divided by its standard deviation or its root mean square. */
type Normalized = Pick<NormParams, "kind" | "epsilon"> & { readonly input: string };

/** Returns the norm that computes a tensor, as one operator or spelled out. */
export function findNorm(index: GraphIndex, name: string): FoundNorm | undefined {
  const node = index.producers.get(name);
  if (node === undefined || node.outputs[0] !== name) return undefined;
  return readOperator(index, node) ?? matchShifted(index, node) ?? matchFactored(index, node);
}

function readOperator(index: GraphIndex, node: Node): FoundNorm | undefined {
  const { opType, inputs } = node;
  const isSkip = opType.startsWith("Skip");
  const plain = isSkip ? opType.slice("Skip".length) : opType;
  if (
    plain !== "SimplifiedLayerNormalization" && plain !== "RMSNormalization" &&
    plain !== "LayerNormalization"
  ) return undefined;
  const kind = plain === "LayerNormalization" ? "layer" : "rms";
  const [gammaName, betaName] = isSkip ? inputs.slice(2) : inputs.slice(1);
  const gamma = readFactors(index, gammaName ?? "");
  const beta = kind === "layer" ? readVector(index, betaName) : undefined;
  if (kind === "layer" && betaName && beta === undefined) return undefined;
  const axis = readIntAttribute(node, "axis") ?? -1;
  // The last axis of `[1, tokens, width]`, or of heads, which have one axis more.
  if (gamma === undefined || (axis !== -1 && axis !== 2)) return undefined;
  const epsilon = readFloatAttribute(node, "epsilon") ?? 1e-5;
  return {
    node,
    params: { kind, epsilon, hasBeta: beta !== undefined },
    gamma,
    beta,
    inputs: isSkip ? inputs.slice(0, 2) : inputs.slice(0, 1),
  };
}

/** The bias that a norm of a sum adds to the sum. @throws {Refusal} when it is not a constant vector. */
export function readSkipBias(index: GraphIndex, node: Node): Tensor | undefined {
  if (!node.opType.startsWith("Skip")) return undefined;
  const name = node.inputs[node.opType === "SkipLayerNormalization" ? 4 : 3];
  if (!name) return undefined;
  const bias = readVector(index, name);
  if (bias !== undefined) return bias;
  throw new Refusal(`The bias of ${describeNode(node)} is not a constant vector.`);
}

/** Matches `norm(x) * gamma + beta`, spelled out. */
function matchShifted(index: GraphIndex, node: Node): FoundNorm | undefined {
  if (node.opType !== "Add") return undefined;
  const beta = eitherInput(node, (input) => readVector(index, input));
  const product = beta && index.producers.get(beta.other);
  const norm = product && matchFactored(index, product);
  if (norm?.params.kind !== "layer" || norm.gamma.shape[0] !== beta!.found.shape.at(-1)) {
    return undefined;
  }
  return { ...norm, node, params: { ...norm.params, hasBeta: true }, beta: beta!.found };
}

/** Matches `norm(x) * gamma`, spelled out. Casts between the mean and the factors only change the rounding. */
function matchFactored(index: GraphIndex, node: Node): FoundNorm | undefined {
  if (node.opType !== "Mul") return undefined;
  const pair = eitherInput(node, (input) => readFactors(index, input));
  const normalized = pair && matchNormalized(index, followBack(index, pair.other, CASTS));
  if (normalized === undefined) return undefined;
  const { kind, epsilon, input } = normalized;
  return { node, params: { kind, epsilon, hasBeta: false }, gamma: pair!.found, inputs: [input] };
}

/** Reads a constant vector, or a constant vector plus 1. */
function readFactors(index: GraphIndex, name: string): Tensor | undefined {
  const node = index.producers.get(name);
  const plusOne = node?.opType === "Add"
    ? eitherInput(node, (input) => readScalar(index, input) === 1 || undefined)
    : undefined;
  const vector = readVector(index, plusOne?.other ?? name);
  if (vector === undefined || vector.shape.length !== 1 || countElements(vector.shape) < 2) {
    return undefined;
  }
  return plusOne ? addOne(vector, name) : vector;
}

function addOne(source: Tensor, name: string): Tensor | undefined {
  const { dtype, shape } = source;
  if (dtype !== "float32" && dtype !== "float16") return undefined;
  const Floats = dtype === "float32" ? Float32Array : Float16Array;
  const length = countElements(shape) * Floats.BYTES_PER_ELEMENT;
  const compute = ([bytes]: readonly Uint8Array[], into: Uint8Array) => {
    const sums = new Floats(bytes!.slice().buffer).map((value) => value + 1);
    into.set(new Uint8Array(sums.buffer));
  };
  return {
    name,
    dtype,
    shape,
    data: { kind: "computed", sources: [source], length, compute },
    rest: [],
  };
}

/** Matches `x * (1 / √v)` or `x / √v`, where `v` is the mean square of `x`, possibly plus epsilon. */
function matchNormalized(index: GraphIndex, name: string): Normalized | undefined {
  const node = index.producers.get(name);
  if (node === undefined) return undefined;
  const [left, right] = node.inputs as [string, string];
  const pairs = node.opType === "Mul"
    ? [[left, findUnderRoot(index, right, -1)], [right, findUnderRoot(index, left, -1)]] as const
    : node.opType === "Div"
    ? [[left, findUnderRoot(index, right, 1)]] as const
    : [];
  for (const [numerator, variance] of pairs) {
    const sum = index.producers.get(variance ?? "");
    const added = sum?.opType === "Add"
      ? eitherInput(sum, (input) => readScalar(index, input))
      : undefined;
    const square = variance && findMean(index, added?.other ?? variance);
    const root = square && findSquared(index, square);
    if (
      root === undefined || followBack(index, root, CASTS) !== followBack(index, numerator, CASTS)
    ) {
      continue;
    }
    const epsilon = added?.found ?? EPSILON;
    return { ...matchCentred(index, followBack(index, numerator, CASTS)), epsilon };
  }
  return undefined;
}

/** Finds `v` if a tensor is `√v` (power 1) or `1 / √v` (power -1). */
function findUnderRoot(index: GraphIndex, name: string, power: 1 | -1): string | undefined {
  const node = index.producers.get(name);
  if (node === undefined) return undefined;
  const [input, exponent] = node.inputs as [string, string?];
  if (node.opType === "Pow") return readScalar(index, exponent) === power / 2 ? input : undefined;
  if (power === 1) return node.opType === "Sqrt" ? input : undefined;
  if (node.opType === "Reciprocal") return findUnderRoot(index, input, 1);
  const isInverse = node.opType === "Div" && readScalar(index, input) === 1;
  return isInverse ? findUnderRoot(index, exponent!, 1) : undefined;
}

/**
 * Finds the input `x` of a layer norm if `name` is `x - mean(x)`. Any other tensor is the input of a norm by root mean
 * square.
 */
function matchCentred(index: GraphIndex, name: string): Pick<Normalized, "kind" | "input"> {
  const input = findCentred(index, name);
  return input === undefined
    ? { kind: "rms", input: name }
    : { kind: "layer", input: followBack(index, input, CASTS) };
}
