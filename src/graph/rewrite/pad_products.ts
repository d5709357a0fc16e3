/**
 * Pads products whose widths the kernels for few rows cannot load as vectors.
 *
 * @module
 */
import { storedBytes } from "../file/stored_tensor.ts";
import type { GraphCut } from "../graph_cut.ts";
import { GraphIndex } from "../graph_index.ts";
import {
  getOpset,
  int64Tensor,
  listRead,
  makeNode,
  type ModelProto,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { sliceColumns } from "../file/slice_columns.ts";

const VECTOR = 4;
/** From this opset on, the sizes of a `Split` are an input. */
const OPSET = 13;
/** Smaller ones are left to ONNX Runtime. */
const MIN_BYTES = 32 * 1024;

/**
 * Appends zero columns to the matrices `[k, n]` of products until `n` is a multiple of 4, and splits them off
 * afterwards.
 */
export function padProducts(cut: GraphCut): GraphCut {
  const segments = cut.segments.map((segment) => {
    const model = pad(segment.model);
    if (model === segment.model) return segment;
    const { initializers } = model.graph;
    const weightBytes = initializers.reduce((sum, tensor) => sum + storedBytes(tensor), 0);
    return { ...segment, model, weightBytes };
  });
  return { ...cut, segments };
}

function pad(model: ModelProto): ModelProto {
  const { graph } = model;
  const index = new GraphIndex(graph);
  if (getOpset(model) < OPSET) return model;
  const added: Tensor[] = [];
  const nodes = graph.nodes.flatMap((node) => {
    const [x, name] = node.inputs as [string, string];
    const weights = node.opType === "MatMul" ? index.constants.get(name) : undefined;
    const [k, n] = weights?.shape ?? [];
    if (weights?.shape.length !== 2 || n! % VECTOR === 0 || k! % VECTOR !== 0) return [node];
    if (storedBytes(weights) < MIN_BYTES || index.onlyConsumer(name) !== node) return [node];
    const width = Math.ceil(n! / VECTOR) * VECTOR;
    const padded = sliceColumns(weights, { from: 0, to: width });
    const [y] = node.outputs as [string];
    const sizes = int64Tensor(`${y}/sizes`, [2], [n!, width - n!]);
    added.push(padded, sizes);
    return [
      { ...node, name: `${y}/padded`, inputs: [x, padded.name], outputs: [`${y}/padded`] },
      makeNode("Split", [`${y}/padded`, sizes.name], [y, `${y}/padding`], {
        attributes: { axis: -1 },
      }),
    ];
  });
  if (added.length === 0) return model;
  const initializers = listRead(nodes, [...graph.initializers, ...added]);
  return withGraph(model, { nodes, initializers });
}
