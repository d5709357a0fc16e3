/**
 * Cuts parts out of constants that are contiguous ranges of their bytes.
 *
 * @module
 */
import { storedBytes } from "./stored_tensor.ts";
import type { Tensor } from "./proto.ts";

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
