/**
 * Builds a model that casts one tensor.
 *
 * @module
 */
import { codeOfDtype, type TensorType } from "../file/dtype.ts";
import { makeModel, makeNode } from "../file/proto.ts";
import { makeValueInfo, writeModel } from "../file/proto_write.ts";

/** A model whose input `given` has one dtype and whose output `cast` has another. */
export function buildCast(
  { from, to, shape }: {
    readonly from: TensorType;
    readonly to: TensorType;
    /** Symbolic sizes are strings. */
    readonly shape: readonly (number | string)[];
  },
): Uint8Array {
  return writeModel(makeModel({
    name: "cast",
    nodes: [makeNode("Cast", ["given"], ["cast"], { attributes: { to: codeOfDtype(to) } })],
    inputs: [makeValueInfo("given", from, shape)],
    outputs: [makeValueInfo("cast", to, shape)],
  }));
}
