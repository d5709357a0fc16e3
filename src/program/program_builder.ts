/**
 * Records the dispatches of a compiled segment, and what they read and write.
 *
 * @module
 */
import type { RowLayout } from "../../kernels/attention/kv_write.ts";
import { checkMatvec, type MatvecParams } from "../../kernels/matmul/matvec_params.ts";
import { type Elem, elemBytes, toElem } from "../gpu/kernel.ts";
import type { Tensor } from "../graph/file/proto.ts";
import type { RotateParams } from "../../kernels/cpu/row_kernel.ts";
import type { StoredTensor } from "../graph/file/stored_tensor.ts";
import { Refusal } from "../graph/refusal.ts";
import { joinVectors } from "./merge_products.ts";
import type { FoundNorm } from "./norms.ts";
import type { ProductPlan } from "./product_plan.ts";
import type { Dispatch, Program } from "./program.ts";

/** Rows of a tensor, or a part of each row. */
export interface Rows extends RowLayout {
  readonly tensor: string;
  readonly width: number;
  readonly elem: Elem;
}

/** An elementwise computation: `activation(a) · scale`, and a second operand that is added or multiplied. */
interface Pointwise {
  readonly a: Rows;
  /** Rows of the same width, or a vector for all rows. */
  readonly add?: Rows | Tensor;
  /** Rows of the same width, a vector for all rows, or one element per row. */
  readonly multiply?: Rows | Tensor;
  readonly activation?: MatvecParams["activation"];
  readonly scale?: number;
}

/** A product, and the norm of its rows before it. */
interface Product {
  readonly plan: ProductPlan;
  readonly x: Rows;
  readonly norm: FoundNorm | undefined;
  /** The rows of which it computes a part, if it does not compute whole ones. */
  readonly within?: Rows | undefined;
}

/** A rotation of heads; see {@linkcode RotateParams}. */
interface Rotation
  extends Pick<RotateParams, "heads" | "headSize" | "size" | "isInterleaved" | "sections"> {
  readonly x: Rows;
  /** Cosines: f32 `[positions, size / 2]`. */
  readonly cos: StoredTensor;
  readonly sin: StoredTensor;
  readonly positions: string;
}

type MatvecDispatch = Extract<Dispatch, { kind: "matvec" }>;

/**
 * Builds a program. Most methods add a dispatch that computes the tensor `name`, and return the rows that it writes.
 */
export class ProgramBuilder {
  readonly #kept: ReadonlySet<string>;
  readonly #hasTiles: boolean;
  readonly #dispatches: Dispatch[] = [];
  readonly #weights = new Map<string, Tensor>();
  readonly #scratch = new Map<string, number>();
  /** Outputs of the segment, by the tensor that each of them only reshapes. */
  readonly #outputAliases = new Map<string, string>();

  /**
   * @param options.kept outputs of the segment that stay, each in a buffer of its own.
   * @param options.hasTiles whether products have many rows.
   */
  constructor(
    { kept, hasTiles }: {
      readonly kept: ReadonlySet<string>;
      readonly hasTiles: boolean;
    },
  ) {
    this.#hasTiles = hasTiles;
    this.#kept = kept;
  }

  /** Makes a tensor be computed into the buffer of an output with the same elements. */
  writeInto(output: string, name: string): void {
    this.#outputAliases.set(name, output);
  }

