/**
 * Builds a separate model for each segment.
 *
 * @module
 */
import type { EncoderTail, Segment, TensorPort } from "../graph_cut.ts";
import { makeNode, type ModelProto, type Node, type Tensor } from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_write.ts";
import { makePort } from "../describe_nodes.ts";
import type { TokenwiseGraph } from "./prepare_graph.ts";
import type { Partition, SegmentNodes } from "./segments.ts";

/** Input of the last segment: the wanted rows. */
export const ROWS: TensorPort = {
  name: "logit_rows",
  dtype: "int64",
  shape: ["rows"],
  isIndex: true,
};

/** An output of the last segment: it has a row per wanted row. */
function toRowsPort(port: TensorPort): TensorPort {
  return { ...port, shape: port.shape.map((size) => size === "tokens" ? "rows" : size) };
}

/** Restricts a segment to the wanted rows: each input with tokens is gathered by row first. */
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
 * @param model provides operator sets and constants.
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

/** Outputs of the last segment: rows of wanted tokens, or the tail's result. */
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

/** A model of each segment; the last computes the wanted rows only, or the tail. */
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
