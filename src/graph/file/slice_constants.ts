/**
 * Cuts parts out of constants: rows that are contiguous ranges of their bytes, and columns of matrices that are stored
 * row by row.
 *
 * @module
 */
import { storedBytes } from "./stored_tensor.ts";
import type { Tensor } from "./proto.ts";
import { countElementBytes } from "./dtype.ts";

/** Rows `from` to `to` of a tensor of `numRows`; `undefined` if they are not a range of its bytes. */
export function sliceRows(
  tensor: Tensor,
  { numRows, from, to }: { readonly numRows: number; readonly from: number; readonly to: number },
): Tensor | undefined {
  const { data, name, shape: [first = 0, ...rest] } = tensor;
  const rowBytes = storedBytes(tensor) / numRows;
  if (first % numRows !== 0 || !Number.isInteger(rowBytes)) return;
  if (data.kind !== "file" && data.kind !== "memory") return;
  const [offset, length] = [from * rowBytes, (to - from) * rowBytes];
  return {
    ...tensor,
    name: `${name}/rows ${from} to ${to}`,
    shape: [(to - from) * (first / numRows), ...rest],
    data: data.kind === "file"
      ? { ...data, offset: data.offset + offset, length }
      : { kind: "memory", bytes: data.bytes.subarray(offset, offset + length) },
  };
}

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
  const bytes = new Uint8Array(countElementBytes(dtype, numRows * (to - end)));
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
