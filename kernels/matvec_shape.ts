/**
 * How `matvec` divides its work; it differs between hardware and software adapters.
 *
 * @module
 */
import type { GpuContext } from "../src/gpu/device.ts";
import type { MatvecParams } from "./matvec_params.ts";

/** One workgroup takes `groups` units of `outs` rows of the matrix, each summed by `lanes` threads. */
export interface MatvecTiling {
  readonly lanes: number;
  readonly groups: number;
  readonly outs: number;
  /** Whether neighbouring threads take neighbouring units. */
  readonly unitsFirst: boolean;
  /** How many rows one workgroup may take, ascending: each is a program of its own. */
  readonly rowForms: readonly number[];
}

/** Rows that the tensors of a matvec have room for at least. */
export const MAX_MATVEC_ROWS = 256;

/** The form for a number of rows: the smallest that holds all, or the largest. */
export function rowFormOf({ rowForms }: MatvecTiling, numRows: number): number {
  return rowForms.find((rows) => rows >= numRows) ?? rowForms.at(-1)!;
}

/** Floats of workgroup memory besides the 64 of a norm. */
export function numSums(
  { lanes, groups }: MatvecTiling,
  { rows, isGated }: { readonly rows: number; readonly isGated: boolean },
): number {
  return lanes * groups * rows * (lanes > 1 && isGated ? 2 : 1);
}

/** Programs take a software adapter long to compile, and more rows than four too many registers. */
const SOFTWARE_ROWS = [1, 4];
const HARDWARE_ROWS = [1, 4, 8];

/** The largest power of two up to `limit` that is no larger than `count`. */
function powerOfTwo(count: number, limit: number): number {
  return Math.min(limit, 2 ** Math.floor(Math.log2(Math.max(1, count))));
}

/**
 * A graphics card reads best where neighbouring threads read neighbouring words, and needs many threads. A software
 * adapter runs eight threads of a workgroup in step and reads for each by itself: there a thread goes along K alone, so
 * that all of them share what they read of `x`.
 */
export function chooseMatvecTiling(
  { isFallbackAdapter }: Pick<GpuContext, "isFallbackAdapter">,
  { weights, gate, k }: Pick<MatvecParams, "weights" | "gate" | "k">,
): MatvecTiling {
  const isGated = gate !== undefined;
  if (weights.kind === "columns") {
    const form = { groups: 16, outs: isGated ? 8 : 4, unitsFirst: true };
    if (isFallbackAdapter) return { ...form, lanes: 1, rowForms: SOFTWARE_ROWS };
    // Gated, eight rows of sums of 128 threads take half of the 16 KiB that every device shares.
    return { ...form, lanes: powerOfTwo(k / 4, isGated ? 8 : 16), rowForms: HARDWARE_ROWS };
  }
  if (isFallbackAdapter) {
    return { lanes: 1, groups: 8, outs: 8, unitsFirst: false, rowForms: SOFTWARE_ROWS };
  }
  const perLoad = weights.kind === "nbits" ? 128 / weights.bits : 4;
  const lanes = powerOfTwo(k / perLoad, 32);
  return { lanes, groups: 4, outs: 2, unitsFirst: false, rowForms: HARDWARE_ROWS };
}
