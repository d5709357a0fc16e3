/**
 * Sorts a graph's nodes, and finds what a node reads besides its inputs.
 *
 * ONNX wants producers before their consumers. ONNX Runtime takes any order, and converters that append nodes (casts of
 * fp16 converters, for example) rely on it.
 *
 * @module
 */
import { ATTRIBUTE, type Graph, hasSubgraph, type Node } from "./file/proto.ts";
import { decodeNode, decodeTensorMessage } from "./file/proto_decode.ts";
import { decodeText, type Field, readFields } from "./file/wire.ts";

/** A graph nested in a node: its nodes in topological order, the rest still encoded. */
interface Subgraph {
  readonly nodes: readonly Node[];
  readonly fields: readonly Field[];
}

/** Field numbers of GraphProto. */
const GRAPH = { node: 1, initializer: 5, input: 11, output: 12 } as const;
/** Field numbers of the names of what a GraphProto holds. */
const NAME = { tensor: 8, valueInfo: 1 } as const;

function* readSubgraphs(attribute: Uint8Array): Generator<Subgraph> {
  for (const { number, payload } of readFields(attribute)) {
    if (number !== ATTRIBUTE.graph && number !== ATTRIBUTE.graphs) continue;
    const fields = [...readFields(payload)];
    yield { nodes: sortNodes(payloads(fields, GRAPH.node).map(decodeNode)), fields };
  }
}

function payloads(fields: readonly Field[], number: number): Uint8Array[] {
  return fields.filter((field) => field.number === number).map(({ payload }) => payload);
}

function readNames(messages: readonly Uint8Array[], number: number): string[] {
  return messages.flatMap((message) =>
    [...readFields(message)].filter((field) => field.number === number).map(decodeText)
  );
}

/** A nested graph, with the names of what it takes and returns. */
interface NestedGraph extends Pick<Graph, "nodes" | "initializers"> {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** The graph in an attribute: a branch of an `If`, a body of a `Scan`. Its nodes are in topological order. */
export function readNested(attribute: Uint8Array): NestedGraph {
  const [nested] = readSubgraphs(attribute);
  if (nested === undefined) throw new Error("It has a branch without a graph.");
  const { nodes, fields } = nested;
  return {
    nodes,
    initializers: payloads(fields, GRAPH.initializer).map(decodeTensorMessage),
    inputs: readNames(payloads(fields, GRAPH.input), NAME.valueInfo),
    outputs: readNames(payloads(fields, GRAPH.output), NAME.valueInfo),
  };
}

/** Names captured by a node's attributes, which copies of the node share. */
const captured = new WeakMap<Node["attributes"], readonly string[]>();

/** Tensors of the outer graph that a node's subgraphs read. */
function capturedNames({ attributes }: Node): readonly string[] {
  const known = captured.get(attributes);
  if (known !== undefined) return known;
  const names = new Set<string>();
  for (const { message } of attributes) {
    for (const { nodes, fields } of readSubgraphs(message)) {
      const outputs = readNames(payloads(fields, GRAPH.output), NAME.valueInfo);
      const own = new Set([
        ...readNames(payloads(fields, GRAPH.input), NAME.valueInfo),
        ...readNames(payloads(fields, GRAPH.initializer), NAME.tensor),
        ...nodes.flatMap((node) => node.outputs),
      ]);
      for (const name of [...nodes.flatMap(namesRead), ...outputs]) {
        if (!own.has(name)) names.add(name);
      }
    }
  }
  const result = [...names];
  captured.set(attributes, result);
  return result;
}

/** The tensors that a node reads: its inputs, and those of the same graph that its subgraphs read. */
export function namesRead(node: Node): readonly string[] {
  const inputs = node.inputs.filter((name) => name !== "");
  return hasSubgraph(node) ? [...inputs, ...capturedNames(node)] : inputs;
}

/**
 * The nodes in topological order. Sorted nodes keep their order; a node that comes too late moves to just before the
 * first node that needs it.
 *
 * @throws {Error} when nodes need each other in a circle.
 */
export function sortNodes(nodes: readonly Node[]): readonly Node[] {
  const producers = new Map<string, Node>();
  for (const node of nodes) {
    for (const name of node.outputs) if (name !== "") producers.set(name, node);
  }
  const sorted: Node[] = [];
  const done = new Set<Node>();
  const open = new Set<Node>();
  for (const root of nodes) {
    const stack = [root];
    for (let node = stack.at(-1); node !== undefined; node = stack.at(-1)) {
      const needed = done.has(node) ? [] : findMissing(node, producers, done);
      if (needed.length === 0) {
        stack.pop();
        open.delete(node);
        if (!done.has(node)) sorted.push(node);
        done.add(node);
        continue;
      }
      open.add(node);
      const circular = needed.find((each) => open.has(each));
      if (circular !== undefined) {
        throw new Error(`node "${circular.name}" (${circular.opType}) needs its own output.`);
      }
      stack.push(...needed.toReversed());
    }
  }
  return sorted;
}

/** Nodes that a node needs and that are not placed yet. */
function findMissing(
  node: Node,
  producers: ReadonlyMap<string, Node>,
  done: ReadonlySet<Node>,
): Node[] {
  return namesRead(node).flatMap((name) => {
    const producer = producers.get(name);
    return producer === undefined || done.has(producer) ? [] : [producer];
  });
}
