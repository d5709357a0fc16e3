/**
 * How `matvec` divides its work, which differs between hardware and software adapters.
 *
 * @module
 */
import type { GpuContext } from "../../src/gpu/device.ts";
import type { MatvecParams } from "./matvec_params.ts";

/**
 * How work is divided: a workgroup takes `groups` units, a unit is `outs` matrix rows, and `lanes` threads sum each
 * unit.
 */
export interface MatvecTiling {
  readonly lanes: number;
  readonly groups: number;
  readonly outs: number;
  /** Whether neighbouring threads take neighbouring units. */
  readonly unitsFirst: boolean;
  /** Possible numbers of rows per workgroup, ascending; each is a program of its own. */
  readonly rowCounts: readonly number[];
  /** Whether loops are unrolled, which graphics cards need; see matvec_source.ts. */
  readonly isUnrolled: boolean;
  /** Whether rows are computed 64 at a time if possible; see matvec_source.ts. */
  readonly hasTiles: boolean;
  /**
   * Whether rows are rounded to 8 bits if that is allowed. Results then do not depend on the number of rows or the
   * tiles.
   */
  readonly isInt8: boolean;
}

/** Number of rows, and of outputs, in a tile; see matvec_source.ts. */
export const TILE = 64;

/** Number of rows for which tensors must have space, so that the last tile fits. */
export function roomForRows(most: number): number {
  return Math.ceil(most / TILE) * TILE;
}

/** The variant for a number of rows: the smallest that holds all of them, or the largest. */
export function chooseRowCount({ rowCounts }: MatvecTiling, numRows: number): number {
  return rowCounts.find((rows) => rows >= numRows) ?? rowCounts.at(-1)!;
}

/** A tiling with the number of rows of one of its variants. */
export type MatvecVariant = MatvecTiling & { readonly rows: number };

/**
 * Number of floats of workgroup memory for sums. Not included: 64 for a norm, and, if loops are unrolled, the totals.
 */
export function numSums(
  params: Pick<MatvecParams, "norm" | "sum" | "gate">,
  variant: MatvecVariant,
): number {
  const { lanes, groups, rows, isUnrolled } = variant;
  if (!isUnrolled) return lanes * groups * rows * (lanes > 1 && params.gate ? 2 : 1);
  const ofRows = params.sum || params.norm?.kind === "layer" ? lanes * groups * rows : 0;
  return Math.max(ofRows, numSumsPerPass(params, variant) * groups * (lanes + 1));
}

/**
 * The number of sums that a thread keeps if loops are unrolled: for each row its outputs, and its squares if a norm
 * needs them.
 */
export function chooseValues(
  { norm }: Pick<MatvecParams, "norm">,
  { outs, rows }: Pick<MatvecVariant, "outs" | "rows">,
): { readonly perRow: number; readonly count: number; readonly hasSquares: boolean } {
  const hasSquares = norm?.kind === "rms";
  const perRow = outs + (hasSquares ? 1 : 0);
  return { perRow, count: perRow * rows, hasSquares };
}

/**
 * Number of floats of workgroup memory for adding up lanes. Together with the totals, they take less than the 16 KiB
 * that all devices have.
 */
const PASS_FLOATS = 2560;

/** How many of the {@linkcode chooseValues} are added up at a time. */
export function numSumsPerPass(
  params: Pick<MatvecParams, "norm">,
  variant: MatvecVariant,
): number {
  const { lanes, groups } = variant;
  const most = Math.max(1, Math.floor(PASS_FLOATS / (groups * (lanes + 1))));
  return Math.min(most, chooseValues(params, variant).count);
}

const HARDWARE = { rowCounts: [1, 4, 8], isUnrolled: true, isInt8: true };
/** A software adapter compiles programs slowly, and has too few registers for more than four rows. */
const SOFTWARE = { rowCounts: [1, 4], isUnrolled: false, hasTiles: false, isInt8: false };

/** The largest power of two that is at most `limit` and at most `count`. */
function powerOfTwo(count: number, limit: number): number {
  return Math.min(limit, 2 ** Math.floor(Math.log2(Math.max(1, count))));
}

/**
 * A graphics card reads fastest if neighbouring threads read neighbouring words, and needs many threads. A software
 * adapter runs eight threads of a workgroup in step, but each reads by itself. So there one thread goes along K alone,
 * and all threads share what they read of `x`.
 *
 * @param hasTiles whether steps have many rows.
 */
export function chooseMatvecTiling(
  { isFallbackAdapter }: Pick<GpuContext, "isFallbackAdapter">,
  { weights, gate, k }: Pick<MatvecParams, "weights" | "gate" | "k">,
  hasTiles = false,
): MatvecTiling {
  const isGated = gate !== undefined;
  if (weights.kind === "columns") {
    const variant = { groups: 16, outs: isGated ? 8 : 4, unitsFirst: true };
    if (isFallbackAdapter) return { ...variant, ...SOFTWARE, lanes: 1 };
    return { ...variant, ...HARDWARE, hasTiles, lanes: powerOfTwo(k / 4, isGated ? 8 : 16) };
  }
  if (isFallbackAdapter) return { ...SOFTWARE, lanes: 1, groups: 8, outs: 8, unitsFirst: false };
  const perLoad = weights.kind === "nbits" ? 128 / weights.bits : 4;
  return {
    ...{ ...HARDWARE, hasTiles, lanes: powerOfTwo(k / perLoad, 32) },
    ...{ groups: 4, outs: 2, unitsFirst: false },
  };
}
