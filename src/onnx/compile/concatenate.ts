/**
 * Constants joined to one.
 *
 * @module
 */
import { storedBytes } from "../file/stored_tensor.ts";
import type { Tensor } from "../file/proto.ts";

/** Constants one after the other along their first axis, or along the last of two; computed when it is read. */
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
