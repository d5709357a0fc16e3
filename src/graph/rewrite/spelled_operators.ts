/**
 * Replaces operators by others that Hearth's kernels compute. Fused operators that onnxruntime-genai's builder writes
 * around linear attention and shared experts are spelled out, and so are operators for rotary embeddings. Rows that
 * PyTorch writes over other rows are concatenated instead.
 *
 * @module
 */
import { toDtypeCode } from "../file/tensor.ts";
import {
  type AttributeValue,
  type Graph,
  int64Tensor,
  makeNode,
  type Node,
  readFloatAttribute,
  readIntAttribute,
  readIntsAttribute,
  type Tensor,
} from "../file/proto.ts";
import { readIntegers } from "../graph_index.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/** Collects the nodes and constants that replace a fused node. */
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

/** Computes `routed + shared * gate`, with one gate per token. */
const spellGatedAdd: Speller = ({ inputs, outputs }, spelled) => {
  const [routed, shared, gate] = inputs as [string, string, string];
  spelled.add("Add", [routed, spelled.add("Mul", [shared, gate])], {}, outputs[0]);
};

/** Computes the decay `a * softplus(x + bias)`, with `bias` and `a` in f32, and the rate `sigmoid(b)`. */
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

/** Computes `norm(x) * silu(gate)`. Each norm is over as many elements as there are factors. */
const spellGatedNorm: Speller = (node, spelled, probes) => {
  const [x, factors, gate] = node.inputs as [string, string, string];
  const read = (name: string) => probes.at(SHORT_LENGTHS[0]).value(name)!.shape;
  const [width, size] = [read(x).at(-1)!, read(factors)[0]!];
  const epsilon = { float: readFloatAttribute(node, "epsilon") ?? 1e-5 };
  const leading = read(x).slice(0, -1).map(() => 0);
  const parted = spelled.add("Reshape", [x, spelled.ints([...leading, width / size, size])]);
  const normed = spelled.add("SimplifiedLayerNormalization", [parted, factors], {
    ...{ axis: -1, epsilon, stash_type: 1 },
  });
  const joined = spelled.add("Reshape", [normed, spelled.ints([...leading, width])]);
  const silu = spelled.add("Mul", [gate, spelled.add("Sigmoid", [gate])]);
  spelled.add("Mul", [silu, joined], {}, node.outputs[0]);
};

/**
 * Concatenates new rows with the rows of a tensor before and after those that they replace: PyTorch's `slice_scatter`.
 */
const spellSliceScatter: Speller = ({ inputs, outputs }, spelled, probes) => {
  const [whole, indices, updates] = inputs as [string, string, string];
  const values = probes.short().map((run) => run.value(indices));
  const first = values[0]?.data?.[0];
  const count = values[0]?.data?.length;
  const isSlice = values.every((value) =>
    value?.shape[1] === 1 && value.data?.length === count &&
    value.data?.every((row, i) => row === first! + i)
  );
  const rows = probes.at(SHORT_LENGTHS[0]).value(whole)?.shape[0];
  if (!isSlice || first === undefined || rows === undefined) return;
  const take = (from: number, to: number) =>
    from < to
      ? [spelled.add("Slice", [whole, ...[from, to, 0].map((each) => spelled.ints([each]))])]
      : [];
  const parts = [...take(0, first), updates, ...take(first + count!, rows)];
  spelled.add("Concat", parts, { axis: 0 }, outputs[0]);
};

/**
 * Negates the second halves of heads and the sines, rather than the first halves (nanochat). Kernels compute this
 * rotation.
 */
const spellRotation: Speller = ({ inputs, outputs }, spelled, { index }) => {
  for (const [name, sin] of [inputs, inputs.toReversed()] as [string, string][]) {
    const joined = index.onlyConsumer(name) && index.producers.get(name);
    const [second, first] = joined?.opType === "Concat" ? joined.inputs : [];
    const negated = index.producers.get(first ?? "");
    if (negated?.opType !== "Neg" || joined?.inputs.length !== 2) continue;
    const axis = readIntAttribute(joined, "axis")!;
    const halves = [spelled.add("Neg", [second!]), negated.inputs[0]!];
    const turned = spelled.add("Concat", halves, { axis });
    spelled.add("Mul", [turned, spelled.add("Neg", [sin])], {}, outputs[0]);
    return;
  }
};

/** Gathers along the first axis instead of by coordinates: PyTorch's `x[..., i]`. */
const spellFirstAxis: Speller = (node, spelled, { index }) => {
  const [x, coordinates] = node.inputs as [string, string];
  const rows = readIntegers(index, coordinates);
  const isFirst = index.constants.get(coordinates)?.shape.at(-1) === 1 &&
    !readIntAttribute(node, "batch_dims");
  if (rows === undefined || !isFirst) return;
  spelled.add("Gather", [x, spelled.ints(rows)], { axis: 0 }, node.outputs[0]);
};

