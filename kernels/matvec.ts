/**
 * Products of few rows with a weight matrix, with the operations before and after them in a transformer's layer.
 *
 * @module
 */
import type { GpuContext } from "../src/gpu/device.ts";
import { type Elem, Kernel } from "../src/gpu/kernel.ts";
import { type Activation, ACTIVATIONS } from "./activation.ts";
import activationSource from "./activation.wgsl" with { type: "text" };
import { ELEM } from "./elem.ts";
import { FOUR } from "./four.ts";
import type { RowLayout } from "./kv_write.ts";
import columnsSource from "./matvec_columns.wgsl" with { type: "text" };
import alignedColumnsSource from "./matvec_columns_aligned.wgsl" with { type: "text" };
import anyColumnsSource from "./matvec_columns_any.wgsl" with { type: "text" };
import commonSource from "./matvec_common.wgsl" with { type: "text" };
import nbitsSource from "./matvec_nbits.wgsl" with { type: "text" };
import rowsSource from "./matvec_rows.wgsl" with { type: "text" };
import { chooseMatvecTiling, type MatvecTiling, numSums, rowFormOf } from "./matvec_shape.ts";

/** How a matrix of `outputs` by `k` is stored. */
export type MatrixForm =
  /** Blocks along K of levels of 4 or 8 bits, a scale each, as `MatMulNBits` has them. */
  | {
    readonly kind: "nbits";
    readonly bits: 4 | 8;
    /** A power of two, 16 at least. */
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
  readonly weights: MatrixForm;
  readonly norm?: NormParams | undefined;
  readonly hasBias: boolean;
  /** Where among the matrix's outputs those begin that are activated, and those that they multiply. */
  readonly gate?: { readonly gateRow: number; readonly upRow: number } | undefined;
  readonly activation: Activation;
  readonly scale: number;
  /** 0 for none. */
  readonly softcap: number;
  readonly hasResidual: boolean;
}

/** Buffers; those that the parameters do not use are absent. `out` is none of the others. */
export interface MatvecTensors {
  /** elem `[rows, x.stride]`, as all tensors with rows of room for the last group of rows. */
  readonly x: GPUBuffer;
  /** The matrix: u8 `[outputs, ceil(k / blockSize), blockSize * bits / 8]` in blocks. */
  readonly weights: GPUBuffer;
  /** elem `[outputs, ceil(k / blockSize)]`. */
  readonly scales?: GPUBuffer | undefined;
  /** u8 `[outputs, ceil(ceil(k / blockSize) * bits / 8)]`; absent, they are half of the levels. */
  readonly zeroPoints?: GPUBuffer | undefined;
  /** The norm's factors, elem `[k]`, and its offsets after them where it has such: elem `[2, k]`. */
  readonly affine?: GPUBuffer | undefined;
  /** elem `[outputs]`. */
  readonly bias?: GPUBuffer | undefined;
  /** elem `[rows, n]`. */
  readonly residual?: GPUBuffer | undefined;
  /** elem `[rows, n]`, or `[rows, out.stride]`. */
  readonly out: GPUBuffer;
}

const BINDINGS = {
  x: "read",
  affine: "read",
  bias: "read",
  residual: "read",
  out: "read_write",
  weights: "read",
} as const;
/** With these as many storage buffers as WebGPU promises. */
const NBITS_BINDINGS = { ...BINDINGS, scales: "read", zeroPoints: "read" } as const;
const NORMS = { none: 0, rms: 1, layer: 2 } as const;

/**
 * With `y = norm(x[row])`, and `W` the matrix:
 *
 * `out[row, n] = cap(scale * activate(W[n] · y + bias[n])) + residual[row, n]`, or where gated
 *
 * `out[row, n] = cap(scale * activate(W[gate + n] · y + bias[gate + n]) * (W[up + n] · y + bias[up + n])) + residual[row, n]`
 *
 * Sums are f32. A row's result does not depend on how many rows there are.
 */
export class Matvec {
  readonly #params: MatvecParams;
  readonly #gpu: GpuContext;
  readonly #tiling: MatvecTiling;
  readonly #workgroups: number;
  readonly #forms = new Map<number, Kernel<typeof NBITS_BINDINGS>>();

  /** @throws {RangeError} when the kernel cannot run the sizes. */
  constructor(
    gpu: GpuContext,
    params: MatvecParams,
    tiling: MatvecTiling = chooseMatvecTiling(gpu, params),
  ) {
    checkMatvec(params);
    this.#gpu = gpu;
    this.#params = params;
    this.#tiling = tiling;
    const perUnit = params.gate ? tiling.outs / 2 : tiling.outs;
    this.#workgroups = Math.ceil(params.n / (perUnit * tiling.groups));
  }

