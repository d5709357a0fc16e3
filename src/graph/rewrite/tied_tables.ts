/**
 * Replaces tables that a graph computes from constants, before it looks up rows in them, by constants.
 *
 * @module
 */
import { transposeMatrix } from "../experts/mixture.ts";
import { countElements } from "../file/tensor.ts";
import {
  type Graph,
  hasSubgraph,
  int64Tensor,
  makeNode,
  type Node,
  readIntAttribute,
  readIntsAttribute,
  type Tensor,
} from "../file/proto.ts";
import { findLiveNodes, GraphIndex, readIntegers } from "../graph_index.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";
import { expandTable } from "./cpu_graph.ts";
import { spread } from "./dynamic_products.ts";

/**
 * Replaces tables that are reshaped or transposed constants with constants. In graphs whose token embeddings are tied
 * to the vocabulary projection, the table is the matrix of the last product, reshaped (blocks of 4 or 8 bits) or
 * transposed. The product then reads the transposed table as well, so that it is in memory once.
 */
export function readTiedTables(graph: Graph): Graph {
  const index = new GraphIndex(graph);
  const tables = new Map<string, Tensor>();
  /** Names of tables, by the outputs of the nodes that compute them. */
  const names = new Map<string, string>();
  /** Transposed tables, by the names of the matrices that they are made from. */
  const transposed = new Map<string, Tensor>();
  const others = graph.nodes.filter((node) => {
    const turned = transposeConstant(index, node);
    if (turned !== undefined) transposed.set(node.inputs[0]!, turned);
    const [input = ""] = node.inputs;
    const source = tables.get(names.get(input) ?? "") ?? index.constants.get(input);
    const table = turned ?? (source && reshapeConstant(index, node, source));
    if (table === undefined) return true;
    tables.set(table.name, table);
    names.set(node.outputs[0]!, table.name);
    return false;
  });
  if (tables.size === 0) return graph;
  const turnedBack = [...transposed.values()].map(({ name }) =>
    makeNode("Transpose", [name], [`${name}/matrix`], { attributes: { perm: [1, 0] } })
  );
  const nodes = others.map((node) => {
    const inputs = node.inputs.map((name) => names.get(name) ?? name);
    const table = node.opType === "MatMul" ? transposed.get(inputs[1]!) : undefined;
    return {
      ...node,
      inputs: table === undefined ? inputs : inputs.with(1, `${table.name}/matrix`),
    };
  });
  return {
    ...graph,
    nodes: [...turnedBack, ...nodes],
    initializers: [...graph.initializers, ...tables.values()],
  };
}

/**
 * Expands quantised tables that are read by position. When embeddings are tied, onnxruntime-genai's builder quantises
 * not only them but also the cosines and sines of positions in sections (Qwen3.5). Exports in int8 quantise embeddings
 * of positions (GPT-2).
 */
export function expandPositionTables(probes: Probes): Graph {
  const { index } = probes;
  const { graph } = index;
  const tables = new Map<string, Tensor>();
  const nodes = graph.nodes.map((node) => {
    // Positions are known, but token ids are not.
    const isOne = node.opType === "GatherBlockQuantized" &&
      probes.at(SHORT_LENGTHS[0]).value(node.inputs[1]!)?.data !== undefined;
    const table = isOne ? expandTable(node, index.constants) : undefined;
    if (table === undefined) return node;
    tables.set(table.name, table);
    const inputs = [table.name, node.inputs[1]!];
    return makeNode("Gather", inputs, node.outputs, { name: node.name, attributes: { axis: 0 } });
  });
  if (tables.size === 0) return graph;
  return { ...graph, nodes, initializers: [...graph.initializers, ...tables.values()] };
}

/**
 * Replaces lookups of rows that `DequantizeLinear` then converts (8-bit exports) by `GatherBlockQuantized`, with one
 * block for each row.
 */
