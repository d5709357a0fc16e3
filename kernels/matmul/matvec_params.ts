/**
 * The parameters of `matvec`, and the sizes that it supports.
 *
 * @module
 */
import type { Elem } from "../../src/gpu/kernel.ts";
import { type Activation, ACTIVATIONS } from "../common/activation.ts";
import type { RowLayout } from "../attention/kv_write.ts";

/** Possible numbers of bits per level. */
export const LEVEL_BITS = [1, 2, 4, 8] as const;
export type LevelBits = typeof LEVEL_BITS[number];

/** How a matrix of `outputs` by `k` is stored. */
export type MatrixFormat =
  /** Levels in blocks along K, each with a scale: the layout of the operator `MatMulNBits`. */
  | {
    readonly kind: "nbits";
    readonly bits: LevelBits;
    /** Number of weights per block: a power of two, at least 16, that fills whole 32-bit words. */
    readonly blockSize: number;
    readonly hasZeroPoints: boolean;
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

/** Least number of outputs per workgroup, gated and not; a dispatch has at most 65,535 workgroups. */
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
      `A gated matrix of ${matrixRows} columns: matvec takes multiples of 4 then.`,
    );
  }
}

const NORMS = { none: 0, rms: 1, layer: 2 } as const;

/** Constants of `rows.wgsl`: the rows and the norm before the product. */
export function rowConstants({ k, x, norm, sum }: MatvecParams): Record<string, number> {
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

/** Constants of `finish.wgsl`: what follows the product. */
export function finishConstants(params: MatvecParams): Record<string, number> {
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
