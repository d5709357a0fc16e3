/**
 * Takes one branch of an `If` for the whole graph, and prunes a graph to some of its outputs.
 *
 * Optimum merges a decoder's first step and its later ones into one graph with an `If`. Two separate graphs need no
 * condition, which a GPU would have to copy back to the host before every step.
 *
 * @module
 */
import { type Graph, makeNode, type ModelProto, type Node, type Tensor } from "../file/proto.ts";
import { decodeNode, decodeTensorMessage, decodeValueInfo } from "../file/proto_decode.ts";
import { ATTRIBUTE } from "../file/proto.ts";
import { readFields } from "../file/wire.ts";

/** Field numbers of GraphProto. */
const GRAPH = { node: 1, initializer: 5, output: 12 } as const;

/**
 * The graph with its one `If` replaced by the named branch, without the input of the condition.
 *
 * @returns `undefined` when the graph has not just one `If`.
 */
export function takeBranch(
  model: ModelProto,
  branch: "then_branch" | "else_branch",
): ModelProto | undefined {
  const { graph } = model;
  const [choice, ...others] = graph.nodes.filter(({ opType }) => opType === "If");
  const message = choice?.attributes.find(({ name }) => name === branch)?.message;
  if (choice === undefined || message === undefined || others.length > 0) return undefined;
  const inner = readBranch(message);
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [
        ...graph.nodes.filter((node) => node !== choice),
        ...inner.nodes,
        ...choice.outputs.map((name, index) =>
          makeNode("Identity", [inner.outputs[index]!], [name])
        ),
      ],
      initializers: [...graph.initializers, ...inner.initializers],
      inputs: graph.inputs.filter(({ name }) => name !== choice.inputs[0]),
      // Value infos may be those of the other branch.
      valueInfos: [],
    },
  };
}

/** The graph with only these outputs, and only what they need. */
export function keepOutputs(model: ModelProto, names: readonly string[]): ModelProto {
  const { graph } = model;
  const outputs = graph.outputs.filter(({ name }) => names.includes(name));
  const needed = new Set(outputs.map(({ name }) => name));
  const nodes: Node[] = [];
  for (const node of graph.nodes.toReversed()) {
    if (!node.outputs.some((name) => needed.has(name))) continue;
    nodes.push(node);
    for (const name of node.inputs) needed.add(name);
  }
  const isNeeded = ({ name }: { readonly name: string }) => needed.has(name);
  return {
    ...model,
    graph: {
      ...graph,
      outputs,
      nodes: nodes.reverse(),
      inputs: graph.inputs.filter(isNeeded),
      initializers: graph.initializers.filter(isNeeded),
    },
  };
}

function readBranch(
  attribute: Uint8Array,
): Pick<Graph, "nodes" | "initializers"> & { outputs: readonly string[] } {
  const nodes: Node[] = [];
  const initializers: Tensor[] = [];
  const outputs: string[] = [];
  for (const field of readFields(attribute)) {
    if (field.number !== ATTRIBUTE.graph) continue;
    for (const { number, payload } of readFields(field.payload)) {
      if (number === GRAPH.node) nodes.push(decodeNode(payload));
      if (number === GRAPH.initializer) initializers.push(decodeTensorMessage(payload));
      if (number === GRAPH.output) outputs.push(decodeValueInfo(payload).name);
    }
  }
  return { nodes, initializers, outputs };
}
