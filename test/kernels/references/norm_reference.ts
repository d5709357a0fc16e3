/**
 * `norm` on the CPU.
 *
 * @module
 */
import { normalizeRow } from "./matvec_reference.ts";
import type { NormKernelParams } from "../../../kernels/rows/row_kernels.ts";

/** The kernel's tensors. */
interface ReferenceNormTensors {
  readonly x: Float32Array;
  readonly gamma: Float32Array;
  readonly beta?: Float32Array | undefined;
  readonly residual?: Float32Array | undefined;
}

/** See {@linkcode Norm}. @returns `[numRows, heads * k]`. */
export function normReference(
  { k, heads, x, norm }: NormKernelParams,
  tensors: ReferenceNormTensors,
  numRows: number,
): Float32Array {
  const out = new Float32Array(numRows * heads * k);
  for (let at = 0; at < out.length; at += k) {
    const row = Math.floor(at / (heads * k));
    const from = row * x.stride + x.offset + at % (heads * k);
    out.set(normalizeRow(tensors.x.slice(from, from + k), norm, tensors), at);
  }
  return tensors.residual ? out.map((value, i) => value + tensors.residual![i]!) : out;
}
