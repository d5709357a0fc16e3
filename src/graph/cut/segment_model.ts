/**
 * Builds a separate model for each segment.
 *
 * @module
 */
import type { Dim, Segment, TensorPort } from "../graph_cut.ts";
import { storedBytes } from "../file/stored_tensor.ts";
import { makeNode, type ModelProto, type Node, type Tensor } from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_write.ts";
import type { SegmentNodes } from "./segments.ts";

/** Input of the last segment: the wanted rows. */
export const ROWS: TensorPort = {
  name: "logit_rows",
  dtype: "int64",
  shape: ["rows"],
  isIndex: true,
};

/** An output of the last segment: it has a row per wanted row. */
export function toRowsPort(port: TensorPort): TensorPort {
  return { ...port, shape: port.shape.map((size) => size === "tokens" ? "rows" : size) };
}

/** Restricts a segment to the wanted rows: each input with tokens is gathered by row first. */
export function gatherRows(
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

/** Renames the sizes that vary to the symbols of ONNX. */
function declare({ name, dtype, shape }: TensorPort) {
  return makeValueInfo(name, dtype, shape.map((size: Dim) => size));
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
    weightBytes: initializers.reduce((sum, tensor) => sum + storedBytes(tensor), 0),
    inputs,
    outputs,
  };
}
