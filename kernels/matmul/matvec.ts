/**
 * Products of few rows with a weight matrix, including the operations before and after them in a transformer layer.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import activationSource from "../common/activation.wgsl" with { type: "text" };
import { ELEM } from "../common/elem.ts";
import { FOUR } from "../common/four.ts";
import biasSource from "./bias.wgsl" with { type: "text" };
import finishSource from "./finish.wgsl" with { type: "text" };
import { Int8Products, takesInt8 } from "./int8_products.ts";
import rowsInputSource from "./rows.wgsl" with { type: "text" };
import columnsSource from "./matvec_columns.wgsl" with { type: "text" };
import alignedColumnsSource from "./matvec_columns_aligned.wgsl" with { type: "text" };
import anyColumnsSource from "./matvec_columns_any.wgsl" with { type: "text" };
import commonSource from "./matvec_common.wgsl" with { type: "text" };
import loopsSource from "./matvec_loops.wgsl" with { type: "text" };
import nbitsSource from "./matvec_nbits.wgsl" with { type: "text" };
import nbitsLoopSource from "./matvec_nbits_loop.wgsl" with { type: "text" };
import ofRowsSource from "./matvec_of_rows.wgsl" with { type: "text" };
import ofSumsSource from "./matvec_of_sums.wgsl" with { type: "text" };
import rowsSource from "./matvec_rows.wgsl" with { type: "text" };
import rowsLoopSource from "./matvec_rows_loop.wgsl" with { type: "text" };
import { checkMatvec, finishConstants, type MatvecParams, rowConstants } from "./matvec_params.ts";
import {
  chooseMatvecTiling,
  chooseRowCount,
  type MatvecTiling,
  type MatvecVariant,
  numSums,
  TILE,
} from "./matvec_shape.ts";
import { unrolledSource } from "./matvec_unrolled.ts";
import { outputsOfTile, takesTiles, TILE_OUTS, TILE_THREADS, tileSource } from "./matmul_tile.ts";

/** Buffers; those that the parameters do not use are absent. `out` must not be one of the others. */
interface MatvecTensors {
  /** elem `[rows, x.stride]`. Like all tensors with rows, it must have space for the last group of rows. */
  readonly x: GPUBuffer;
  /** The matrix; if quantised, u8 `[outputs, ceil(k / blockSize), blockSize * bits / 8]`. */
  readonly weights: GPUBuffer;
  /** elem `[outputs, ceil(k / blockSize)]`. */
  readonly scales?: GPUBuffer | undefined;
  /** u8 `[outputs, ceil(ceil(k / blockSize) * bits / 8)]`; if absent, the middle level is zero. */
  readonly zeroPoints?: GPUBuffer | undefined;
  /**
   * The norm's factors, elem `[k]`, followed by its offsets if it has any: elem `[2, k]`. If rows are sums, the factors
   * of the sum come first and the bias last.
   */
  readonly affine?: GPUBuffer | undefined;
  /** elem `[outputs]`, if the rows are not sums. */
  readonly bias?: GPUBuffer | undefined;
  /** elem `[rows, n]`; if rows are sums, the addend of `x`: elem `[rows, k]`. */
  readonly residual?: GPUBuffer | undefined;
  /** Output for rows that are sums: elem `[rows, k]`. */
  readonly sum?: GPUBuffer | undefined;
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
/** Bindings within the number of storage buffers that WebGPU guarantees. */
const NBITS_BINDINGS = { ...BINDINGS, scales: "read", zeroPoints: "read" } as const;
/** If rows are sums, they take the binding of the bias. */
const SUM_BINDINGS = { bias: "read_write" } as const;

/**
 * Let `y = norm(x[row])`; or, if rows are sums, `y = norm(sum[row])` with `sum[row] = residual[row] + x[row] /
 * rms(x[row]) * factors`, which is also written. With `W` the matrix:
 *
 * `out[row, n] = cap(scale * activate(W[n] · y + bias[n])) + residual[row, n]`, or if gated
 *
 * `out[row, n] = cap(scale * activate(W[gate + n] · y + bias[gate + n]) * (W[up + n] · y + bias[up + n])) +
 * residual[row, n]`
 *
 * Sums are f32. A row's result does not depend on the number of rows.
 */
export class Matvec {
  readonly #params: MatvecParams;
  readonly #gpu: GpuContext;
  readonly #tiling: MatvecTiling;
  readonly #workgroups: number;
  readonly #kernels = new Map<number | "tile", Kernel<typeof NBITS_BINDINGS>>();
  /** Row counts whose program is not compiled yet; the program for the fewest rows takes them in the meantime. */
  readonly #deferred = new Set<number>();
  readonly #takesTiles: boolean;
  readonly #int8: Int8Products | undefined;

