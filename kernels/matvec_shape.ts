/**
 * How `matvec` divides its work; it differs between hardware and software adapters.
 *
 * @module
 */
import type { GpuContext } from "../src/gpu/device.ts";
import type { MatvecParams } from "./matvec.ts";

/** One workgroup takes `groups` units of `outs` rows of the matrix, each summed by `lanes` threads. */
export interface MatvecTiling {
  readonly lanes: number;
  readonly groups: number;
  readonly outs: number;
  /** Whether neighbouring threads take neighbouring units. */
  readonly unitsFirst: boolean;
}

/** Most rows of one dispatch's workgroup, smallest first: a step takes the form that wastes least. */
export const ROW_FORMS = [1, 2, 4, 8] as const;

/** Rows that tensors of a matvec have room for at least. */
export const MAX_MATVEC_ROWS = 16;

/** The form for a number of rows: the smallest that holds all, or the largest. */
export function rowFormOf(numRows: number): number {
  return ROW_FORMS.find((rows) => rows >= numRows) ?? ROW_FORMS.at(-1)!;
}

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
    const outs = isGated ? 8 : 4;
    if (isFallbackAdapter) return { lanes: 1, groups: 16, outs, unitsFirst: true };
    return { lanes: powerOfTwo(k / 4, 16), groups: 16, outs, unitsFirst: true };
  }
  if (isFallbackAdapter) return { lanes: 1, groups: 32, outs: isGated ? 2 : 1, unitsFirst: false };
  const perLoad = weights.kind === "nbits" ? 128 / weights.bits : 4;
  return { lanes: powerOfTwo(k / perLoad, 32), groups: 4, outs: 2, unitsFirst: false };
}
