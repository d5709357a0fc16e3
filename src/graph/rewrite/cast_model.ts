/**
 * A graph that casts.
 *
 * @module
 */
import { codeOfDtype, type TensorType } from "../file/dtype.ts";
import { makeNode } from "../file/proto.ts";
import { makeValueInfo, writeModel } from "../file/proto_write.ts";

/** The ModelProto of a graph that turns a tensor `given` of one dtype into a tensor `cast` of another. */
export function buildCast(
  { from, to, shape }: {
    readonly from: TensorType;
    readonly to: TensorType;
    /** Symbolic sizes are strings. */
    readonly shape: readonly (number | string)[];
  },
): Uint8Array {
  return writeModel({
    irVersion: 8,
    operatorSets: [{ domain: "", version: 17 }],
    graph: {
      name: "cast",
      nodes: [makeNode("Cast", ["given"], ["cast"], { attributes: { to: codeOfDtype(to) } })],
      initializers: [],
      inputs: [makeValueInfo("given", from, shape)],
      outputs: [makeValueInfo("cast", to, shape)],
      valueInfos: [],
      rest: [],
    },
    rest: [],
  });
}
