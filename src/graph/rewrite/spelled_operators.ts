/**
 * Replaces operators with those that kernels compute. The fused operators that onnxruntime-genai's builder writes around
 * linear attention and shared experts are spelled out. Normalization by Euclidean length becomes an RMS norm.
 *
 * @module
 */
import { toDtypeCode } from "../file/dtype.ts";
import {
  type AttributeValue,
  floatAttribute,
  type Graph,
  int64Tensor,
  intAttribute,
  makeNode,
  type Node,
  type Tensor,
} from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/** The nodes and constants that replace a fused node. */
class Spelled {
  readonly nodes: Node[] = [];
  readonly constants: Tensor[] = [];
  readonly #name: string;

  /** @param name prefix of the names of new tensors. */
  constructor(name: string) {
    this.#name = name;
  }

  /** Adds a node. Its output is named `output` if given, and is otherwise numbered. */
  add(
    opType: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, AttributeValue>> = {},
    output = `${this.#name}/${opType}_${this.nodes.length}`,
  ): string {
    this.nodes.push(makeNode(opType, inputs, [output], { attributes }));
    return output;
  }

  ints(values: readonly number[]): string {
    const name = `${this.#name}/ints_${this.constants.length}`;
    this.constants.push(int64Tensor(name, [values.length], values));
    return name;
  }
}

type Speller = (node: Node, spelled: Spelled, probes: Probes) => void;

/** `routed + shared * gate`, with one gate per token. */
const spellGatedAdd: Speller = ({ inputs, outputs }, spelled) => {
  const [routed, shared, gate] = inputs as [string, string, string];
  spelled.add("Add", [routed, spelled.add("Mul", [shared, gate])], {}, outputs[0]);
};

/** The decay `a * softplus(x + bias)`, with `bias` and `a` in f32, and the rate `sigmoid(b)`. */
const spellGates: Speller = ({ inputs, outputs }, spelled, probes) => {
  const [x, bias, a, b] = inputs as [string, string, string, string?];
  const isHalf = probes.at(SHORT_LENGTHS[0]).value(x)?.dtype === "float16";
  const cast = (name: string, to: "float32" | "float16", output?: string) =>
    spelled.add("Cast", [name], { to: toDtypeCode(to) }, output);
  const shifted = spelled.add("Add", [isHalf ? cast(x, "float32") : x, bias]);
  const factors = [a, spelled.add("Softplus", [shifted])];
  if (isHalf) cast(spelled.add("Mul", factors), "float16", outputs[0]);
  else spelled.add("Mul", factors, {}, outputs[0]);
  if (b) spelled.add("Sigmoid", [b], {}, outputs[1]);
};

/** `norm(x) * silu(gate)`; each norm is over as many elements as there are factors. */
const spellGatedNorm: Speller = (node, spelled, probes) => {
  const [x, factors, gate] = node.inputs as [string, string, string];
  const read = (name: string) => probes.at(SHORT_LENGTHS[0]).value(name)!.shape;
  const [width, size] = [read(x).at(-1)!, read(factors)[0]!];
  const epsilon = { float: floatAttribute(node, "epsilon") ?? 1e-5 };
  const leading = read(x).slice(0, -1).map(() => 0);
  const parted = spelled.add("Reshape", [x, spelled.ints([...leading, width / size, size])]);
  const normed = spelled.add("SimplifiedLayerNormalization", [parted, factors], {
    ...{ axis: -1, epsilon, stash_type: 1 },
  });
  const joined = spelled.add("Reshape", [normed, spelled.ints([...leading, width])]);
  const silu = spelled.add("Mul", [gate, spelled.add("Sigmoid", [gate])]);
  spelled.add("Mul", [silu, joined], {}, node.outputs[0]);
};

const SPELLERS: Readonly<Record<string, Speller>> = {
  GatedAdd: spellGatedAdd,
  LinearAttentionGate: spellGates,
  GatedRMSNorm: spellGatedNorm,
};

/** Spells out the fused operators of {@linkcode SPELLERS} in a graph. */
export function spellOperators(probes: Probes): Graph {
  const { graph } = probes.index;
  const constants: Tensor[] = [];
  let isChanged = false;
  const nodes = graph.nodes.flatMap((node) => {
    const spell = node.domain === "com.microsoft" ? SPELLERS[node.opType] : undefined;
    if (spell === undefined) return [node];
    const spelled = new Spelled(node.outputs[0]!);
    spell(node, spelled, probes);
    constants.push(...spelled.constants);
    isChanged = true;
    return spelled.nodes;
  });
  return isChanged
    ? { ...graph, nodes, initializers: [...graph.initializers, ...constants] }
    : graph;
}

/** Prevents division by zero for rows of zeros. It is too small to change the result for other rows. */
const EPSILON = 1e-12;

/** Replaces Euclidean `LpNormalization` with `SimplifiedLayerNormalization`. */
export function normByMeanSquare(probes: Probes): Graph {
  const { graph } = probes.index;
  const factors: Tensor[] = [];
  const nodes = graph.nodes.map((node) => {
    const [input] = node.inputs as [string];
    const [output] = node.outputs as [string];
    const isLength = node.opType === "LpNormalization" && (intAttribute(node, "p") ?? 2) === 2;
    if (!isLength) return node;
    const { shape, dtype } = probes.at(SHORT_LENGTHS[0]).value(input) ?? {};
    const axis = intAttribute(node, "axis") ?? -1;
    const size = shape?.at(-1);
    const isLast = axis === -1 || axis === (shape?.length ?? 0) - 1;
    if (!size || !isLast || (dtype !== "float32" && dtype !== "float16")) return node;
    // The length is √size times the root of the mean square.
    const Floats = dtype === "float32" ? Float32Array : Float16Array;
    const bytes = new Uint8Array(new Floats(size).fill(1 / Math.sqrt(size)).buffer);
    const name = `${output}/factors`;
    factors.push({ name, dtype, shape: [size], data: { kind: "memory", bytes }, rest: [] });
    return makeNode("SimplifiedLayerNormalization", [input, name], [output], {
      attributes: { axis: -1, epsilon: { float: EPSILON } },
    });
  });
  if (factors.length === 0) return graph;
  return { ...graph, nodes, initializers: [...graph.initializers, ...factors] };
}
