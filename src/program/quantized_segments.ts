/**
 * Segments with quantized weights, as ONNX Runtime runs them.
 *
 * @module
 */
import { intAttribute, type ModelProto, type Node } from "../graph/file/proto.ts";

/**
 * Whether a segment rounds all rows of a step to 8 bits with one scale (`DynamicQuantizeLinear`, as int8 exports have it),
 * so that what a row becomes depends on the sequences that share its step.
 */
export function sharesScales({ model }: { readonly model: ModelProto }): boolean {
  return model.graph.nodes.some(({ opType }) => opType === "DynamicQuantizeLinear");
}

/**
 * Whether a segment has weights that ONNX Runtime unpacks whole at every run on the CPU, for one row as for many: a matrix
 * of 8192 by 2048 takes it 250 ms with 8 bits and 320 with 2, and Hearth's kernels 1.4 and 0.7 for a row (one thread).
 */
export function unpacksWeights({ model }: { readonly model: ModelProto }): boolean {
  return model.graph.nodes.some(isUnpacked);
}

function isUnpacked(node: Node): boolean {
  if (node.opType !== "MatMulNBits") return false;
  const bits = intAttribute(node, "bits") ?? 4;
  return bits < 4 || (bits === 8 && intAttribute(node, "accuracy_level") !== 4);
}