const SPELLERS: Readonly<Record<string, Speller>> = {
  "com.microsoft GatedAdd": spellGatedAdd,
  "com.microsoft LinearAttentionGate": spellGates,
  "com.microsoft GatedRMSNorm": spellGatedNorm,
  " ScatterND": spellSliceScatter,
  " GatherND": spellFirstAxis,
  " Mul": spellRotation,
};

/** Spells out the operators of a graph. */
export function spellOperators(probes: Probes): Graph {
  const { graph } = probes.index;
  const constants: Tensor[] = [];
  let isChanged = false;
  const nodes = graph.nodes.flatMap((node) => {
    const spelled = new Spelled(node.outputs[0]!);
    SPELLERS[`${node.domain} ${node.opType}`]?.(node, spelled, probes);
    if (spelled.nodes.length === 0) return [node];
    constants.push(...spelled.constants);
    isChanged = true;
    return spelled.nodes;
  });
  return isChanged
    ? { ...graph, nodes, initializers: [...graph.initializers, ...constants] }
    : graph;
}

/**
 * Spells out rotary embeddings that are operators of their own. `RotaryEmbedding` of com.microsoft looks cosines and
 * sines up by position, or reads rows that the graph gathered for the tokens of the step. `MRotaryEmbedding` takes
 * several positions per token.
 */
export function spellRotary(probes: Probes): Graph {
  const { graph } = probes.index;
  const constants: Tensor[] = [];
  const nodes = graph.nodes.flatMap((node) => {
    const spelled = readsOwnRows(probes, node)
      ? spell(probes, node)
      : node.opType === "MRotaryEmbedding"
      ? spellSections(probes, node)
      : node.opType === "RotaryEmbedding"
      ? spellPositions(probes, node)
      : undefined;
    constants.push(...spelled?.constants ?? []);
    return spelled?.nodes ?? [node];
  });
  if (constants.length === 0) return graph;
  const added = new Map(constants.map((tensor) => [tensor.name, tensor]));
  return { ...graph, nodes, initializers: [...graph.initializers, ...added.values()] };
}

/** Whether token `t` reads row `t` of tables that have as many rows as the step has tokens. */
function readsOwnRows(probes: Probes, { opType, domain, inputs }: Node): boolean {
  const [, rows, cos] = inputs;
  if (opType !== "RotaryEmbedding" || domain !== "com.microsoft") return false;
  return probes.short().every((run, i) => {
    const { numTokens } = SHORT_LENGTHS[i]!;
    const data = run.value(rows!)?.data;
    return run.value(cos!)?.shape[0] === numTokens && data?.length === numTokens &&
      data.every((row, token) => row === token);
  });
}

/**
 * Gathers the rows of each token from both tables, and spells out the rest; `undefined` if tables or positions do not
 * have the expected shapes.
 */
function spellPositions(
  probes: Probes,
  node: Node,
): { readonly nodes: readonly Node[]; readonly constants: readonly Tensor[] } | undefined {
  const [x, ...others] = node.inputs as [string, ...string[]];
  const [positions, ...tables] = node.domain === "" ? others.toReversed() : others;
  const [first, second] = node.domain === "" ? tables.toReversed() : tables;
  const isOfTokens = probes.short().every((run, i) => {
    const shape = run.value(positions ?? "")?.shape;
    return shape?.length === 2 && shape[1] === SHORT_LENGTHS[i]!.numTokens;
  });
  const shape = probes.at(SHORT_LENGTHS[0]).value(first ?? "")?.shape;
  const isTable = others.length === 3 && shape?.length === 2 && probes.index.constants.has(first!);
  if (!isOfTokens || !isTable || readIntAttribute(node, "is_packed_batching")) return undefined;
  const [output] = node.outputs as [string];
  const rows = ["cos", "sin"].map((name) => `${output}/${name}_row`);
  const gathering = [first!, second!].map((table, i) =>
    makeNode("Gather", [table, positions!], [rows[i]!], { attributes: { axis: 0 } })
  );
  const spelled = spell(probes, { ...node, inputs: [x, "", ...rows] }, shape[1]);
  return spelled && { ...spelled, nodes: [...gathering, ...spelled.nodes] };
}

