/**
 * Tables that a graph makes of its constants before it looks up rows.
 *
 * @module
 */
import { transposeMatrix } from "../experts/join_weights.ts";
import { countElements } from "../file/dtype.ts";
import {
  type Graph,
  hasSubgraph,
  int64Tensor,
  intAttribute,
  intsAttribute,
  makeNode,
  type Node,
  type Tensor,
} from "../file/proto.ts";
import { GraphIndex, liveNodes, readIntegers } from "../graph_index.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/**
 * Makes tables of token embeddings constants that the graph computes from those of its last product, because both are
 * one matrix: with another shape (blocks of 4 or 8 bits), or transposed. A transposed table is then the product's matrix
 * too, so that it is held once.
 */
export function readTiedTables(graph: Graph): Graph {
  const index = new GraphIndex(graph);
  const tables = new Map<string, Tensor>();
  /** Names of tables by those of the nodes' outputs. */
  const names = new Map<string, string>();
  /** The transposed table, by the name of the matrix. */
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

/** A constant in another shape. */
function reshapeConstant(index: GraphIndex, node: Node, source: Tensor): Tensor | undefined {
  const sizes = readIntegers(index, node.inputs[1]);
  const axes = sizes ?? intsAttribute(node, "axes");
  const shape = node.opType === "Squeeze"
    ? source.shape.filter((_, axis) => !axes?.includes(axis))
    : node.opType === "Reshape"
    ? sizes && fillSizes(sizes, source.shape)
    : undefined;
  // Named by content, so that layers share it.
  return shape?.every((size) => size > 0)
    ? { ...source, name: `${source.name}/${shape.join("x")}`, shape }
    : undefined;
}

/** A shape whose sizes of 0 are those of the source, and of which -1 stands for what is left. */
function fillSizes(sizes: readonly number[], source: readonly number[]): number[] {
  const kept = sizes.map((size, axis) => size === 0 ? source[axis] ?? 0 : size);
  return kept.map((size) => size === -1 ? countElements(source) / -countElements(kept) : size);
}

/** A matrix of floats whose transpose is only read by row. */
function transposeConstant(index: GraphIndex, node: Node): Tensor | undefined {
  const [output] = node.outputs as [string];
  const isTransposed = node.opType === "Transpose" &&
    intsAttribute(node, "perm")?.join() === "1,0";
  const source = isTransposed ? index.constants.get(node.inputs[0]!) : undefined;
  const isFloat = source?.dtype === "float32" || source?.dtype === "float16";
  const isTable = !index.isOutput(output) &&
    index.consumers(output).every((reader) =>
      reader.opType === "Gather" && reader.inputs[0] === output && !intAttribute(reader, "axis")
    );
  return isFloat && isTable ? { ...source!, ...transposeMatrix(source!), name: output } : undefined;
}

/** Reads constants themselves where PyTorch's exports read copies: layers with equal constants share one. */
export function readOriginals(graph: Graph): Graph {
  const originals = new Map(graph.initializers.map(({ name }) => [name, name]));
  const outputs = new Set(graph.outputs.map(({ name }) => name));
  // Graphs of their own read copies by name.
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

/** Operators between a table that is cut and the lookup of its rows. */
const PASSING = new Set(["Cast", "Identity", "Squeeze"]);

/**
 * Looks up rows of whole tables. Older exports first take as many rows of a table of cosines as the sequence has tokens
 * (`cos_cached[:length][position_ids]`), or the rows of the step's tokens (`positions[past:past + tokens]`).
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
  const live = liveNodes(nodes, graph.outputs.map(({ name }) => name));
  const initializers = [...graph.initializers, scalar, one];
  return castRows(readTiedTables({ ...graph, nodes: live, initializers }));
}

/** Casts rows of tables after they are looked up. */
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

/** Whether a node takes a row of a constant for each token so far, and rows of these are looked up. */
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

/** Whether a node takes a row of a constant for each token of the step, from that of the first token on. */
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
      !intAttribute(reader, "axis") && rows === pastLength + numTokens;
  });
}
