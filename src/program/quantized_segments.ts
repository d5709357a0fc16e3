/**
 * Properties of segments with quantized weights in ONNX Runtime.
 *
 * @module
 */
import { intAttribute, type ModelProto, type Node } from "../graph/file/proto.ts";

/**
 * Whether a segment rounds all rows of a step to 8 bits with one scale (`DynamicQuantizeLinear`, as in int8 exports),
 * so that a row's result depends on the sequences that share its step.
 */
export function sharesScales({ model }: { readonly model: ModelProto }): boolean {
  return model.graph.nodes.some(({ opType }) => opType === "DynamicQuantizeLinear");
}

/**
 * Whether a segment has weights that ONNX Runtime on the CPU unpacks completely at every run, even for one row. A
 * matrix of 8192 by 2048 takes it 250 ms with 8 bits and 320 ms with 2, while Hearth's kernels take 1.4 and 0.7 ms per
 * row (on one thread).
 */
export function unpacksWeights({ model }: { readonly model: ModelProto }): boolean {
  return model.graph.nodes.some(isUnpacked);
}

function isUnpacked(node: Node): boolean {
  if (node.opType !== "MatMulNBits") return false;
  const bits = intAttribute(node, "bits") ?? 4;
  return bits < 4 || (bits === 8 && intAttribute(node, "accuracy_level") !== 4);
}
