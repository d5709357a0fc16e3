/**
 * Graphs that compute a row by the rows beside it.
 *
 * @module
 */
import type { ModelProto } from "../graph/file/proto.ts";

/**
 * Whether a segment rounds all rows of a step to 8 bits with one scale (`DynamicQuantizeLinear`, as int8 exports have it),
 * so that what a row becomes depends on the sequences that share its step.
 */
export function sharesScales({ model }: { readonly model: ModelProto }): boolean {
  return model.graph.nodes.some(({ opType }) => opType === "DynamicQuantizeLinear");
}
