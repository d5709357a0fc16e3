/**
 * Replaces norms without factors by operators with constant factors: division by the Euclidean length
 * (`LpNormalization`, or spelled out as `x / √Σx²`) or by the root mean square, and layer norms (OLMo).
 *
 * @module
 */
import {
  attribute,
  type Graph,
  makeNode,
  type Node,
  readIntAttribute,
  readIntsAttribute,
  type Tensor,
} from "../file/proto.ts";
import {
  COPYING,
  eitherInput,
  followBack,
  type GraphIndex,
  readIntegers,
  readScalar,
  readVector,
} from "../graph_index.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/**
 * Epsilon of norms that have none. It prevents division by zero for rows of zeros, and is too small to change the
 * result for other rows.
 */
export const EPSILON = 1e-12;

/** A norm over the last axis. */
interface PlainNorm {
  readonly input: string;
  /** Whether it divides by the length rather than by the root mean square. */
  readonly isLength: boolean;
  /** The number that is added to the sum of squares or, for a root mean square, to their mean. */
  readonly epsilon: number;
}

/** Replaces the norms of a graph. */
export function normByMeanSquare(probes: Probes): Graph {
  const { index } = probes;
  const { graph } = index;
  const factors: Tensor[] = [];
  const nodes = graph.nodes.map((node) => {
    const [output] = node.outputs as [string];
    const found = findNorm(index, node);
    const { shape, dtype } = probes.at(SHORT_LENGTHS[0]).value(found?.input ?? "") ?? {};
    const size = shape?.at(-1);
    if (!found || !size || (dtype !== "float32" && dtype !== "float16")) return node;
    // The length is √size times the root of the mean square.
    const factor = found.isLength ? 1 / Math.sqrt(size) : 1;
    const Floats = dtype === "float32" ? Float32Array : Float16Array;
    const bytes = new Uint8Array(new Floats(size).fill(factor).buffer);
    const name = `${output}/factors`;
    factors.push({ name, dtype, shape: [size], data: { kind: "memory", bytes }, rest: [] });
    const epsilon = { float: found.isLength ? found.epsilon / size : found.epsilon };
    const centred = found.isLength ? undefined : findCentred(index, found.input);
    const operator = centred ? "LayerNormalization" : "SimplifiedLayerNormalization";
    return {
      ...makeNode(operator, [centred ?? found.input, name], [output]),
      attributes: [attribute("axis", -1), attribute("epsilon", epsilon)],
    };
  });
  if (factors.length === 0) return graph;
  return { ...graph, nodes, initializers: [...graph.initializers, ...factors] };
}

function findNorm(index: GraphIndex, node: Node): PlainNorm | undefined {
  const [input, divisor] = node.inputs as [string, string];
  if (node.opType === "LpNormalization") {
    const isEuclidean = (readIntAttribute(node, "p") ?? 2) === 2 &&
      [-1, undefined].includes(readIntAttribute(node, "axis"));
    return isEuclidean ? { input, isLength: true, epsilon: EPSILON } : undefined;
  }
  if (node.opType === "Div") {
    return index.producers.get(divisor)?.opType === "Pow"
      ? undefined
      : findRoot(index, divisor, input);
  }
  if (node.opType !== "Mul") return undefined;
  return eitherInput(node, (name) => {
    const inverse = index.producers.get(name);
    const other = node.inputs.find((each) => each !== name);
    if (other === undefined) return undefined;
    if (inverse?.opType === "Reciprocal") return findRoot(index, inverse.inputs[0]!, other);
    if (inverse?.opType === "Pow" && readScalar(index, inverse.inputs[1]) === -0.5) {
      return findRoot(index, name, other);
    }
    const isInverse = inverse?.opType === "Div" && readScalar(index, inverse.inputs[0]) === 1;
    return isInverse ? findRoot(index, inverse.inputs[1]!, other) : undefined;
  })?.found;
}

/**
 * Matches the length or the root mean square of `input`, or the inverse of one of these, written as a power. A root
 * mean square is not matched if a constant vector scales the norm afterwards.
 */
function findRoot(index: GraphIndex, root: string, input: string): PlainNorm | undefined {
  const node = index.producers.get(root);
  if (node?.opType === "ReduceL2" && isOfRows(index, node)) {
    return node.inputs[0] === input ? { input, isLength: true, epsilon: EPSILON } : undefined;
  }
  if (node?.opType !== "Sqrt" && node?.opType !== "Pow") return undefined;
  const sum = index.producers.get(node.inputs[0]!);
  const added = sum?.opType === "Add"
    ? eitherInput(sum, (name) => readScalar(index, name))
    : undefined;
  const reduced = added ? index.producers.get(added.other) : sum;
  if (reduced === undefined || !isOfRows(index, reduced)) return undefined;
  const isLength = reduced.opType === "ReduceSumSquare" || reduced.opType === "ReduceSum";
  const squared = reduced.opType === "ReduceSumSquare"
    ? reduced.inputs[0]
    : findSquared(index, reduced.inputs[0]!);
  const isKnown = isLength || reduced.opType === "ReduceMean";
  if (!isKnown || squared !== input) return undefined;
  // Norms with factors are recognized when segments are compiled.
  if (!isLength && isScaled(index, root, input)) return undefined;
  return { input, isLength, epsilon: added?.found ?? EPSILON };
}

/** Whether a node only reduces the last axis, and keeps it with size 1. */
function isOfRows(index: GraphIndex, node: Node): boolean {
  const axes = readIntsAttribute(node, "axes") ?? readIntegers(index, node.inputs[1]);
  return axes?.length === 1 && axes[0] === -1 && readIntAttribute(node, "keepdims") !== 0;
}

/** Finds the tensor whose mean along the last axis is `name`. */
export function findMean(index: GraphIndex, name: string): string | undefined {
  const node = index.producers.get(name);
  return node?.opType === "ReduceMean" && isOfRows(index, node) ? node.inputs[0] : undefined;
}

/** Finds `x` if a tensor is `x - mean(x)`, as in layer norms. */
export function findCentred(index: GraphIndex, name: string): string | undefined {
  const node = index.producers.get(name);
  const [input, mean] = node?.opType === "Sub" ? node.inputs as [string, string] : [];
  const meant = mean && findMean(index, mean);
  return meant && followBack(index, meant, COPYING) === followBack(index, input!, COPYING)
    ? input
    : undefined;
}

/** Finds the tensor whose squares a tensor holds. */
export function findSquared(index: GraphIndex, name: string): string | undefined {
  const node = index.producers.get(name);
  const [left, right] = node?.inputs ?? [];
  const isSquare = node?.opType === "Pow"
    ? readScalar(index, right) === 2
    : node?.opType === "Mul" && left === right;
  return isSquare ? left : undefined;
}

/** Whether `input / root` is multiplied by a constant vector, possibly after a cast. */
function isScaled(index: GraphIndex, root: string, input: string): boolean {
  const reached = new Set([root]);
  for (const name of reached) {
    for (const node of index.consumers(name)) {
      const isNorm = node.inputs.includes(input);
      if (node.opType === "Mul" && !isNorm) {
        if (eitherInput(node, (each) => readVector(index, each)) !== undefined) return true;
      } else if (["Cast", "Reciprocal", "Div", "Mul"].includes(node.opType)) {
        for (const output of node.outputs) reached.add(output);
      }
    }
  }
  return false;
}
