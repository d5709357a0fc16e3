/**
 * The parameters of `matvec`, the sizes that it supports, and how it divides its work, which differs between hardware
 * and software adapters.
 *
 * @module
 */
import type { Elem } from "../../src/gpu/kernel.ts";
import { type Activation, ACTIVATIONS } from "../common/activation.ts";
import type { RowLayout } from "../attention/kv_write.ts";
import type { GpuContext } from "../../src/gpu/device.ts";

/** Possible numbers of bits per level. */
export const LEVEL_BITS = [1, 2, 4, 8] as const;
export type LevelBits = typeof LEVEL_BITS[number];

/** The format of a matrix of `outputs` by `k`. */
export type MatrixFormat =
  /** Levels in blocks along K, each with a scale: the layout of the operator `MatMulNBits`. */
  | {
    readonly kind: "nbits";
    readonly bits: LevelBits;
    /** Number of weights per block: a power of two, at least 16, that fills whole 32-bit words. */
    readonly blockSize: number;
    readonly hasZeroPoints: boolean;
    /** Whether zero points have type elem. They may then lie between levels. */
    readonly hasFloatZeroPoints?: boolean;
    /** Whether rows may be rounded to 8 bits per block: ONNX Runtime's accuracy level 4. */
    readonly allowsInt8?: boolean;
  }
  /** elem `[outputs, k]`. */
  | { readonly kind: "rows" }
  /** elem `[k, outputs]`; if gated, the numbers of outputs are multiples of 4. */
  | { readonly kind: "columns" };

/** A norm of the rows before the product. */
export interface NormParams {
  readonly kind: "rms" | "layer";
  readonly epsilon: number;
  /** Whether an offset is added after the factors. */
  readonly hasBeta: boolean;
}

/** The parameters of the kernel. */
export interface MatvecParams {
  /** Data type of rows, factors, scales and the output. */
  readonly elem: Elem;
  /** Number of elements in a row of `x`, a multiple of 4. */
  readonly k: number;
  /** Number of elements in a row of the output. */
  readonly n: number;
  readonly x: RowLayout;
  /** Layout of the outputs' rows, if they are not contiguous. */
  readonly out?: RowLayout | undefined;
  /** Number of the matrix's outputs: `n`, or more if it is gated. */
  readonly matrixRows: number;
  readonly weights: MatrixFormat;
  readonly norm?: NormParams | undefined;
  /** If set, rows are the sum of another tensor and the normalised `x`, whose root mean square uses this epsilon. */
  readonly sum?: { readonly epsilon: number } | undefined;
  readonly hasBias: boolean;
  /**
   * If gated: the first matrix row whose output is activated, and the first whose output is multiplied with an
   * activated one.
   */
  readonly gate?: { readonly gateRow: number; readonly upRow: number } | undefined;
  readonly activation: Activation;
  readonly scale: number;
  /** 0 for none. */
  readonly softcap: number;
  readonly hasResidual: boolean;
}

/** Minimum number of outputs per workgroup, gated and not; a dispatch has at most 65,535 workgroups. */
const LEAST_OUTPUTS = { gated: 4, plain: 8 };
const MAX_WORKGROUPS = 65_535;

/**
 * Checks parameters; the reference uses it too.
 *
 * @throws {RangeError} when the kernel does not support them.
 */
export function checkMatvec(params: MatvecParams): void {
  const { k, n, x, weights, gate, matrixRows } = params;
  if (k % 4 !== 0 || x.stride % 4 !== 0 || x.offset % 4 !== 0) {
    throw new RangeError(
      `Rows of ${k} elements, a stride of ${x.stride} and an offset of ${x.offset}: ` +
        "matvec reads multiples of 4 elements.",
    );
  }
  const most = MAX_WORKGROUPS * LEAST_OUTPUTS[gate ? "gated" : "plain"];
  if (n > most) {
    throw new RangeError(`${n} outputs of a row: matvec computes ${most} at most.`);
  }
  if (params.sum !== undefined && params.hasResidual) {
    throw new RangeError("A residual after rows that are sums: matvec takes one tensor to add.");
  }
  if (weights.kind === "nbits") {
    const { bits, blockSize } = weights;
    const isTaken = LEVEL_BITS.includes(bits) && blockSize >= 16 && bits * blockSize >= 32 &&
      (blockSize & (blockSize - 1)) === 0;
    if (!isTaken) {
      throw new RangeError(
        `Blocks of ${blockSize} levels of ${bits} bits: matvec reads 1, 2, 4 or 8 bits in blocks of ` +
          "a power of two, 16 and 32 bits at least.",
      );
    }
  }
  const columns = gate ? [n, matrixRows, gate.gateRow, gate.upRow] : [];
  if (weights.kind === "columns" && columns.some((size) => size % 4 !== 0)) {
    throw new RangeError(
      `A gated matrix of ${matrixRows} columns: matvec takes multiples of 4 if the matrix is gated.`,
    );
  }
}

