/**
 * Cuts columns out of matrices that are stored row by row.
 *
 * @module
 */
import { bytesOfElements } from "./dtype.ts";
import { storedBytes } from "./stored_tensor.ts";
import type { Tensor } from "./proto.ts";

/** Columns `from` to `to` of a matrix `[rows, columns]`; those after the last are zero. */
export function sliceColumns(
  tensor: Tensor,
  { from, to }: { readonly from: number; readonly to: number },
): Tensor {
  const { name, dtype, shape: [numRows = 1, numColumns = 1] } = tensor;
  const bytesPerColumn = storedBytes(tensor) / numRows / numColumns;
  const end = Math.min(to, numColumns);
  const own = {
    source: tensor,
    from: from * bytesPerColumn,
    length: (end - from) * bytesPerColumn,
  };
  const padding = (to - end) * bytesPerColumn;
  const bytes = new Uint8Array(bytesOfElements(dtype, numRows * (to - end)));
  const zeros: Tensor = {
    name: `${name}/zeros`,
    dtype,
    shape: [numRows, to - end],
    data: { kind: "memory", bytes },
    rest: [],
  };
  return {
    ...tensor,
    name: `${name}/columns ${from} to ${to}`,
    shape: [numRows, to - from],
    data: {
      kind: "rows",
      numRows,
      parts: padding > 0 ? [own, { source: zeros, from: 0, length: padding }] : [own],
      length: numRows * (own.length + padding),
    },
  };
}
