/**
 * Products of rows with a weight matrix, including the operations before and after them in a transformer layer.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import { Int8Products, takesInt8 } from "./int8_products.ts";
import {
  checkMatvec,
  chooseMatvecTiling,
  chooseRowCount,
  type MatvecParams,
  type MatvecTiling,
  TILE,
} from "./matvec_params.ts";
import { countTileOutputs, describeKernel, describeTile, takesTiles } from "./matvec_source.ts";

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
  /** Row counts whose programs are not compiled yet. Until then, the program for the fewest rows runs instead. */
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
        Math.ceil(this.#params.n / countTileOutputs(this.#params)),
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
      const { weights, sum } = this.#params;
      const own = rows === "tile"
        ? describeTile(this.#params)
        : describeKernel(this.#params, { ...this.#tiling, rows });
      const bindings = weights.kind === "nbits" ? NBITS_BINDINGS : BINDINGS;
      kernel = Kernel.get(this.#gpu, {
        name: "matvec",
        ...own,
        bindings: { ...bindings, ...sum && SUM_BINDINGS } as typeof NBITS_BINDINGS,
      });
      this.#kernels.set(rows, kernel);
    }
    return kernel;
  }
}
