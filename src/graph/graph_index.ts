/**
 * Producers and consumers of a graph's tensors, by name.
 *
 * @module
 */
import type { Graph, Node, Tensor, ValueInfo } from "./file/proto.ts";
import { namesRead } from "./node_order.ts";
import { countElements } from "./file/dtype.ts";
import { toValue } from "./evaluate/value.ts";

/** A read-only index of a graph; build a new one after changing the graph. */
export class GraphIndex {
  readonly graph: Graph;
  readonly producers: ReadonlyMap<string, Node>;
  readonly constants: ReadonlyMap<string, Tensor>;
  /** Inputs that must be fed: those that are not constants with a default. */
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

  /** The nodes that take a tensor, each once. */
  consumers(name: string): readonly Node[] {
    return this.#consumers.get(name) ?? [];
  }

  /** Whether the tensor is an output of the graph. */
  isOutput(name: string): boolean {
    return this.graph.outputs.some((output) => output.name === name);
  }

  /** The only node that takes the tensor; `undefined` when there are more or it is an output of the graph. */
  onlyConsumer(name: string): Node | undefined {
    const consumers = this.consumers(name);
    return consumers.length === 1 && !this.isOutput(name) ? consumers[0] : undefined;
  }
}

/** The nodes that the wanted tensors depend on; `nodes` and the result are in topological order. */
export function liveNodes(nodes: readonly Node[], wanted: Iterable<string>): Node[] {
  const needed = new Set(wanted);
  const live: Node[] = [];
  for (const node of nodes.toReversed()) {
    if (!node.outputs.some((output) => needed.has(output))) continue;
    live.push(node);
    for (const name of namesRead(node)) needed.add(name);
  }
  return live.reverse();
}

/** Short name of a node for messages: its operator and its name. */
export function describeNode(node: Node): string {
  const operator = node.domain === "" ? node.opType : `${node.domain}.${node.opType}`;
  return node.name === "" ? operator : `${operator} "${node.name}"`;
}

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

/** A constant with `length` elements along its last axis and no others. */
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

/** Finds which of a node's two inputs passes a test, and names the other. */
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
