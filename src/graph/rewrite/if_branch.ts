/**
 * Replaces a graph by one branch of its `If`, and prunes a graph to some of its outputs.
 *
 * Optimum merges a decoder's first step and its later ones into one graph with an `If`. Two separate graphs need no
 * condition, which a GPU would have to copy back to the host before every step.
 *
 * @module
 */
import { makeNode, type ModelProto, withGraph } from "../file/proto.ts";
import { liveNodes } from "../graph_index.ts";
import { namesRead, readBranch, sortNodes } from "../node_order.ts";

/**
 * Replaces the only `If` of a graph by the named branch and removes the condition's input.
 *
 * @returns `undefined` unless the graph has exactly one `If`.
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
  return withGraph(model, {
    nodes: sortNodes([
      ...graph.nodes.filter((node) => node !== choice),
      ...inner.nodes,
      ...choice.outputs.map((name, index) => makeNode("Identity", [inner.outputs[index]!], [name])),
    ]),
    initializers: [...graph.initializers, ...inner.initializers],
    inputs: graph.inputs.filter(({ name }) => name !== choice.inputs[0]),
    // Value infos may be those of the other branch.
    valueInfos: [],
  });
}

/** Prunes a graph to these outputs and what they need. */
export function keepOutputs(model: ModelProto, names: readonly string[]): ModelProto {
  const { graph } = model;
  const outputs = graph.outputs.filter(({ name }) => names.includes(name));
  const nodes = liveNodes(graph.nodes, names);
  const needed = new Set([...names, ...nodes.flatMap(namesRead)]);
  const isNeeded = ({ name }: { readonly name: string }) => needed.has(name);
  return withGraph(model, {
    outputs,
    nodes,
    inputs: graph.inputs.filter(isNeeded),
    initializers: graph.initializers.filter(isNeeded),
  });
}
