/**
 * Norms of few rows that are not fused into a product.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { type Elem, Kernel } from "../../src/gpu/kernel.ts";
import { ELEM } from "../common/elements.ts";
import type { RowLayout } from "../attention/kv_write.ts";
import type { NormParams } from "../matmul/matvec_params.ts";
import source from "./norm.wgsl" with { type: "text" };

/** The parameters of the kernel. */
export interface NormKernelParams {
  readonly elem: Elem;
  /** Number of elements that are normalised together: a row, or a head of it. */
  readonly k: number;
  readonly heads: number;
  readonly x: RowLayout;
  readonly norm: NormParams;
  readonly hasResidual: boolean;
}

/** Buffers; those that the parameters do not use are absent. */
interface NormTensors {
  /** elem `[rows, x.stride]`. */
  readonly x: GPUBuffer;
  /** Factors, elem `[k]`, followed by offsets if there are any: elem `[2, k]`. */
  readonly affine: GPUBuffer;
  /** elem `[rows, heads * k]`. */
  readonly residual?: GPUBuffer | undefined;
  /** elem `[rows, heads * k]`. */
  readonly out: GPUBuffer;
}

const BINDINGS = {
  x: "read",
  affine: "read",
  residual: "read",
  out: "read_write",
} as const;

/**
 * With `y = x[row, head]`, and `mean` 0 for a root mean square:
 *
 * `out[row, head] = (y - mean) / sqrt(mean((y - mean)²) + epsilon) * gamma + beta + residual[row, head]`
 */
export class Norm {
  readonly #heads: number;
  readonly #kernel: Kernel<typeof BINDINGS>;

  constructor(gpu: GpuContext, params: NormKernelParams) {
    const { elem, k, heads, x, norm } = params;
    this.#heads = heads;
    this.#kernel = Kernel.get(gpu, {
      name: "norm",
      source: ELEM[elem] + source,
      bindings: BINDINGS,
      constants: {
        K: k,
        X_STRIDE: x.stride,
        X_OFFSET: x.offset,
        HEADS: heads,
        IS_LAYER: norm.kind === "layer" ? 1 : 0,
        EPSILON: norm.epsilon,
        HAS_BETA: norm.hasBeta ? 1 : 0,
        HAS_RESIDUAL: params.hasResidual ? 1 : 0,
      },
    });
  }

  /** Appends the norms of `numRows` rows: one dispatch. */
  encode(pass: ComputePass, tensors: NormTensors, numRows: number): void {
    // Every binding needs a buffer; unused ones are not read.
    const { x, affine, residual = x, out } = tensors;
    this.#kernel.encode(pass, { x, affine, residual, out }, [this.#heads, numRows]);
  }
}
