/**
 * What specialises `matvec`, and which sizes it takes.
 *
 * @module
 */
import type { Elem } from "../../src/gpu/kernel.ts";
import { type Activation, ACTIVATIONS } from "../common/activation.ts";
import type { RowLayout } from "../attention/kv_write.ts";

/** Bits of a level. */
export const LEVEL_BITS = [1, 2, 4, 8] as const;
export type LevelBits = typeof LEVEL_BITS[number];

/** How a matrix of `outputs` by `k` is stored. */
export type MatrixFormat =
  /** Blocks along K of levels, a scale each, as `MatMulNBits` has them. */
  | {
    readonly kind: "nbits";
    readonly bits: LevelBits;
    /** A power of two, 16 at least, and whole words of 32 bits. */
    readonly blockSize: number;
    readonly hasZeroPoints: boolean;
    /** Whether the rows may be rounded to 8 bits for each block: ONNX Runtime's accuracy level 4. */
    readonly allowsInt8?: boolean;
  }
  /** elem `[outputs, k]`. */
  | { readonly kind: "rows" }
  /** elem `[k, outputs]`; gated, the outputs are multiples of 4. */
  | { readonly kind: "columns" };

/** A norm of the rows before the product. */
export interface NormParams {
  readonly kind: "rms" | "layer";
  readonly epsilon: number;
  /** Whether an offset is added after the factors. */
  readonly hasBeta: boolean;
}

/** What specialises the kernel. */
export interface MatvecParams {
  /** Type of the rows, of factors, scales and of the output. */
  readonly elem: Elem;
  /** Elements of a row of `x`, a multiple of 4. */
  readonly k: number;
  /** Elements of a row of the output. */
  readonly n: number;
  readonly x: RowLayout;
  /** Where a row's outputs go, if not one row after the other. */
  readonly out?: RowLayout | undefined;
  /** Outputs of the matrix: `n`, or more where it is gated. */
  readonly matrixRows: number;
  readonly weights: MatrixFormat;
  readonly norm?: NormParams | undefined;
  /** Where the rows are sums of another tensor and of `x` after a root mean square, whose epsilon this is. */
  readonly sum?: { readonly epsilon: number } | undefined;
  readonly hasBias: boolean;
  /** Where among the matrix's outputs those begin that are activated, and those that they multiply. */
  readonly gate?: { readonly gateRow: number; readonly upRow: number } | undefined;
  readonly activation: Activation;
  readonly scale: number;
  /** 0 for none. */
  readonly softcap: number;
  readonly hasResidual: boolean;
}

/** Outputs of a workgroup at least, gated and not; a dispatch has 65,535 workgroups at most. */
const LEAST_OUTPUTS = { gated: 4, plain: 8 };
const MAX_WORKGROUPS = 65_535;

/** Also asked by the reference. @throws {RangeError} when the kernel cannot run it. */
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

/** Constants of `rows.wgsl` and `matvec_of_rows.wgsl`, or `matvec_of_sums.wgsl`: the rows and the norm before the product. */
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

/** Constants of `finish.wgsl` and `bias.wgsl`: what follows the product. */
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
