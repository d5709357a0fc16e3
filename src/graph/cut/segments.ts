/**
 * Partitions the nodes of a graph with kernel nodes into segments, by level: the largest number of kernel
 * nodes on any path to a node.
 *
 * @module
 */
import { dependents } from "./fold_lengths.ts";
import type { GraphIndex } from "../graph_index.ts";
import type { Node } from "../file/proto.ts";
import { Refusal } from "../refusal.ts";
import { isKernelNode } from "../attention/replace_attentions.ts";

/** The nodes of one segment and the tensors that enter and leave it. */
export interface SegmentNodes {
  readonly nodes: readonly Node[];
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** The segments of a graph. */
export interface Partition {
  readonly segments: readonly SegmentNodes[];
  /** The level of each kernel node: the segment that must have run before it. */
  readonly nodeLevels: ReadonlyMap<Node, number>;
}

/** The level of every tensor that depends on an input. */
function computeLevels(nodes: readonly Node[], inputs: Iterable<string>): Map<string, number> {
  const levels = new Map([...inputs].map((name) => [name, 0]));
  for (const node of nodes) {
    const known = node.inputs.flatMap((name) => levels.get(name) ?? []);
    if (known.length === 0) continue;
    const level = Math.max(...known) + (isKernelNode(node) ? 1 : 0);
    for (const output of node.outputs) if (output !== "") levels.set(output, level);
  }
  return levels;
}

/**
 * Partitions the nodes. Nodes that depend on no input, or only compute lengths, are cheap: each segment that needs them
 * gets a copy, so that their results do not cross between segments.
 *
 * @param lengths the tensors that hold lengths.
 * @param wanted the output of the last segment.
 * @throws {Refusal} when there is nothing to compute between two kernel nodes.
 */
export function partitionNodes(
  index: GraphIndex,
  lengths: ReadonlySet<string>,
  wanted: string,
): Partition {
  const { nodes } = index.graph;
  const levels = computeLevels(nodes, index.inputs.keys());
  const kernelNodes = nodes.filter(isKernelNode);
  const running = dependents(nodes, [
    ...index.inputs.keys(),
    ...kernelNodes.flatMap(({ outputs }) => outputs),
  ]);
  const isCopied = ({ outputs }: Node) =>
    outputs.every((name) => !running.has(name) || lengths.has(name));
  const getLevel = (node: Node) => Math.max(...node.outputs.map((name) => levels.get(name) ?? 0));
  const numSegments = levels.get(wanted)! + 1;

  const parts = Array.from({ length: numSegments }, (_, level) => {
    const members = new Set(
      nodes.filter((node) => !isKernelNode(node) && !isCopied(node) && getLevel(node) === level),
    );
    const inputs = new Set<string>();
    const open = [...members].flatMap((node) => node.inputs);
    for (let name = open.pop(); name !== undefined; name = open.pop()) {
      if (name === "" || index.constants.has(name)) continue;
      const producer = index.producers.get(name);
      if (producer === undefined || (!members.has(producer) && !isCopied(producer))) {
        inputs.add(name);
      } else if (!members.has(producer)) {
        members.add(producer);
        open.push(...producer.inputs);
      }
    }
    if (members.size === 0) throw new Refusal("Two of its attentions follow each other directly.");
    return { nodes: nodes.filter((node) => members.has(node)), inputs: [...inputs] };
  });

  const crossing = new Set([
    wanted,
    ...parts.flatMap(({ inputs }) => inputs),
    ...kernelNodes.flatMap(({ inputs }) => inputs),
  ]);
  return {
    segments: parts.map((part) => ({
      ...part,
      outputs: part.nodes.filter((node) => !isCopied(node)).flatMap(({ outputs }) =>
        outputs.filter((name) => crossing.has(name))
      ),
    })),
    nodeLevels: new Map(kernelNodes.map((node) => [node, levels.get(node.outputs[0]!)! - 1])),
  };
}