export function gatherQuantized(graph: Graph): Graph {
  const index = new GraphIndex(graph);
  const constants: Tensor[] = [];
  const nodes = graph.nodes.map((node) => {
    const gather = node.opType === "DequantizeLinear"
      ? index.producers.get(node.inputs[0]!)
      : undefined;
    const [table, scale, zero] = [gather?.inputs[0], ...node.inputs.slice(1)].map((name) =>
      index.constants.get(name ?? "")
    );
    const isKnown = gather?.opType === "Gather" && !readIntAttribute(gather, "axis") &&
      table?.dtype === "uint8" && table.shape.length === 2 && scale?.dtype === "float32" &&
      [scale, zero].every((each) => each !== undefined && countElements(each.shape) === 1);
    if (!isKnown) return node;
    const [rows, width] = table.shape as [number, number];
    const parts = ([["scales", scale], ["zeros", zero!]] as const).map(([part, source]) => ({
      ...spread(source, { name: `${table.name}/${part}`, n: rows, blocks: 1 }),
      shape: [rows, 1],
    }));
    constants.push(...parts);
    const inputs = [table.name, gather.inputs[1]!, ...parts.map(({ name }) => name)];
    const blockSize = Math.max(16, 2 ** Math.ceil(Math.log2(width)));
    return makeNode("GatherBlockQuantized", inputs, node.outputs, {
      ...{ name: node.name, domain: "com.microsoft" },
      attributes: { bits: 8, block_size: blockSize, gather_axis: 0, quantize_axis: 1 },
    });
  });
  if (constants.length === 0) return graph;
  const named = new Map(constants.map((tensor) => [tensor.name, tensor]));
  return { ...graph, nodes, initializers: [...graph.initializers, ...named.values()] };
}

/** The constant that a node only reshapes, in its new shape. */
function reshapeConstant(index: GraphIndex, node: Node, source: Tensor): Tensor | undefined {
  const sizes = readIntegers(index, node.inputs[1]);
  const axes = sizes ?? readIntsAttribute(node, "axes");
  const shape = node.opType === "Squeeze"
    ? source.shape.filter((_, axis) => !axes?.includes(axis))
    : node.opType === "Reshape"
    ? sizes && fillSizes(sizes, source.shape)
    : undefined;
  // Equal tables have equal names, so that layers share them.
  return shape?.every((size) => size > 0)
    ? { ...source, name: `${source.name}/${shape.join("x")}`, shape }
    : undefined;
}

/** The shape after a `Reshape`: 0 keeps the size of the source, and -1 is what remains. */
function fillSizes(sizes: readonly number[], source: readonly number[]): number[] {
  const kept = sizes.map((size, axis) => size === 0 ? source[axis] ?? 0 : size);
  return kept.map((size) => size === -1 ? countElements(source) / -countElements(kept) : size);
}

/** The transpose of a matrix of floats, if only its rows are looked up. */
function transposeConstant(index: GraphIndex, node: Node): Tensor | undefined {
  const [output] = node.outputs as [string];
  const isTransposed = node.opType === "Transpose" &&
    readIntsAttribute(node, "perm")?.join() === "1,0";
  const source = isTransposed ? index.constants.get(node.inputs[0]!) : undefined;
  const isFloat = source?.dtype === "float32" || source?.dtype === "float16";
  const isTable = !index.isOutput(output) &&
    index.consumers(output).every((reader) =>
      reader.opType === "Gather" && reader.inputs[0] === output && !readIntAttribute(reader, "axis")
    );
  return isFloat && isTable ? { ...source, ...transposeMatrix(source), name: output } : undefined;
}

/** Replaces copies of constants by the constants. PyTorch's exports copy a constant to share it between layers. */
export function readOriginals(graph: Graph): Graph {
  const originals = new Map(graph.initializers.map(({ name }) => [name, name]));
  const outputs = new Set(graph.outputs.map(({ name }) => name));
  // Nested graphs read copies by name.
  if (graph.nodes.some(hasSubgraph)) return graph;
  const nodes = graph.nodes.flatMap((node) => {
    const [input = "", ...others] = node.inputs;
    const original = others.length === 0 ? originals.get(input) : undefined;
    if (node.opType === "Identity" && original !== undefined && !outputs.has(node.outputs[0]!)) {
      originals.set(node.outputs[0]!, original);
      return [];
    }
    return [{ ...node, inputs: node.inputs.map((name) => originals.get(name) ?? name) }];
  });
  return nodes.length === graph.nodes.length ? graph : { ...graph, nodes };
}

/** Operators that may be between a sliced table and the lookup of its rows. */
const PASSING = new Set(["Cast", "Identity", "Squeeze"]);

/**
 * Makes a graph look up rows in whole tables. Older exports first slice a table, either to the length of the sequence
 * (`cos_cached[:length][position_ids]`) or to the tokens of the step (`positions[past:past + tokens]`).
 */
