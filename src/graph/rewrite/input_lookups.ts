/**
 * Lets `Gather` read inputs directly where a graph reshapes them first.
 *
 * @module
 */
import { type GraphCut, rebuildSegment, type Segment, type TensorPort } from "../graph_cut.ts";
import { GraphIndex, liveNodes } from "../graph_index.ts";
import { int64Tensor, intAttribute, makeNode, type Node } from "../file/proto.ts";
import { isIndex } from "../describe_nodes.ts";
import { toValue } from "../evaluate/value.ts";
import { sliceRows } from "../file/slice_constants.ts";

/**
 * Rewrites each `Gather` whose indices are token ids or positions, reshaped and with a constant added: it reads the
 * input as it is, and the table starts at the row of 0.
 *
 * ONNX Runtime computes with int64 on the CPU alone; what is only an index it takes on the GPU, as our own kernels do,
 * and a table that only token ids index can stay in its file.
 */
export function lookUpInputs(cut: GraphCut): GraphCut {
  const { positions, tokens } = cut;
  let { segments } = cut;
  for (const port of [positions, tokens]) {
    const isRow = port !== undefined && port.dtype === "int64" && port.shape.length === 2;
    if (isRow) segments = segments.map((segment) => rewrite(segment, port.name));
  }
  return { ...cut, segments, tokens: withUse(tokens), positions: positions && withUse(positions) };

  function withUse<Port extends TensorPort>(port: Port): Port {
    const readers = segments.filter(({ inputs }) => inputs.some(({ name }) => name === port.name));
    const isRead = port.dtype === "int64" &&
      readers.every(({ model }) => isIndex(port.name, new GraphIndex(model.graph)));
    return isRead ? { ...port, isIndex: true } : port;
  }
}

function rewrite(segment: Segment, input: string): Segment {
  if (!segment.inputs.some(({ name }) => name === input)) return segment;
  const { graph } = segment.model;
  const index = new GraphIndex(graph);
  const constants = new Map(index.constants);
  const nodes = graph.nodes.flatMap((node) => {
    const [table, indices] = node.inputs.map((name) => index.constants.get(name));
    const isLookup = node.opType === "Gather" && table?.shape.length === 2 && !indices &&
      (intAttribute(node, "axis") ?? 0) === 0;
    const offset = isLookup ? findOffset(index, node.inputs[1]!, input) : undefined;
    if (offset === undefined || node.inputs[1] === input) return [node];
    const [numRows] = table!.shape as [number];
    const rows = offset === 0 ? table! : sliceRows(table!, { numRows, from: offset, to: numRows });
    if (rows === undefined) return [node];
    const [output] = node.outputs as [string];
    // There is one index per token, whatever their shape.
    const shape = int64Tensor(`${output}/shape`, [2], [-1, table!.shape[1]!]);
    for (const tensor of [rows, shape]) constants.set(tensor.name, tensor);
    const found = `${output}/by_input`;
    const rank = findRank(index, node.inputs[1]!, input);
    const lookup: Node = {
      ...node,
      name: found,
      inputs: [rows.name, input],
      outputs: [rank === 2 ? output : found],
    };
    return rank === 2 ? [lookup] : [lookup, makeNode("Reshape", [found, shape.name], [output])];
  });
  const live = liveNodes(nodes, graph.outputs.map(({ name }) => name));
  return rebuildSegment(segment, live, [...constants.values()]);
}

/**
 * The constant added to an input to compute a tensor; `undefined` if it is computed in another way or has more than 2
 * axes.
 */
function findOffset(index: GraphIndex, name: string, input: string): number | undefined {
  if (name === input) return 0;
  const node = index.producers.get(name);
  const [source, operand] = node?.inputs ?? [];
  if (node === undefined || findRank(index, name, input) === undefined) return undefined;
  const offset = findOffset(index, source!, input);
  if (node.opType !== "Add") return offset;
  const added = readConstants(index, operand!);
  return offset === undefined || added?.length !== 1 ? undefined : offset + added[0]!;
}

/** The rank of a tensor that is a reshaped input; `undefined` for any other. */
function findRank(index: GraphIndex, name: string, input: string): number | undefined {
  if (name === input) return 2;
  const node = index.producers.get(name);
  if (node === undefined) return undefined;
  const [source, operand] = node.inputs as [string, string?];
  switch (node.opType) {
    case "Reshape": {
      const sizes = operand === undefined ? undefined : readConstants(index, operand);
      const isRow = sizes?.join() === "-1" || sizes?.join() === "1,-1";
      return isRow ? sizes!.length : undefined;
    }
    case "Add":
      return readConstants(index, operand ?? "")?.length === 1
        ? findRank(index, source, input)
        : undefined;
    case "Cast":
      return findRank(index, source, input);
    default:
      return undefined;
  }
}

function readConstants(index: GraphIndex, name: string): readonly number[] | undefined {
  const tensor = index.constants.get(name);
  if (tensor?.data.kind !== "memory") return undefined;
  const { data } = toValue(tensor);
  return data && Array.from(data);
}