  /** Appends the products of `numRows` rows: one dispatch. */
  encode(pass: GPUComputePassEncoder, tensors: MatvecTensors, numRows: number): void {
    const rows = rowFormOf(this.#tiling, numRows);
    const { x, out, weights } = tensors;
    // Every binding needs a buffer; unused ones are not read.
    const { affine = x, bias = x, residual = x, scales = x, zeroPoints = x } = tensors;
    const bound = { x, affine, bias, residual, out, weights, scales, zeroPoints };
    this.#formOf(rows).encode(pass, bound, [this.#workgroups, Math.ceil(numRows / rows)]);
  }

  #formOf(rows: number): Kernel<typeof NBITS_BINDINGS> {
    let form = this.#forms.get(rows);
    if (form === undefined) {
      form = Kernel.get(this.#gpu, specOf(this.#params, { ...this.#tiling, rows }));
      this.#forms.set(rows, form);
    }
    return form;
  }
}

function specOf(params: MatvecParams, tiling: MatvecTiling & { readonly rows: number }) {
  const { elem, k, n, x, weights, norm, gate } = params;
  const { lanes, groups, outs, rows } = tiling;
  const threads = lanes * groups;
  const constants = {
    K_FOURS: k / 4,
    X_STRIDE: x.stride / 4,
    X_OFFSET: x.offset / 4,
    N: n,
    OUT_STRIDE: params.out?.stride ?? n,
    OUT_OFFSET: params.out?.offset ?? 0,
    LANES: lanes,
    GROUPS: groups,
    OUTS: outs,
    ROWS: rows,
    ROW_FOURS: Math.ceil(rows / 4),
    THREADS: threads,
    SUMS: numSums(tiling, { rows, isGated: gate !== undefined }),
    UNITS_FIRST: tiling.unitsFirst ? 1 : 0,
    NORM: NORMS[norm?.kind ?? "none"],
    EPSILON: norm?.epsilon ?? 0,
    HAS_BETA: norm?.hasBeta ? 1 : 0,
    HAS_BIAS: params.hasBias ? 1 : 0,
    HAS_RESIDUAL: params.hasResidual ? 1 : 0,
    IS_GATED: gate ? 1 : 0,
    GATE_ROW: gate?.gateRow ?? 0,
    UP_ROW: gate?.upRow ?? 0,
    ACTIVATION: ACTIVATIONS.indexOf(params.activation),
    SCALE: params.scale,
    SOFTCAP: params.softcap,
  };
  const source = ELEM[elem] + FOUR[elem] + activationSource;
  if (weights.kind !== "nbits") {
    return {
      name: "matvec",
      source: source + commonSource +
        (weights.kind === "rows" ? rowsSource : columnsSource + columnsLoader(params.matrixRows)),
      bindings: BINDINGS as typeof NBITS_BINDINGS,
      constants: weights.kind === "columns"
        ? { ...constants, COLUMNS: params.matrixRows }
        : constants,
    };
  }
  const { bits, blockSize, hasZeroPoints } = weights;
  const blockWords = blockSize * bits / 32;
  const chunkWords = Math.min(4, blockWords);
  const blocks = Math.ceil(k / blockSize);
  return {
    name: "matvec",
    source: source + commonSource + chunkPrelude(chunkWords) + nbitsSource,
    bindings: NBITS_BINDINGS,
    constants: {
      ...constants,
      BITS: bits,
      BLOCKS: blocks,
      CHUNKS_PER_BLOCK: blockWords / chunkWords,
      HAS_ZERO_POINTS: hasZeroPoints ? 1 : 0,
      IS_PADDED: blocks * blockSize > k ? 1 : 0,
    },
  };
}

/** Elements read of a row of blocks at a time: at most a block. */
function chunkPrelude(words: number): string {
  return `alias chunk = vec${words}<u32>;\nconst CHUNK_WORDS = ${words}u;\n`;
}

function columnsLoader(columns: number): string {
  return columns % 4 === 0 ? alignedColumnsSource : anyColumnsSource;
}

/** Also asked by the reference. @throws {RangeError} when the kernel cannot run it. */
export function checkMatvec(params: MatvecParams): void {
  const { k, n, x, weights, gate, matrixRows } = params;
  if (k % 4 !== 0 || x.stride % 4 !== 0 || x.offset % 4 !== 0) {
    throw new RangeError(
      `Rows of ${k} elements, a stride of ${x.stride} and an offset of ${x.offset}: ` +
        "matvec reads multiples of 4 elements.",
    );
  }
  if (weights.kind === "nbits") {
    const { bits, blockSize } = weights;
    if ((bits !== 4 && bits !== 8) || blockSize < 16 || (blockSize & (blockSize - 1)) !== 0) {
      throw new RangeError(
        `Blocks of ${blockSize} levels of ${bits} bits: matvec reads 4 or 8 bits in blocks of ` +
          "a power of two, 16 at least.",
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