const NORMS = { none: 0, rms: 1, layer: 2 } as const;

/** Constants of `rows.wgsl`: the rows and the norm before the product. */
export function listRowConstants({ k, x, norm, sum }: MatvecParams): Record<string, number> {
  return {
    K_FOURS: k / 4,
    X_STRIDE: x.stride / 4,
    X_OFFSET: x.offset / 4,
    NORM: NORMS[norm?.kind ?? "none"],
    EPSILON: norm?.epsilon ?? 0,
    AFFINE_AT: sum ? k / 4 : 0,
    HAS_BETA: norm?.hasBeta ? 1 : 0,
  };
}

/** Constants of `finish` in `matrix.wgsl`: what follows the product. */
export function listFinishConstants(params: MatvecParams): Record<string, number> {
  const { n, out, gate } = params;
  return {
    N: n,
    OUT_STRIDE: out?.stride ?? n,
    OUT_OFFSET: out?.offset ?? 0,
    HAS_BIAS: params.hasBias ? 1 : 0,
    HAS_RESIDUAL: params.hasResidual ? 1 : 0,
    IS_GATED: gate ? 1 : 0,
    GATE_ROW: gate?.gateRow ?? 0,
    UP_ROW: gate?.upRow ?? 0,
    ACTIVATION: ACTIVATIONS.indexOf(params.activation),
    SCALE: params.scale,
    SOFTCAP: params.softcap,
  };
}

/**
 * The division of work: a workgroup takes `groups` units, a unit is `outs` matrix rows, and `lanes` threads sum each
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
  return Math.max(ofRows, countSumsPerPass(params, variant) * groups * (lanes + 1));
}

/**
 * The number of sums that a thread keeps if loops are unrolled: for each row its outputs, and its squares if a norm
 * needs them.
 */
export function chooseValues(
  { norm }: Pick<MatvecParams, "norm">,
  { outs, rows }: Pick<MatvecVariant, "outs" | "rows">,
): { readonly perRow: number; readonly count: number } {
  const perRow = outs + (norm?.kind === "rms" ? 1 : 0);
  return { perRow, count: perRow * rows };
}

/**
 * Number of floats of workgroup memory for adding up lanes. Together with the totals, they take less than the 16 KiB
 * that all devices have.
 */
const PASS_FLOATS = 2560;

/** The number of sums of {@linkcode chooseValues} that are added up at a time. */
export function countSumsPerPass(
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
function floorToPowerOfTwo(count: number, limit: number): number {
  return Math.min(limit, 2 ** Math.floor(Math.log2(Math.max(1, count))));
}

/**
 * A graphics card reads fastest if neighbouring threads read neighbouring words, and needs many threads. A software
 * adapter runs eight threads of a workgroup in step, but performs the loads of each thread separately. So a single
 * thread sums along K there, and all threads share the loads of `x`.
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
    return { ...variant, ...HARDWARE, hasTiles, lanes: floorToPowerOfTwo(k / 4, isGated ? 8 : 16) };
  }
  if (isFallbackAdapter) return { ...SOFTWARE, lanes: 1, groups: 8, outs: 8, unitsFirst: false };
  const perLoad = weights.kind === "nbits" ? 128 / weights.bits : 4;
  return {
    ...{ ...HARDWARE, hasTiles, lanes: floorToPowerOfTwo(k / perLoad, 32) },
    ...{ groups: 4, outs: 2, unitsFirst: false },
  };
}
