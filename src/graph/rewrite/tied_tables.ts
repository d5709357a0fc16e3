/**
 * Tables of token embeddings that a graph computes from the constants of its last product, because both are one matrix:
 * with another shape (blocks of 4 or 8 bits), or transposed.
 *
 * @module
 */
import { transposeMatrix } from "../experts/join_weights.ts";
import {
  type Graph,
  intAttribute,
  intsAttribute,
  makeNode,
  type Node,
  type Tensor,
} from "../file/proto.ts";
import { GraphIndex, readIntegers } from "../graph_index.ts";

/** Makes such tables constants. A transposed one is then the product's matrix too, so that it is held once. */
export function readTiedTables(graph: Graph): Graph {
  const index = new GraphIndex(graph);
  const tables: Tensor[] = [];
  /** The transposed table, by the name of the matrix. */
  const transposed = new Map<string, Tensor>();
  const others = graph.nodes.filter((node) => {
    const turned = transposeConstant(index, node);
    if (turned !== undefined) transposed.set(node.inputs[0]!, turned);
    const table = turned ?? reshapeConstant(index, node);
    if (table !== undefined) tables.push(table);
    return table === undefined;
  });
  if (tables.length === 0) return graph;
  const turnedBack: Node[] = [];
  const nodes = others.map((node) => {
    const table = node.opType === "MatMul" ? transposed.get(node.inputs[1]!) : undefined;
    if (table === undefined) return node;
    const matrix = `${table.name}/matrix`;
    if (!turnedBack.some(({ outputs }) => outputs[0] === matrix)) {
      const attributes = { perm: [1, 0] };
      turnedBack.push(makeNode("Transpose", [table.name], [matrix], { attributes }));
    }
    return { ...node, inputs: node.inputs.with(1, matrix) };
  });
  return {
    ...graph,
    nodes: [...turnedBack, ...nodes],
    initializers: [...graph.initializers, ...tables],
  };
}

/** A constant in another shape. */
function reshapeConstant(index: GraphIndex, node: Node): Tensor | undefined {
  const source = node.opType === "Reshape" ? index.constants.get(node.inputs[0]!) : undefined;
  const shape = source && readIntegers(index, node.inputs[1]);
  return shape?.every((size) => size > 0)
    ? { ...source!, name: node.outputs[0]!, shape }
    : undefined;
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
