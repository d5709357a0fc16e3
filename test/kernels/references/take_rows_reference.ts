/**
 * `take_rows` on the CPU.
 *
 * @module
 */
import type { TakeRowsParams } from "../../../kernels/rows/row_kernels.ts";

/** See {@linkcode TakeRows}. @returns bytes `[numbers.length, rowBytes]`. */
export function takeRowsReference(
  { rowBytes, tableRows }: TakeRowsParams,
  { table, numbers }: { readonly table: Uint8Array; readonly numbers: readonly number[] },
): Uint8Array {
  const out = new Uint8Array(numbers.length * rowBytes);
  numbers.forEach((number, row) => {
    const from = Math.min(number, tableRows - 1) * rowBytes;
    out.set(table.subarray(from, from + rowBytes), row * rowBytes);
  });
  return out;
}