export function readWholeTables(probes: Probes): Graph {
  const { graph } = probes.index;
  const whole = new Map(
    graph.nodes.filter((node) => takesFirstRows(probes, node))
      .map(({ inputs, outputs }) => [outputs[0]!, inputs[0]!]),
  );
  const ofTokens = new Set(graph.nodes.filter((node) => takesOwnRows(probes, node)));
  if (whole.size === 0 && ofTokens.size === 0) return graph;
  const scalar = int64Tensor("scalar_sizes", [0], []);
  const one = int64Tensor("scalar_one", [], [1]);
  const nodes = graph.nodes.flatMap((node) => {
    const inputs = node.inputs.map((name) => whole.get(name) ?? name);
    if (!ofTokens.has(node)) return [{ ...node, inputs }];
    const [output] = node.outputs as [string];
    const [table, ...bounds] = inputs.slice(0, 3) as [string, string, string];
    const [from, to, range] = ["from", "to", "rows"].map((part) => `${output}/${part}`) as [
      string,
      string,
      string,
    ];
    return [
      ...[from, to].map((name, i) => makeNode("Reshape", [bounds[i]!, scalar.name], [name])),
      makeNode("Range", [from, to, one.name], [range]),
      makeNode("Gather", [table, range], [output], { attributes: { axis: 0 } }),
    ];
  });
  const live = findLiveNodes(nodes, graph.outputs.map(({ name }) => name));
  const initializers = [...graph.initializers, scalar, one];
  return castRows(readTiedTables({ ...graph, nodes: live, initializers }));
}

/** Moves casts of tables to the rows that are looked up. */
function castRows(graph: Graph): Graph {
  const { constants, producers } = new GraphIndex(graph);
  const nodes = graph.nodes.flatMap((node) => {
    if (node.opType !== "Gather") return [node];
    const casts: Node[] = [];
    let table = node.inputs[0]!;
    for (let cast = producers.get(table); cast?.opType === "Cast"; cast = producers.get(table)) {
      casts.unshift(cast);
      table = cast.inputs[0]!;
    }
    if (casts.length === 0 || !constants.has(table)) return [node];
    const [output] = node.outputs as [string];
    const names = casts.map((_, i) => `${output}/rows_${i}`).concat(output);
    return [
      { ...node, inputs: node.inputs.with(0, table), outputs: [names[0]!] },
      ...casts.map((cast, i) => ({
        ...cast,
        name: names[i + 1]!,
        inputs: [names[i]!],
        outputs: [names[i + 1]!],
      })),
    ];
  });
  return { ...graph, nodes };
}

/** Whether a node slices a table to the length of the sequence, and only rows of the slice are looked up. */
function takesFirstRows(probes: Probes, { opType, inputs, outputs }: Node): boolean {
  const { index } = probes;
  if (opType !== "Slice" || !index.constants.has(inputs[0]!)) return false;
  const isFirst = probes.short().every((run, i) => {
    const { pastLength, numTokens } = SHORT_LENGTHS[i]!;
    const [start, end] = inputs.slice(1, 3).map((name) => run.value(name)?.data);
    return start?.join() === "0" && end?.join() === `${pastLength + numTokens}`;
  });
  const step = inputs[4] ? readIntegers(index, inputs[4]) : [1];
  return isFirst && step?.join() === "1" && isOnlyLookedUp(probes, outputs[0]!);
}

/** Whether a node slices a table to the rows of the step's tokens. */
function takesOwnRows(probes: Probes, { opType, inputs }: Node): boolean {
  const { index } = probes;
  if (opType !== "Slice" || !index.constants.has(inputs[0]!)) return false;
  const steps = inputs[4] ? readIntegers(index, inputs[4]) : [1];
  const axes = inputs[3] ? readIntegers(index, inputs[3]) : [0];
  return steps?.join() === "1" && axes?.join() === "0" &&
    probes.short().every((run, i) => {
      const { pastLength, numTokens } = SHORT_LENGTHS[i]!;
      const [start, end] = inputs.slice(1, 3).map((name) => run.value(name)?.data);
      return start?.join() === `${pastLength}` && end?.join() === `${pastLength + numTokens}`;
    });
}

function isOnlyLookedUp(probes: Probes, name: string): boolean {
  const { index } = probes;
  const { pastLength, numTokens } = SHORT_LENGTHS[1];
  return !index.isOutput(name) && index.consumers(name).every((reader) => {
    if (PASSING.has(reader.opType)) return isOnlyLookedUp(probes, reader.outputs[0]!);
    const rows = probes.at(SHORT_LENGTHS[1]).value(name)?.shape[0];
    return reader.opType === "Gather" && reader.inputs[0] === name &&
      !readIntAttribute(reader, "axis") && rows === pastLength + numTokens;
  });
}
