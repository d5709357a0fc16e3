/**
 * Adapts a cut graph to our kernels on the CPU.
 *
 * @module
 */
import type { GraphCut } from "../graph/graph_cut.ts";
import { mergeCutProducts } from "./compile_cut.ts";

/** Outputs that a kernel computes at a time: 8 of weights in f32, 4 of weights of 4 bits. */
const OUTPUTS_AT_ONCE = 8;

/** Joins products of the same rows, for steps in our kernels alone: ONNX Runtime maps the model's file as it is. */
export function cutForCpu(cut: GraphCut): GraphCut {
  return mergeCutProducts(cut, { maxBytes: Infinity, outputsMultiple: OUTPUTS_AT_ONCE });
}
