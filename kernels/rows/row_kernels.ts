/**
 * The kernels for rows that are not fused into a product: norms; activations, sums and products of elements; and
 * lookups of rows in a table.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { type Elem, Kernel } from "../../src/gpu/kernel.ts";
import { ELEM } from "../common/wgsl.ts";
import type { RowLayout } from "../attention/kv_write.ts";
import type { NormParams } from "../matmul/matvec_params.ts";
import normSource from "./norm.wgsl" with { type: "text" };
import { type Activation, ACTIVATIONS, OPERATIONS } from "../common/activation.ts";
import activationSource from "../common/activation.wgsl" with { type: "text" };
import pointwiseSource from "./pointwise.wgsl" with { type: "text" };
import takeSource from "./take_rows.wgsl" with { type: "text" };

/** The parameters of {@linkcode Norm}. */
export interface NormKernelParams {
  readonly elem: Elem;
  /** Number of elements that are normalised together: a row, or a head of it. */
  readonly k: number;
  readonly heads: number;
  readonly x: RowLayout;
  readonly norm: NormParams;
  readonly hasResidual: boolean;
}

/** The buffers of {@linkcode Norm}; those that the parameters do not use are absent. */
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

const NORM_BINDINGS = {
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
  readonly #kernel: Kernel<typeof NORM_BINDINGS>;

  constructor(gpu: GpuContext, params: NormKernelParams) {
    const { elem, k, heads, x, norm } = params;
    this.#heads = heads;
    this.#kernel = Kernel.get(gpu, {
      name: "norm",
      source: ELEM[elem] + normSource,
      bindings: NORM_BINDINGS,
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

/** The parameters of {@linkcode Pointwise}. */
export interface PointwiseParams {
  readonly elem: Elem;
  /** Data type of `a`, if it differs. */
  readonly from?: Elem | undefined;
  readonly width: number;
  readonly a: RowLayout;
  /** A stride of 0 means one row for all rows of `a`. */
  readonly b: RowLayout;
  /** Number of neighbouring elements of `a` that one element of `b` is used for; 1 if absent. */
  readonly repeats?: number | undefined;
  readonly operation: typeof OPERATIONS[number];
  readonly activation: Activation;
  readonly scale: number;
}

const POINTWISE_BINDINGS = { a: "read", b: "read", out: "read_write" } as const;
const THREADS = 64;

/** `out[row, i] = scale * (activate(a[row, i]) ∘ b[row, floor(i / repeats)])`, where `∘` is the operation. */
export class Pointwise {
  readonly #workgroups: number;
  readonly #kernel: Kernel<typeof POINTWISE_BINDINGS>;

  constructor(gpu: GpuContext, params: PointwiseParams) {
    const { elem, width, a, b } = params;
    this.#workgroups = Math.ceil(width / THREADS);
    this.#kernel = Kernel.get(gpu, {
      name: "pointwise",
      source: formatTypes(elem, params.from ?? elem) + activationSource + pointwiseSource,
      bindings: POINTWISE_BINDINGS,
      constants: {
        WIDTH: width,
        A_STRIDE: a.stride,
        A_OFFSET: a.offset,
        B_STRIDE: b.stride,
        B_OFFSET: b.offset,
        B_REPEATS: params.repeats ?? 1,
        OPERATION: OPERATIONS.indexOf(params.operation),
        ACTIVATION: ACTIVATIONS.indexOf(params.activation),
        SCALE: params.scale,
      },
    });
  }

  /** Appends the operation on `numRows` rows: one dispatch. `a` and `b` are elem `[rows, stride]`. */
  encode(
    pass: ComputePass,
    tensors: { readonly a: GPUBuffer; readonly b?: GPUBuffer | undefined; readonly out: GPUBuffer },
    numRows: number,
  ): void {
    const { a, b = a, out } = tensors;
    this.#kernel.encode(pass, { a, b, out }, [this.#workgroups, numRows]);
  }
}

function formatTypes(elem: Elem, from: Elem): string {
  const enabled = elem === "f16" || from === "f16" ? "enable f16;\n" : "";
  return `${enabled}alias elem = ${elem};\nalias elem_of_a = ${from};\n`;
}

/** The parameters of {@linkcode TakeRows}. */
export interface TakeRowsParams {
  /** Bytes in a row, a multiple of 4. */
  readonly rowBytes: number;
  /** Number of rows in the table; larger numbers read the last row. */
  readonly tableRows: number;
}

const TAKE_BINDINGS = { table: "read", numbers: "read", out: "read_write" } as const;

/**
 * Copies rows of a table by number, such as embeddings of token ids, for any data type:
 *
 * `out[row] = table[numbers[row]]`
 */
export class TakeRows {
  readonly #workgroups: number;
  readonly #kernel: Kernel<typeof TAKE_BINDINGS>;

  /** @throws {RangeError} when rows do not consist of whole words. */
  constructor(gpu: GpuContext, { rowBytes, tableRows }: TakeRowsParams) {
    if (rowBytes % 4 !== 0) {
      throw new RangeError(`Rows of ${rowBytes} bytes: take_rows copies multiples of 4.`);
    }
    this.#workgroups = Math.ceil(rowBytes / 4 / THREADS);
    this.#kernel = Kernel.get(gpu, {
      name: "take_rows",
      source: takeSource,
      bindings: TAKE_BINDINGS,
      constants: { WIDTH: rowBytes / 4, NUM_ROWS: tableRows },
    });
  }

  /**
   * Appends the copy of `numRows` rows: one dispatch.
   *
   * @param tensors `table` and `out` `[rows, rowBytes]`, `numbers` int64 `[numRows]`, not negative.
   */
  encode(
    pass: ComputePass,
    tensors: Readonly<Record<keyof typeof TAKE_BINDINGS, GPUBuffer>>,
    numRows: number,
  ): void {
    this.#kernel.encode(pass, tensors, [this.#workgroups, numRows]);
  }
}

/**
 * The parameters of rotary position embeddings of heads, for attention operators that take rotated heads. This kernel
 * exists only on the CPU: on a GPU, `kv_write` rotates heads. Let `x` be a head of the token at position `p`, and
 * `x'[i]` the element that is rotated together with `x[i]`:
 *
 * `out[i] = x[i] * cos[p, a(i)] ∓ x'[i] * sin[p, a(i)]`, with minus for the first element of each pair; elements from
 * `size` on are unchanged.
 */
export interface RotateParams {
  readonly elem: Elem;
  /** Number of heads in a row, which lie one after the other. */
  readonly heads: number;
  readonly headSize: number;
  /** Number of leading elements of a head that are rotated. */
  readonly size: number;
  /** Whether neighbouring elements are rotated together, rather than element `i` with `i + size / 2`. */
  readonly isInterleaved: boolean;
  /** If a token has several positions, the index of the one that rotates each pair of elements: `[size / 2]`. */
  readonly sections?: readonly number[] | undefined;
  readonly x: RowLayout;
  /** Rows of the tables, `[positions, size / 2]`; larger positions read the last row. */
  readonly numPositions: number;
}