/** Gathers the angle of each pair of elements by the position that rotates it, and spells out the rest. */
function spellSections(
  probes: Probes,
  node: Node,
): { readonly nodes: readonly Node[]; readonly constants: readonly Tensor[] } | undefined {
  const [x, positions, ...tables] = node.inputs as [string, string, string, string];
  const [output] = node.outputs as [string];
  const { shape, dtype } = probes.at(SHORT_LENGTHS[0]).value(tables[0]) ?? {};
  const isFloat = dtype === "float32" || dtype === "float16";
  if (shape === undefined || !isFloat || readIntAttribute(node, "is_packed_batching")) {
    return undefined;
  }
  const half = shape[1]!;
  const sections = assignSections(node, half);
  const chosen = new (dtype === "float32" ? Float32Array : Float16Array)(3 * half);
  sections.forEach((section, i) => chosen[section * half + i] = 1);
  // Equal masks have equal names, so that queries and keys of all layers read the same angles.
  const mask: Tensor = {
    ...{ name: `sections_${sections.join("")}`, dtype, shape: [3, 1, 1, half], rest: [] },
    data: { kind: "memory", bytes: new Uint8Array(chosen.buffer) },
  };
  const first = int64Tensor("first_axis", [1], [0]);
  const rows = ["cos", "sin"].map((name) => `${output}/${name}_row`);
  const gathering = rows.flatMap((row, i) => [
    makeNode("Gather", [tables[i]!, positions], [`${row}/all`], { attributes: { axis: 0 } }),
    makeNode("Mul", [`${row}/all`, mask.name], [`${row}/own`]),
    makeNode("ReduceSum", [`${row}/own`, first.name], [row], { attributes: { keepdims: 0 } }),
  ]);
  const spelled = spell(probes, { ...node, inputs: [x, "", ...rows] }, half);
  return spelled && {
    nodes: [...gathering, ...spelled.nodes],
    constants: [mask, first, ...spelled.constants],
  };
}

/** The index of the position that rotates each pair. Sections follow each other, or are interleaved. */
function assignSections(node: Node, half: number): number[] {
  const sizes = readIntsAttribute(node, "mrope_section") ?? [half];
  if (readIntAttribute(node, "mrope_layout") !== 1) {
    return sizes.flatMap((size, section) => new Array<number>(size).fill(section));
  }
  return Array.from({ length: half }, (_, i) => i < 3 * (sizes[i % 3] ?? 0) ? i % 3 : 0);
}

/**
 * Computes `concat(x[.. size] * cos + rotated(x[.. size]) * sin, x[size ..])`; `undefined` if pairs are neighbouring
 * elements.
 */
function spell(
  probes: Probes,
  node: Node,
  half = probes.at(SHORT_LENGTHS[0]).value(node.inputs[2]!)?.shape.at(-1),
): { readonly nodes: readonly Node[]; readonly constants: readonly Tensor[] } | undefined {
  const [x, , cos, sin] = node.inputs as [string, string, string, string];
  const [output] = node.outputs as [string];
  const shape = probes.at(SHORT_LENGTHS[0]).value(x)?.shape;
  if (readIntAttribute(node, "interleaved") === 1 || shape === undefined || half === undefined) {
    return undefined;
  }
  const isRows = shape.length === 3;
  // Without an attribute, whole heads are rotated.
  const numHeads = isRows ? readIntAttribute(node, "num_heads") || shape[2]! / (2 * half) : 0;
  const headDim = isRows ? shape[2]! / numHeads : shape[3]!;
  if (!Number.isInteger(headDim) || readScale(node) !== 1) return undefined;
  const constants: Tensor[] = [];
  const nodes: Node[] = [];
  const ints = (values: readonly number[]) => {
    const name = `sizes_${values.join("_")}`;
    constants.push(int64Tensor(name, [values.length], values));
    return name;
  };
  const add = (
    opType: string,
    inputs: readonly string[],
    [what, ...more]: readonly [string, ...string[]],
    axis?: number,
  ) => {
    const outputs = [what, ...more].map((name) => name === output ? name : `${output}/${name}`);
    const attributes = axis === undefined ? {} : { axis };
    nodes.push(makeNode(opType, inputs, outputs, { attributes }));
    return outputs as [string, ...string[]];
  };
  const heads = isRows ? add("Reshape", [x, ints([0, 0, numHeads, headDim])], ["heads"])[0] : x;
  // These are slices, because a split of a product's heads would later become a split of its rows.
  const slice = (what: string, from: number, to: number) =>
    add("Slice", [heads, ints([from]), ints([to]), ints([-1])], [what])[0];
  const [first, rest] = 2 * half === headDim
    ? [heads, undefined]
    : [slice("first", 0, 2 * half), slice("rest", 2 * half, headDim)];
  const [before, behind] = add("Split", [first, ints([half, half])], ["a", "b"], -1);
  const [negated] = add("Neg", [behind!], ["negated"]);
  const [rotated] = add("Concat", [negated, before], ["rotated"], -1);
  const twice = (table: string, what: string) => {
    const [row] = add("Concat", [table, table], [what], -1);
    return isRows ? add("Reshape", [row, ints([-1, 1, 2 * half])], [`${what}_rows`])[0] : row;
  };
  const [straight] = add("Mul", [first, twice(cos, "cos")], ["straight"]);
  const [crossed] = add("Mul", [rotated, twice(sin, "sin")], ["crossed"]);
  const whole = rest === undefined && !isRows ? output : "sum";
  let [sum] = add("Add", [straight, crossed], [whole]);
  if (rest !== undefined) [sum] = add("Concat", [sum, rest], [isRows ? "joined" : output], -1);
  if (isRows) add("Reshape", [sum, ints([0, 0, numHeads * headDim])], [output]);
  return { nodes, constants };
}

/** Reads the factor that scales a rotation. */
function readScale(node: Node): number {
  return readFloatAttribute(node, "scale") ?? 1;
}
