/**
 * Spells out rotations that are operators of their own: `RotaryEmbedding` with cosines and sines by position, or with such
 * that the graph has already gathered per token (its positions then number the rows of the step), and
 * `MRotaryEmbedding`, which takes several positions per token.
 *
 * @module
 */
import {
  floatAttribute,
  type Graph,
  int64Tensor,
  intAttribute,
  intsAttribute,
  makeNode,
  type Node,
  type Tensor,
} from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/** Spells out these rotations so that each token reads its own row. */
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

/** Gathers a token's rows of both tables, and spells out the rest; `undefined` where tables or positions are others. */
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
  if (!isOfTokens || !isTable || intAttribute(node, "is_packed_batching")) return undefined;
  const [output] = node.outputs as [string];
  const rows = ["cos", "sin"].map((name) => `${output}/${name}_row`);
  const gathering = [first!, second!].map((table, i) =>
    makeNode("Gather", [table, positions!], [rows[i]!], { attributes: { axis: 0 } })
  );
  const spelled = spell(probes, { ...node, inputs: [x, "", ...rows] }, shape[1]);
  return spelled && { ...spelled, nodes: [...gathering, ...spelled.nodes] };
}

/** Gathers, for each pair of a token, the angle of the position that rotates it, and spells out the rest. */
function spellSections(
  probes: Probes,
  node: Node,
): { readonly nodes: readonly Node[]; readonly constants: readonly Tensor[] } | undefined {
  const [x, positions, ...tables] = node.inputs as [string, string, string, string];
  const [output] = node.outputs as [string];
  const { shape, dtype } = probes.at(SHORT_LENGTHS[0]).value(tables[0]) ?? {};
  const isFloat = dtype === "float32" || dtype === "float16";
  if (shape === undefined || !isFloat || intAttribute(node, "is_packed_batching")) return undefined;
  const half = shape[1]!;
  const sections = assignSections(node, half);
  const chosen = new (dtype === "float32" ? Float32Array : Float16Array)(3 * half);
  sections.forEach((section, i) => chosen[section * half + i] = 1);
  // Named by content, so that queries and keys of all layers read the same angles.
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

/** Which position rotates each pair: the sections one after the other, or interleaved. */
function assignSections(node: Node, half: number): number[] {
  const sizes = intsAttribute(node, "mrope_section") ?? [half];
  if (intAttribute(node, "mrope_layout") !== 1) {
    return sizes.flatMap((size, section) => new Array<number>(size).fill(section));
  }
  return Array.from({ length: half }, (_, i) => i < 3 * (sizes[i % 3] ?? 0) ? i % 3 : 0);
}

/** `concat(x[.. size] * cos + rotated(x[.. size]) * sin, x[size ..])`; `undefined` where neighbours are rotated together. */
function spell(
  probes: Probes,
  node: Node,
  half = probes.at(SHORT_LENGTHS[0]).value(node.inputs[2]!)?.shape.at(-1),
): { readonly nodes: readonly Node[]; readonly constants: readonly Tensor[] } | undefined {
  const [x, , cos, sin] = node.inputs as [string, string, string, string];
  const [output] = node.outputs as [string];
  const shape = probes.at(SHORT_LENGTHS[0]).value(x)?.shape;
  if (intAttribute(node, "interleaved") === 1 || shape === undefined || half === undefined) {
    return undefined;
  }
  const isRows = shape.length === 3;
  // Without an attribute, whole heads are rotated.
  const numHeads = isRows ? intAttribute(node, "num_heads") || shape[2]! / (2 * half) : 0;
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
  // Slices, since a split of a product's heads would be turned into a split of its rows.
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

/** The extra factor of a rotation. */
function readScale(node: Node): number {
  return floatAttribute(node, "scale") ?? 1;
}
