/**
 * Activations, sums and products of the elements of few rows, if they are not fused into a matrix product.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { type Elem, Kernel } from "../../src/gpu/kernel.ts";
import { type Activation, ACTIVATIONS } from "../common/activation.ts";
import activationSource from "../common/activation.wgsl" with { type: "text" };
import type { RowLayout } from "../attention/kv_write.ts";
import source from "./pointwise.wgsl" with { type: "text" };

/** The parameters of the kernel. */
export interface PointwiseParams {
  readonly elem: Elem;
  /** Data type of `a`, if it differs. */
  readonly from?: Elem | undefined;
  readonly width: number;
  readonly a: RowLayout;
  /** A stride of 0 means one row for all rows of `a`. */
  readonly b: RowLayout;
  /** Whether a row of `b` is one element, which is used for the whole row of `a`. */
  readonly hasColumn?: boolean | undefined;
  readonly operation: "none" | "add" | "multiply";
  readonly activation: Activation;
  readonly scale: number;
}

const BINDINGS = { a: "read", b: "read", out: "read_write" } as const;
const OPERATIONS = ["none", "add", "multiply"];
const THREADS = 64;

/** `out[row, i] = scale * (activate(a[row, i]) ∘ b[row, i])`, where `∘` is the operation. */
export class Pointwise {
  readonly #workgroups: number;
  readonly #kernel: Kernel<typeof BINDINGS>;

  constructor(gpu: GpuContext, params: PointwiseParams) {
    const { elem, width, a, b } = params;
    this.#workgroups = Math.ceil(width / THREADS);
    this.#kernel = Kernel.get(gpu, {
      name: "pointwise",
      source: formatTypes(elem, params.from ?? elem) + activationSource + source,
      bindings: BINDINGS,
      constants: {
        WIDTH: width,
        A_STRIDE: a.stride,
        A_OFFSET: a.offset,
        B_STRIDE: b.stride,
        B_OFFSET: b.offset,
        B_STEP: params.hasColumn ? 0 : 1,
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
