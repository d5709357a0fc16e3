/**
 * Removes nodes that do nothing.
 *
 * @module
 */
import { GraphIndex, liveNodes } from "../graph_index.ts";
import { intsAttribute, makeNode, type ModelProto, type Node, withGraph } from "../file/proto.ts";

/**
 * Reduces `Transpose(Cast(Transpose(x)))` to `Cast(x)` if one transpose undoes the other, and `Identity` of a constant
 * to the constant.
 */
export function dropIdleNodes(model: ModelProto): ModelProto {
  return cancelTransposes(readConstants(model));
}

function readConstants(model: ModelProto): ModelProto {
  const { graph } = model;
  const index = new GraphIndex(graph);
  const originals = new Map(graph.nodes.flatMap(({ opType, inputs, outputs }) => {
    const isCopy = opType === "Identity" && index.constants.has(inputs[0]!) &&
      !index.isOutput(outputs[0]!);
    return isCopy ? [[outputs[0]!, inputs[0]!]] : [];
  }));
  if (originals.size === 0) return model;
  const nodes = graph.nodes.flatMap((node) =>
    originals.has(node.outputs[0]!)
      ? []
      : [{ ...node, inputs: node.inputs.map((name) => originals.get(name) ?? name) }]
  );
  return withGraph(model, { nodes });
}

function cancelTransposes(model: ModelProto): ModelProto {
  const { graph } = model;
  const index = new GraphIndex(graph);
  const replaced = new Map<Node, readonly Node[]>();
  for (const last of graph.nodes) {
    if (last.opType !== "Transpose") continue;
    const casts: Node[] = [];
    let node = index.producers.get(last.inputs[0]!);
    for (; node?.opType === "Cast"; node = index.producers.get(node.inputs[0]!)) {
      casts.unshift(node);
    }
    if (node?.opType !== "Transpose" || !undoes(node, last)) continue;
    const [input] = node.inputs as [string];
    const steps = casts.length > 0 ? casts : [makeNode("Identity", [], [])];
    replaced.set(
      last,
      steps.map((step, i) => ({
        ...step,
        name: `${last.name}/${i}`,
        inputs: [i === 0 ? input : `${last.outputs[0]}/step_${i - 1}`],
        outputs: [i === steps.length - 1 ? last.outputs[0]! : `${last.outputs[0]}/step_${i}`],
      })),
    );
  }
  if (replaced.size === 0) return model;
  const nodes = graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
  const live = liveNodes(nodes, graph.outputs.map(({ name }) => name));
  return withGraph(model, { nodes: live });
}

function undoes(first: Node, second: Node): boolean {
  const [one, other] = [first, second].map((node) => intsAttribute(node, "perm"));
  return one !== undefined && other?.length === one.length &&
    other.every((axis, i) => one[axis] === i);
}