  /** @throws {RangeError} when the kernel does not support the sizes. */
  constructor(
    gpu: GpuContext,
    params: MatvecParams,
    tiling: MatvecTiling = chooseMatvecTiling(gpu, params, false),
  ) {
    checkMatvec(params);
    this.#gpu = gpu;
    this.#params = params;
    this.#tiling = tiling;
    this.#takesTiles = tiling.hasTiles && takesTiles(params);
    if (tiling.isInt8 && takesInt8(gpu, params)) this.#int8 = new Int8Products(gpu, params);
    const perUnit = params.gate ? tiling.outs / 2 : tiling.outs;
    this.#workgroups = Math.ceil(params.n / (perUnit * tiling.groups));
  }

  /** Whether a row's result is the same, bit for bit, for any tiling and number of rows. */
  get isExact(): boolean {
    return this.#int8 !== undefined;
  }

  /**
   * Compiles a program that takes 1 to `maxRows` rows, and defers faster ones for particular numbers of rows to
   * {@linkcode GpuContext.later}. Without this call, programs are compiled when first needed.
   */
  compile(maxRows: number): void {
    if (this.#int8 !== undefined) return this.#int8.compile(maxRows);
    if (this.#takesTiles) return void this.#chooseKernel("tile");
    const [least, ...others] = this.#tiling.rowCounts;
    this.#chooseKernel(least!);
    const largest = chooseRowCount(this.#tiling, maxRows);
    for (const rows of others.filter((rows) => rows <= largest)) {
      this.#deferred.add(rows);
      this.#gpu.later.push(() => {
        this.#chooseKernel(rows);
        this.#deferred.delete(rows);
      });
    }
  }

  /** Appends the products of `numRows` rows: one dispatch, or two if rows are rounded first. */
  encode(pass: ComputePass, tensors: MatvecTensors, numRows: number): void {
    const { x, out, weights } = tensors;
    // Every binding needs a buffer; unused ones are not read.
    const { affine = x, sum = x, bias = sum, residual = x, scales = x, zeroPoints = x } = tensors;
    const bound = { x, affine, bias, residual, out, weights, scales, zeroPoints };
    if (this.#int8 !== undefined) {
      this.#int8.encode(pass, bound, numRows);
      return;
    }
    if (this.#takesTiles) {
      const tiles = [
        Math.ceil(this.#params.n / outputsOfTile(this.#params)),
        Math.ceil(numRows / TILE),
      ];
      this.#chooseKernel("tile").encode(pass, bound, tiles as [number, number]);
      return;
    }
    const wanted = chooseRowCount(this.#tiling, numRows);
    const rows = this.#deferred.has(wanted) ? this.#tiling.rowCounts[0]! : wanted;
    this.#chooseKernel(rows).encode(pass, bound, [this.#workgroups, Math.ceil(numRows / rows)]);
  }

  #chooseKernel(rows: number | "tile"): Kernel<typeof NBITS_BINDINGS> {
    let kernel = this.#kernels.get(rows);
    if (kernel === undefined) {
      const spec = rows === "tile"
        ? describeTile(this.#params)
        : describeKernel(this.#params, { ...this.#tiling, rows });
      kernel = Kernel.get(this.#gpu, spec);
      this.#kernels.set(rows, kernel);
    }
    return kernel;
  }
}

function describeKernel(params: MatvecParams, variant: MatvecVariant) {
  const { lanes, groups, outs, rows } = variant;
  const isUnrolled = variant.isUnrolled && !isPadded(params);
  const division = {
    ...{ GROUPS: groups, OUTS: outs, ROWS: rows, THREADS: lanes * groups },
    SUMS: numSums(params, { ...variant, isUnrolled }),
    ...isUnrolled
      ? {}
      : { LANES: lanes, ROW_FOURS: Math.ceil(rows / 4), UNITS_FIRST: variant.unitsFirst ? 1 : 0 },
  };
  const source = isUnrolled ? unrolledSource(params, variant) : loopsSource;
  return kernelSpec(params, { division, source, isUnrolled });
}

/** The kernel for many rows; see matmul_tile.ts. */
function describeTile(params: MatvecParams) {
  const division = { GROUPS: 1, OUTS: TILE_OUTS, ROWS: 1, THREADS: TILE_THREADS, SUMS: 1 };
  return kernelSpec(params, { division, source: tileSource(params), isUnrolled: true });
}

function kernelSpec(params: MatvecParams, { division, source, isUnrolled }: {
  readonly division: Readonly<Record<string, number>>;
  /** The source after the declarations of the matrix, and whether it has its own loop over the matrix. */
  readonly source: string;
  readonly isUnrolled: boolean;
}) {
  const { elem, k, weights, sum } = params;
  const constants = {
    ...division,
    ...rowConstants(params),
    ...finishConstants(params),
    ...sum ? { SUM_EPSILON: sum.epsilon, BIAS_AT: numAffine(params) * k / 4 } : {},
  };
  const matrix = describeMatrix(params, isUnrolled);
  const own = sum ? SUM_BINDINGS : {};
  return {
    name: "matvec",
    source: [
      ...[ELEM[elem], FOUR[elem], activationSource, rowsInputSource, finishSource],
      ...sum ? [ofSumsSource] : [biasSource, ofRowsSource],
      ...[commonSource, matrix.source, source],
    ].join(""),
    bindings: {
      ...(weights.kind === "nbits" ? NBITS_BINDINGS : BINDINGS),
      ...own,
    } as typeof NBITS_BINDINGS,
    constants: { ...constants, ...matrix.constants },
  };
}

/** The source that declares the matrix; unless loops are unrolled, it includes the loop over the matrix. */
function describeMatrix(params: MatvecParams, isUnrolled: boolean): {
  readonly source: string;
  readonly constants: Readonly<Record<string, number>>;
} {
  const { weights, matrixRows, k } = params;
  switch (weights.kind) {
    case "rows":
      return { source: rowsSource + (isUnrolled ? "" : rowsLoopSource), constants: {} };
    case "columns": {
      const loader = matrixRows % 4 === 0 ? alignedColumnsSource : anyColumnsSource;
      return {
        source: loader + (isUnrolled ? "" : columnsSource),
        constants: { COLUMNS: matrixRows },
      };
    }
    case "nbits": {
      const { bits, blockSize, hasZeroPoints } = weights;
      const blockWords = blockSize * bits / 32;
      const chunkWords = Math.min(4, blockWords);
      const loop = {
        CHUNKS_PER_BLOCK: blockWords / chunkWords,
        IS_PADDED: isPadded(params) ? 1 : 0,
      };
      return {
        source: chunkPrelude(chunkWords) + nbitsSource + (isUnrolled ? "" : nbitsLoopSource),
        constants: {
          BITS: bits,
          BLOCKS: Math.ceil(k / blockSize),
          HAS_ZERO_POINTS: hasZeroPoints ? 1 : 0,
          ...isUnrolled ? {} : loop,
        },
      };
    }
  }
}

/** Whether the last block of a row extends beyond K. */
function isPadded({ weights, k }: MatvecParams): boolean {
  return weights.kind === "nbits" && k % weights.blockSize !== 0;
}

/** Number of vectors of `k` elements in `affine`. */
function numAffine({ sum, norm }: MatvecParams): number {
  return (sum ? 1 : 0) + (norm ? 1 : 0) + (norm?.hasBeta ? 1 : 0);
}

/** Declares the part of a quantised row that is read at a time: at most a block. */
function chunkPrelude(words: number): string {
  const chunk = words === 1 ? "array<u32, 1>" : `vec${words}<u32>`;
  return `alias chunk = ${chunk};\nconst CHUNK_WORDS = ${words}u;\n`;
}
