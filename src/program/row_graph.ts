/**
 * A segment's graph as rows of elements: what shapes they are in does not matter.
 *
 * @module
 */
import { dtypeOfCode, type TensorType } from "../graph/file/dtype.ts";
import type { TensorPort } from "../graph/graph_cut.ts";
import { liveNodes } from "../graph/graph_index.ts";
import { type Graph, intAttribute, makeNode, type Node } from "../graph/file/proto.ts";
import { isReshape } from "./reshapes.ts";

/** The parts of a graph to keep. */
interface RowGraphOptions {
  /** Type of all that is computed and not cast. */
  readonly dtype: TensorType;
  readonly inputs: readonly TensorPort[];
  /** Tensors whose names stay. */
  readonly wanted: ReadonlySet<string>;
}

/**
 * The graph without reshapes and casts that leave a token's elements as they are, and without what computes their shapes:
 * a node reads the tensor itself.
 */
export function rowGraph(graph: Graph, { dtype, inputs, wanted }: RowGraphOptions): Graph {
  const renamed = new Map<string, string>();
  const producers = new Map<string, Node>();
  const types = new Map<string, TensorType>();
  for (const each of [...inputs, ...graph.initializers]) types.set(each.name, each.dtype);
  const inferType = (node: Node): TensorType => {
    if (node.opType === "Cast") return dtypeOfCode(intAttribute(node, "to") ?? 0);
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
    // Joined on a new axis, elements of both alternate.
    if (node.opType === "Unsqueeze" && joined.has(node.outputs[0]!)) return false;
    // A split of what is in heads takes a part of each head, not of the row.
    const rank = node.opType === "Reshape" ? shapes.get(node.inputs[1]!)?.[0] : undefined;
    if (rank !== undefined && rank > 3 && divided.has(node.outputs[0]!)) return false;
    // One that comes right after a transposition may join heads of different tokens.
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
