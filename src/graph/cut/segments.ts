/**
 * Partitions a graph with kernel nodes into segments, and builds a model of each. A node's segment is its level: the
 * largest number of kernel nodes on any path from an input to it.
 *
 * @module
 */
import { findDependents } from "./fold_lengths.ts";
import type { GraphIndex } from "../graph_index.ts";
import { makeNode, type ModelProto, type Node, type Tensor } from "../file/proto.ts";
import { Refusal } from "../refusal.ts";
import { isKernelNode } from "../attention/replace_attentions.ts";
import type { EncoderTail, Segment, TensorPort } from "../graph_cut.ts";
import { makeValueInfo } from "../file/proto_codec.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";
import type { TokenAxes } from "./token_axis.ts";
import type { TokenwiseGraph } from "./prepare_graph.ts";

/** The nodes of one segment and the tensors that enter and leave it. */
interface SegmentNodes {
  readonly nodes: readonly Node[];
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** A partition of a graph's nodes into segments. */
export interface Partition {
  readonly segments: readonly SegmentNodes[];
  /** The level of each kernel node, which is the index of the segment that runs before it. */
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
 * Partitions the nodes. Nodes that depend on no input, or that only compute lengths, are cheap: each segment that needs
 * such a node gets a copy of it, so that results of these nodes do not cross between segments.
 *
 * @param lengths the tensors that hold lengths.
 * @param wanted the output of the last segment.
 * @throws {Refusal} when a kernel node directly reads the result of another kernel node.
 */
export function partitionNodes(
  index: GraphIndex,
  lengths: ReadonlySet<string>,
  wanted: string,
): Partition {
  const { nodes } = index.graph;
  const levels = computeLevels(nodes, index.inputs.keys());
  const kernelNodes = nodes.filter(isKernelNode);
  const running = findDependents(nodes, [
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

/**
 * Describes a tensor that crosses between segments.
 *
 * @throws {Refusal} when it does not have one row per token.
 */
export function makePort(name: string, probes: Probes, axes: TokenAxes): TensorPort {
  const tokens = axes.find(name);
  if (tokens !== undefined && tokens.multiple !== 1) {
    throw new Refusal(`"${name}" crosses between segments with ${tokens.multiple} rows per token.`);
  }
  const { dtype } = probes.at(SHORT_LENGTHS[0]).value(name)!;
  const shape = axes.shape(name).map((size, axis) => axis === tokens?.axis ? "tokens" : size);
  return { name, dtype, shape };
}

/** Input of the last segment: the wanted rows. */
export const ROWS: TensorPort = {
  name: "logit_rows",
  dtype: "int64",
  shape: ["rows"],
  isIndex: true,
};

/** Replaces the tokens' axis of an output of the last segment, which has only the wanted rows. */
function toRowsPort(port: TensorPort): TensorPort {
  return { ...port, shape: port.shape.map((size) => size === "tokens" ? "rows" : size) };
}

/** Restricts a segment to the wanted rows, by gathering them from each input that has a row per token. */
function gatherRows(
  segment: SegmentNodes,
  ports: readonly TensorPort[],
): readonly Node[] {
  const gathered = new Map<string, string>();
  const gathers: Node[] = [];
  for (const { name, shape } of ports) {
    const axis = shape.indexOf("tokens");
    if (axis < 0) continue;
    const rows = `${name}/wanted_rows`;
    gathered.set(name, rows);
    gathers.push(makeNode("Gather", [name, ROWS.name], [rows], { attributes: { axis } }));
  }
  const nodes = segment.nodes.map((node) => ({
    ...node,
    inputs: node.inputs.map((name) => gathered.get(name) ?? name),
  }));
  return [...gathers, ...nodes];
}

/**
 * Builds a segment's model.
 *
 * @param model provides the operator sets.
 * @param constants of the graph by name.
 */
export function buildSegment(
  model: ModelProto,
  constants: ReadonlyMap<string, Tensor>,
  { index, nodes, inputs, outputs }: {
    readonly index: number;
    readonly nodes: readonly Node[];
    readonly inputs: readonly TensorPort[];
    readonly outputs: readonly TensorPort[];
  },
): Segment {
  const declare = ({ name, dtype, shape }: TensorPort) => makeValueInfo(name, dtype, shape);
  const used = new Set(nodes.flatMap((node) => node.inputs));
  const initializers = [...used].flatMap((name) => constants.get(name) ?? []);
  return {
    index,
    model: {
      ...model,
      graph: {
        name: `segment_${index}`,
        nodes,
        initializers,
        inputs: inputs.map(declare),
        outputs: outputs.map(declare),
        valueInfos: [],
        rest: [],
      },
      rest: [],
    },
    inputs,
    outputs,
  };
}

/** Makes the last segment compute only the wanted rows, or the result of the tail if there is one. */
function endWith(
  part: Partition["segments"][number],
  ports: { readonly inputs: readonly TensorPort[]; readonly outputs: readonly TensorPort[] },
  tail: EncoderTail | undefined,
) {
  if (tail === undefined) {
    return {
      nodes: gatherRows(part, ports.inputs),
      inputs: [...ports.inputs, ROWS],
      outputs: ports.outputs.map(toRowsPort),
    };
  }
  return {
    nodes: [...part.nodes, ...tail.nodes],
    inputs: [...ports.inputs, tail.input],
    outputs: [tail.output],
  };
}

/** Builds the model of each segment. The last one computes only the wanted rows, or the tail. */
export function buildSegments(
  model: ModelProto,
  { probes, proof }: Pick<TokenwiseGraph, "probes" | "proof">,
  { partition, tail }: { readonly partition: Partition; readonly tail?: EncoderTail | undefined },
): Segment[] {
  const last = partition.segments.length - 1;
  return partition.segments.map((part, index) => {
    const toPorts = (names: readonly string[]) =>
      names.map((name) => makePort(name, probes, proof.axes));
    const ports = { inputs: toPorts(part.inputs), outputs: toPorts(part.outputs) };
    const ended = index === last ? endWith(part, ports, tail) : { nodes: part.nodes, ...ports };
    return buildSegment(model, probes.index.constants, { index, ...ended });
  });
}
