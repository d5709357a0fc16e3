/**
 * Concatenates constants.
 *
 * @module
 */
import { countElements } from "../graph/file/dtype.ts";
import { storedBytes } from "../graph/file/stored_tensor.ts";
import type { Tensor } from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";

/** Concatenates constants along their first axis, or along the last of two. The result is computed when it is read. */
export function concatenate(name: string, tensors: readonly Tensor[], axis: 0 | 1): Tensor {
  const length = tensors.reduce((sum, tensor) => sum + storedBytes(tensor), 0);
  const [{ dtype, shape }] = tensors as [Tensor];
  const total = tensors.reduce((sum, tensor) => sum + tensor.shape[axis]!, 0);
  const numRows = axis === 0 ? 1 : shape[0]!;
  return {
    name,
    dtype,
    shape: shape.map((size, i) => i === axis ? total : size),
    data: {
      kind: "rows",
      numRows,
      parts: tensors.map((source) => ({ source, from: 0, length: storedBytes(source) / numRows })),
      length,
    },
    rest: [],
  };
}

/** Concatenates vectors, whatever their shapes. @throws {Refusal} when they differ in type. */
export function joinVectors(vectors: readonly Tensor[]): Tensor {
  const [first, ...others] = vectors as [Tensor, ...Tensor[]];
  if (others.length === 0) return first;
  const other = others.find(({ dtype }) => dtype !== first.dtype);
  if (other !== undefined) {
    throw new Refusal(`Its constants "${first.name}" and "${other.name}" differ in type.`);
  }
  const name = vectors.map((vector) => vector.name).join(", ");
  return concatenate(
    name,
    vectors.map((vector) => ({ ...vector, shape: [countElements(vector.shape)] })),
    0,
  );
}
