/**
 * The dependencies between the nodes of a graph: producers and consumers of tensors, topological order, and the tensors
 * that nested graphs read.
 *
 * @module
 */
import {
  ATTRIBUTE,
  type Graph,
  hasSubgraph,
  type Node,
  type Tensor,
  type ValueInfo,
} from "./file/proto.ts";
import { countElements } from "./file/tensor.ts";
import { toValue } from "./evaluate/value.ts";
import { decodeNode, decodeTensorMessage } from "./file/proto_codec.ts";
import { decodeText, type Field, readFields } from "./file/wire.ts";

/** A read-only index of a graph; build a new one after changing the graph. */
export class GraphIndex {
  readonly graph: Graph;
  readonly producers: ReadonlyMap<string, Node>;
  readonly constants: ReadonlyMap<string, Tensor>;
  /** Inputs that must be fed, which excludes those with a default value. */
  readonly inputs: ReadonlyMap<string, ValueInfo>;
  readonly #consumers = new Map<string, Node[]>();

  constructor(graph: Graph) {
    this.graph = graph;
    const producers = new Map<string, Node>();
    for (const node of graph.nodes) {
      for (const output of node.outputs) if (output !== "") producers.set(output, node);
      for (const input of new Set(node.inputs)) {
        const consumers = this.#consumers.get(input);
        if (consumers) consumers.push(node);
        else this.#consumers.set(input, [node]);
      }
    }
    this.producers = producers;
    this.constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
    this.inputs = new Map(
      graph.inputs.filter(({ name }) => !this.constants.has(name)).map((info) => [info.name, info]),
    );
  }

  /** The nodes that read a tensor, each listed once. */
  consumers(name: string): readonly Node[] {
    return this.#consumers.get(name) ?? [];
  }

  /** Whether the tensor is an output of the graph. */
  isOutput(name: string): boolean {
    return this.graph.outputs.some((output) => output.name === name);
  }

  /** The only node that reads a tensor; `undefined` if there are several, or if it is an output of the graph. */
  onlyConsumer(name: string): Node | undefined {
    const consumers = this.consumers(name);
    return consumers.length === 1 && !this.isOutput(name) ? consumers[0] : undefined;
  }
}

/** The nodes that the wanted tensors depend on; `nodes` and the result are in topological order. */
export function findLiveNodes(nodes: readonly Node[], wanted: Iterable<string>): Node[] {
  const needed = new Set(wanted);
  const live: Node[] = [];
  for (const node of nodes.toReversed()) {
    if (!node.outputs.some((output) => needed.has(output))) continue;
    live.push(node);
    for (const name of listReads(node)) needed.add(name);
  }
  return live.reverse();
}

/** Short name of a node for messages: its operator and its name. */
export function describeNode(node: Node): string {
  const operator = node.domain === "" ? node.opType : `${node.domain}.${node.opType}`;
  return node.name === "" ? operator : `${operator} "${node.name}"`;
}

/**
 * Follows a tensor back through nodes with these operators, from output to first input, until no such node computes it.
 */
export function followBack(
  index: GraphIndex,
  tensor: string,
  operators: ReadonlySet<string>,
): string {
  let name = tensor;
  for (
    let node = index.producers.get(name);
    node && operators.has(node.opType);
    node = index.producers.get(name)
  ) name = node.inputs[0]!;
  return name;
}

/** Operators that change at most the type of their input. */
export const COPYING: ReadonlySet<string> = new Set(["Identity", "Cast"]);

/** The value of a constant of one element. */
export function readScalar(index: GraphIndex, name: string | undefined): number | undefined {
  const tensor = index.constants.get(name ?? "");
  if (tensor === undefined || countElements(tensor.shape) !== 1) return undefined;
  return tensor.data.kind === "memory" ? toValue(tensor).data?.[0] : undefined;
}

/** The values of a constant of integers. */
export function readIntegers(index: GraphIndex, name: string | undefined): number[] | undefined {
  const tensor = index.constants.get(name ?? "");
  if (tensor?.dtype !== "int64" || tensor.data.kind !== "memory") return undefined;
  return [...toValue(tensor).data ?? []];
}

/** A constant in which all axes but the last have size 1. If `length` is given, the last must have that size. */
export function readVector(
  index: GraphIndex,
  name: string | undefined,
  length?: number,
): Tensor | undefined {
  const tensor = index.constants.get(name ?? "");
  const size = tensor?.shape.at(-1);
  if (tensor === undefined || size === undefined || countElements(tensor.shape) !== size) {
    return undefined;
  }
  return length === undefined || size === length ? tensor : undefined;
}

/**
 * Calls `test` with each of a node's two inputs. Returns its result for the first input that passes, and the name of
 * the other input.
 */
export function eitherInput<T>(
  { inputs }: Node,
  test: (name: string) => T | undefined,
): { readonly found: T; readonly other: string } | undefined {
  const [left, right] = inputs as [string, string];
  const first = test(left);
  if (first !== undefined) return { found: first, other: right };
  const second = test(right);
  return second === undefined ? undefined : { found: second, other: left };
}

/** A graph nested in a node: its nodes in topological order, the rest still encoded. */
interface Subgraph {
  readonly nodes: readonly Node[];
  readonly fields: readonly Field[];
}

/** Field numbers of GraphProto. */
const GRAPH = { node: 1, initializer: 5, input: 11, output: 12 } as const;
/** Field numbers of `name` in TensorProto and in ValueInfoProto. */
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

/** A nested graph, with the names of its inputs and outputs. */
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

/** Cached results of {@linkcode listCapturedNames}. The key is a node's attributes, which copies of the node share. */
const captured = new WeakMap<Node["attributes"], readonly string[]>();

/** Tensors of the outer graph that a node's subgraphs read. */
function listCapturedNames({ attributes }: Node): readonly string[] {
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
      for (const name of [...nodes.flatMap(listReads), ...outputs]) {
        if (!own.has(name)) names.add(name);
      }
    }
  }
  const result = [...names];
  captured.set(attributes, result);
  return result;
}

/** The tensors that a node reads: its inputs, and the tensors of the same graph that its subgraphs read. */
export function listReads(node: Node): readonly string[] {
  const inputs = node.inputs.filter((name) => name !== "");
  return hasSubgraph(node) ? [...inputs, ...listCapturedNames(node)] : inputs;
}

/**
 * Sorts nodes topologically: a node that comes too late moves to just before the first node that needs it.
 *
 * ONNX wants producers before their consumers. ONNX Runtime takes any order, and converters that append nodes (casts of
 * fp16 converters, for example) rely on that.
 *
 * @throws {Error} when nodes need each other in a cycle.
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

/** The nodes that a node reads from and that are not sorted yet. */
function findMissing(
  node: Node,
  producers: ReadonlyMap<string, Node>,
  done: ReadonlySet<Node>,
): Node[] {
  return listReads(node).flatMap((name) => {
    const producer = producers.get(name);
    return producer === undefined || done.has(producer) ? [] : [producer];
  });
}

/** ONNX Runtime's WebGPU operators that take an int64 tensor as their second input. */
const INDEXED = new Set(["Gather", "GatherBlockQuantized", "RotaryEmbedding"]);

/**
 * Whether an int64 input is read only by nodes that run on the GPU. ONNX Runtime does all other int64 arithmetic on the
 * CPU. If the input were in GPU memory, ONNX Runtime would wait for all GPU work and then copy it back.
 */
export function isIndex(input: string, graph: GraphIndex): boolean {
  return graph.consumers(input).every(({ opType, inputs }) =>
    INDEXED.has(opType) && inputs.every((name, position) => name !== input || position === 1)
  );
}
