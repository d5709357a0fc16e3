/**
 * Widens an f16 cut to f32 for the CPU. ONNX Runtime has no f16 arithmetic there and would cast before and after each
 * node, and Hearth's kernels only compute in f32.
 *
 * @module
 */
import { widenTensor } from "../file/stored_range.ts";
import { countStoredBytes, toDtypeCode } from "../file/tensor.ts";
import {
  attribute,
  hasSubgraph,
  makeNode,
  type Node,
  readIntAttribute,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_codec.ts";
import type {
  AttentionNode,
  ExpertsNode,
  GraphCut,
  RecurrenceNode,
  Segment,
  TensorPort,
} from "../graph_cut.ts";
import { GraphIndex } from "../graph_index.ts";

/** Tables of more bytes stay in f16. Their rows are widened when they are read. */
const MAX_TABLE_BYTES = 4 * 2 ** 20;

/**
 * Maximum number of bytes of f32 matrices in a segment, because ONNX Runtime reads its model as a file of at most 2
 * GiB.
 */
const MAX_MATRIX_BYTES = 2 ** 30;

const [FLOAT16, FLOAT32] = [toDtypeCode("float16"), toDtypeCode("float32")];

/**
 * Converts constants, and tensors that cross between segments, to f32. The inputs of the cut are unchanged.
 *
 * @returns the cut itself if nothing in it is f16, or if a segment cannot be widened: a node other than a cast may
 * create f16 tensors, a node has a nested graph, a large table is not only read by lookups, or the segment's matrices
 * would exceed {@linkcode MAX_MATRIX_BYTES}.
 */
export function widenCut(cut: GraphCut): GraphCut {
  const hasHalves = cut.segments.some(({ outputs, model: { graph } }) =>
    [...outputs, ...graph.initializers].some(({ dtype }) => dtype === "float16")
  );
  if (!hasHalves || !cut.segments.every(canWiden)) return cut;
  const outside = new Set([cut.tokens, cut.perLayer].flatMap((port) => port?.name ?? []));
  return {
    ...cut,
    segments: cut.segments.map((segment) => widenSegment(segment, outside)),
    attentions: cut.attentions.map(widenNode),
    states: cut.states.map(widenNode),
    experts: cut.experts.map(widenNode),
    output: { ...cut.output, ...widenPort(cut.output) },
  };
}

function canWiden({ model: { graph } }: Segment): boolean {
  const index = new GraphIndex(graph);
  const isHalf = (name = "") => index.constants.get(name)?.dtype === "float16";
  const tables = new Set(graph.nodes.filter((node) => isTableLookup(index, node)).map(getTable));
  const matrices = graph.nodes.flatMap(({ opType, inputs }) => {
    if (opType !== "MatMul" && opType !== "Gemm") return [];
    const matrix = index.producers.get(inputs[1] ?? "")?.inputs[0] ?? inputs[1];
    return isHalf(matrix) ? index.constants.get(matrix!)! : [];
  });
  const bytes = matrices.reduce((sum, matrix) => sum + 2 * countStoredBytes(matrix), 0);
  if (bytes > MAX_MATRIX_BYTES) return false;
  return graph.nodes.every((node) => {
    if (isTableLookup(index, node)) return true;
    if (node.inputs.some((name) => tables.has(name))) return false;
    const { opType } = node;
    // Random operators and similar ones have an attribute `dtype`.
    return !hasSubgraph(node) && opType !== "ConstantOfShape" && opType !== "Constant" &&
      readIntAttribute(node, "dtype") !== FLOAT16;
  });
}

/** Whether a node reads rows of a large f16 table. */
function isTableLookup({ constants }: GraphIndex, node: Node): boolean {
  const table = node.opType === "Gather" ? constants.get(getTable(node)) : undefined;
  return table?.dtype === "float16" && countStoredBytes(table) > MAX_TABLE_BYTES;
}

function getTable({ inputs }: Node): string {
  return inputs[0]!;
}

function widenSegment(segment: Segment, outside: ReadonlySet<string>): Segment {
  const { model: { graph } } = segment;
  const index = new GraphIndex(graph);
  const casts = new Map(
    segment.inputs.filter(({ name, dtype }) => outside.has(name) && dtype === "float16")
      .map(({ name }) => [name, makeCast(name, `${name}/float32`)]),
  );
  const nodes = graph.nodes.flatMap((node) => {
    const [output] = node.outputs as [string];
    const read = {
      ...node,
      inputs: node.inputs.map((name) => casts.get(name)?.outputs[0] ?? name),
    };
    if (isTableLookup(index, node)) {
      const rows = `${output}/float16`;
      return [{ ...read, outputs: [rows] }, makeCast(rows, output)];
    }
    const isCast = node.opType === "Cast" && readIntAttribute(node, "to") === FLOAT16;
    return isCast ? [{ ...read, attributes: [attribute("to", FLOAT32)] }] : [read];
  });
  const tables = new Set(graph.nodes.filter((node) => isTableLookup(index, node)).map(getTable));
  const initializers = graph.initializers.map((tensor) =>
    tensor.dtype === "float16" && !tables.has(tensor.name) ? widenTensor(tensor) : tensor
  );
  const inputs = segment.inputs.map((port) => outside.has(port.name) ? port : widenPort(port));
  const outputs = segment.outputs.map(widenPort);
  const declare = ({ name, dtype, shape }: TensorPort) => makeValueInfo(name, dtype, shape);
  return {
    ...segment,
    inputs,
    outputs,
    model: withGraph(segment.model, {
      nodes: [...casts.values(), ...nodes],
      initializers,
      inputs: inputs.map(declare),
      outputs: outputs.map(declare),
    }),
  };
}

function makeCast(input: string, output: string): Node {
  return makeNode("Cast", [input], [output], { attributes: { to: FLOAT32 } });
}

function widenNode<Widened extends AttentionNode | RecurrenceNode | ExpertsNode>(
  node: Widened,
): Widened {
  return { ...node, dtype: "float32", output: widenPort(node.output) };
}

function widenPort(port: TensorPort): TensorPort {
  return port.dtype === "float16" ? { ...port, dtype: "float32" } : port;
}
