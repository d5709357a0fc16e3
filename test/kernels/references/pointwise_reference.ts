/**
 * `pointwise` on the CPU.
 *
 * @module
 */
import { activate } from "./activate.ts";
import type { PointwiseParams } from "../../../kernels/rows/row_kernels.ts";

/** See {@linkcode Pointwise}. @returns `[numRows, width]`. */
export function pointwiseReference(
  { width, a, b, repeats = 1, operation, activation, scale }: PointwiseParams,
  tensors: { readonly a: Float32Array; readonly b?: Float32Array },
  numRows: number,
): Float32Array {
  return Float32Array.from({ length: numRows * width }, (_, at) => {
    const [row, i] = [Math.floor(at / width), at % width];
    let value = activate(activation, tensors.a[row * a.stride + a.offset + i]!);
    const other = tensors.b?.[row * b.stride + b.offset + Math.floor(i / repeats)] ?? 0;
    if (operation === "add") value += other;
    if (operation === "multiply") value *= other;
    if (operation === "max") value = Math.max(value, other);
    if (operation === "min") value = Math.min(value, other);
    return value * scale;
  });
}
