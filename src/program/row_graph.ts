/**
 * Simplifies a segment's graph to rows of elements, whose shapes do not matter.
 *
 * @module
 */
import { type TensorType, toDtype } from "../graph/file/dtype.ts";
import type { TensorPort } from "../graph/graph_cut.ts";
import { type GraphIndex, liveNodes } from "../graph/graph_index.ts";
import { type Graph, intAttribute, makeNode, type Node } from "../graph/file/proto.ts";

/** What to keep of a graph. */
interface RowGraphOptions {
  /** Data type of everything that is computed without a cast. */
  readonly dtype: TensorType;
  readonly inputs: readonly TensorPort[];
  /** Tensors whose names must stay. */
  readonly wanted: ReadonlySet<string>;
}

/**
 * Returns the graph without reshapes and casts that keep a token's elements, and without the nodes that compute their
 * shapes: nodes read the original tensor instead.
 */
export function rowGraph(graph: Graph, { dtype, inputs, wanted }: RowGraphOptions): Graph {
  const renamed = new Map<string, string>();
  const producers = new Map<string, Node>();
  const types = new Map<string, TensorType>();
  for (const each of [...inputs, ...graph.initializers]) types.set(each.name, each.dtype);
  const inferType = (node: Node): TensorType => {
    if (node.opType === "Cast") return toDtype(intAttribute(node, "to") ?? 0);
    const first = types.get(node.inputs[0] ?? "");
    return first === "float16" || first === "float32" ? first : dtype;
  };
  const joined = new Set(
    graph.nodes.flatMap(({ opType, inputs }) => opType === "Concat" ? inputs : []),
  );
  const divided = new Set(
    graph.nodes.flatMap(({ opType, inputs }) => opType === "Split" ? inputs[0]! : []),
  );
  const shapes = new Map(graph.initializers.map(({ name, shape }) => [name, shape]));
  const isSame = (node: Node, input: string): boolean => {
    if (node.opType === "Cast") return types.get(input) === types.get(node.outputs[0]!);
    // If two tensors are joined on a new axis, their elements alternate.
    if (node.opType === "Unsqueeze" && joined.has(node.outputs[0]!)) return false;
    // A split of heads takes a part of each head, not of the row.
    const rank = node.opType === "Reshape" ? shapes.get(node.inputs[1]!)?.[0] : undefined;
    if (rank !== undefined && rank > 3 && divided.has(node.outputs[0]!)) return false;
    // A reshape right after a transposition may join heads of different tokens.
    const isJoin = node.opType === "Reshape" || node.opType === "Flatten";
    return isReshape(node) && !(isJoin && producers.get(input)?.opType === "Transpose");
  };
  const nodes = graph.nodes.flatMap((node) => {
    const read = { ...node, inputs: node.inputs.map((name) => renamed.get(name) ?? name) };
    const [input] = read.inputs;
    const [output] = read.outputs;
    for (const name of read.outputs) {
      producers.set(name, read);
      types.set(name, inferType(read));
    }
    if (input === undefined || !isSame(read, input)) return [read];
    renamed.set(output!, input);
    return wanted.has(output!) ? [makeNode("Identity", [input], [output!])] : [];
  });
  return { ...graph, nodes: liveNodes(nodes, wanted) };
}

const OPERATORS = new Set(["Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten"]);

/** Whether a node only changes the shape of its input. */
export function isReshape({ opType }: Node): boolean {
  return OPERATORS.has(opType);
}

/** The tensor that another is only a reshape of. */
export function findOriginal(index: GraphIndex, name: string): string {
  const node = index.producers.get(name);
  return node && isReshape(node) ? findOriginal(index, node.inputs[0]!) : name;
}