  finish(): Omit<Program, "layouts"> {
    return {
      dispatches: this.#dispatches,
      weights: [...this.#weights.values()],
      scratch: this.#scratch,
    };
  }

  /** Adds a product of a matrix and rows, including what the plan computes before and after it. */
  matvec(name: string, { residual, ...what }: Product & {
    readonly residual: string | undefined;
  }): Rows {
    const { plan: { bias }, norm } = what;
    return this.#matvec(name, what, { hasResidual: residual !== undefined }, () => ({
      affine: norm && this.#joined([norm.gamma, norm.beta], findPlanElem(what.plan)),
      bias: this.#optional(bias, findPlanElem(what.plan)),
      residual,
    }));
  }

  /**
   * Adds a product of a matrix with the sums of a residual and normalised rows, which it also writes.
   *
   * @param what.sum the norm in the sum, a root mean square.
   */
  matvecOfSum(name: string, { residual, sum, sumName, ...what }: Product & {
    readonly residual: string;
    readonly sum: FoundNorm;
    readonly sumName: string;
  }): { readonly rows: Rows; readonly summed: Rows } {
    const { plan: { matrix: { k }, bias }, norm } = what;
    const elem = findPlanElem(what.plan);
    const summed = this.#whole(this.#target(sumName, k, elem), k, elem);
    const params = { sum: { epsilon: sum.params.epsilon }, hasResidual: false };
    const rows = this.#matvec(name, what, params, () => ({
      affine: this.#joined([sum.gamma, norm?.gamma, norm?.beta, bias], elem),
      residual,
      sum: summed.tensor,
    }));
    return { rows, summed };
  }

  #matvec(
    name: string,
    { plan, x, norm, within }: Product,
    own: Pick<MatvecParams, "hasResidual" | "sum">,
    operands: () => Pick<MatvecDispatch["tensors"], "affine" | "bias" | "residual" | "sum">,
  ): Rows {
    const { matrix, bias, gate, activation, scale, softcap } = plan;
    const { format, k, outputs } = matrix;
    const n = gate?.n ?? outputs;
    const elem = findPlanElem(plan);
    const params: MatvecParams = {
      elem,
      k,
      n,
      x: { stride: x.stride, offset: x.offset },
      out: within && { stride: within.stride, offset: within.offset },
      matrixRows: outputs,
      weights: format,
      norm: norm?.params,
      hasBias: bias !== undefined,
      gate: gate && { gateRow: gate.gateRow, upRow: gate.upRow },
      activation,
      scale,
      softcap,
      ...own,
    };
    checkMatvec(params);
    requireElem(x, elem);
    const isPacked = format.kind === "nbits";
    if (within) requireElem(within, elem);
    const out = within?.tensor ?? this.#target(name, n, elem);
    this.#dispatches.push({
      kind: "matvec",
      hasTiles: this.#hasTiles,
      params,
      tensors: {
        x: x.tensor,
        weights: this.#weight(matrix.weights, isPacked ? "uint8" : elem),
        scales: this.#optional(matrix.scales, elem),
        zeroPoints: this.#optional(matrix.zeroPoints, "uint8"),
        ...operands(),
        out,
      },
    });
    return within ?? this.#whole(out, n, elem);
  }

  /** Reserves rows whose parts other dispatches write. */
  reserve(name: string, width: number, elem: Elem): Rows {
    return this.#whole(this.#target(name, width, elem), width, elem);
  }

  /** Adds a norm. @param what.residual added last. */
  norm(name: string, { x, norm, residual }: {
    readonly x: Rows;
    readonly norm: FoundNorm;
    readonly residual?: string | undefined;
  }): Rows {
    const { elem } = x;
    const k = norm.gamma.shape[0]!;
    if (x.width % k !== 0) {
      throw new Refusal(`Its norm "${name}" covers only ${k} of a row's ${x.width} elements.`);
    }
    const out = this.#target(name, x.width, elem);
    this.#dispatches.push({
      kind: "norm",
      params: {
        elem,
        k,
        heads: x.width / k,
        x: { stride: x.stride, offset: x.offset },
        norm: norm.params,
        hasResidual: residual !== undefined,
      },
      tensors: {
        x: x.tensor,
        affine: this.#joined([norm.gamma, norm.beta], elem),
        residual,
        out,
      },
    });
    return this.#whole(out, x.width, elem);
  }

  pointwise(name: string, what: Pointwise): Rows {
    const { a, add, multiply, activation = "none", scale = 1 } = what;
    const second = add ?? multiply;
    const rows = second && "tensor" in second ? second : undefined;
    const vector = second && !("tensor" in second) ? second : undefined;
    const width = vector?.shape.at(-1) ?? rows?.width ?? a.width;
    const hasColumn = width === 1 && a.width > 1 && multiply !== undefined && rows !== undefined;
    if (width !== a.width && !hasColumn) {
      throw new Refusal(`"${name}" combines rows of ${a.width} and of ${width} elements.`);
    }
    const { elem } = a;
    if (rows) requireElem(rows, elem);
    const out = this.#target(name, a.width, elem);
    this.#dispatches.push({
      kind: "pointwise",
      params: {
        elem,
        width: a.width,
        a: { stride: a.stride, offset: a.offset },
        b: { stride: rows?.stride ?? 0, offset: rows?.offset ?? 0 },
        ...hasColumn && { hasColumn },
        operation: second === undefined ? "none" : add === undefined ? "multiply" : "add",
        activation,
        scale,
      },
      tensors: { a: a.tensor, b: rows?.tensor ?? this.#optional(vector, elem), out },
    });
    return this.#whole(out, a.width, elem);
  }

  /** Adds a copy of rows, contiguous and possibly in another data type. */
  copy(name: string, a: Rows, elem: Elem): Rows {
    const { width } = a;
    const out = this.#target(name, width, elem);
    this.#dispatches.push({
      kind: "pointwise",
      params: {
        elem,
        from: a.elem === elem ? undefined : a.elem,
        width,
        a: { stride: a.stride, offset: a.offset },
        b: { stride: 0, offset: 0 },
        operation: "none",
        activation: "none",
        scale: 1,
      },
      tensors: { a: a.tensor, b: undefined, out },
    });
    return this.#whole(out, width, elem);
  }

  /** Adds a lookup of rows by number, in a table or in a tensor that consists of exactly its rows. */
  takeRows(name: string, { table, numbers, width, elem }: {
    readonly table: Tensor | string;
    readonly numbers: string;
    readonly width: number;
    readonly elem: Elem;
  }): Rows {
    const out = this.#target(name, width, elem);
    const isTensor = typeof table === "string";
    this.#dispatches.push({
      kind: "take_rows",
      params: {
        rowBytes: width * elemBytes(elem),
        tableRows: isTensor ? 2 ** 31 : table.shape[0]!,
      },
      tensors: { table: isTensor ? table : this.#weight(table, elem), numbers, out },
    });
    return this.#whole(out, width, elem);
  }

  /** Adds a rotation of each row's heads by its position. */
  rotate(name: string, { x, cos, sin, positions, ...shape }: Rotation): Rows {
    const { elem } = x;
    const width = shape.heads * shape.headSize;
    if (x.width !== width) {
      throw new Refusal(`"${name}" rotates ${width} of a row's ${x.width} elements.`);
    }
    const out = this.#target(name, width, elem);
    this.#dispatches.push({
      kind: "rotate",
      params: {
        elem,
        ...shape,
        x: { stride: x.stride, offset: x.offset },
        numPositions: cos.shape[0]!,
      },
      tensors: {
        x: x.tensor,
        cos: this.#weight({ ...cos, rest: [] }, "f32"),
        sin: this.#weight({ ...sin, rest: [] }, "f32"),
        positions,
        out,
      },
    });
    return this.#whole(out, width, elem);
  }

  #whole(tensor: string, width: number, elem: Elem): Rows {
    return { tensor, stride: width, offset: 0, width, elem };
  }

  /** Assigns the buffer of a new tensor. */
  #target(name: string, width: number, elem: Elem): string {
    const output = this.#outputAliases.get(name);
    if (output !== undefined) return output;
    if (this.#kept.has(name)) return name;
    this.#scratch.set(name, width * elemBytes(elem));
    return name;
  }

  #weight(tensor: Tensor, type: Elem | "uint8"): string {
    const dtype = type === "uint8" ? type : type === "f16" ? "float16" : "float32";
    if (tensor.dtype !== dtype) {
      throw new Refusal(`Its constant "${tensor.name}" is ${tensor.dtype}, not ${dtype}.`);
    }
    this.#weights.set(tensor.name, tensor);
    return tensor.name;
  }

  /** Joins vectors that kernels bind as one: the factors of a norm, followed by its offsets if it has any. */
  #joined(vectors: readonly (Tensor | undefined)[], elem: Elem): string {
    return this.#weight(joinVectors(vectors.filter((vector) => vector !== undefined)), elem);
  }

  #optional(tensor: Tensor | undefined, type: Elem | "uint8"): string | undefined {
    return tensor && this.#weight(tensor, type);
  }
}

function requireElem({ tensor, elem }: Rows, wanted: Elem): void {
  if (elem === wanted) return;
  throw new Refusal(`It computes in ${wanted} with "${tensor}", which is ${elem}.`);
}

/** The data type that a product computes in, which is that of its weights. */
export function findPlanElem({ matrix: { weights, scales } }: ProductPlan): Elem {
  return findElem(scales ?? weights);
}

/** The kernels' name of a constant's data type. @throws {Refusal} when they do not support it. */
export function findElem({ name, dtype }: Tensor): Elem {
  if (dtype === "float32" || dtype === "float16") return toElem(dtype);
  throw new Refusal(`Its constant "${name}" is ${dtype}.`);
}
