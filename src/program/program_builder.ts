/**
 * Records the dispatches of a compiled segment, and what they read and write.
 *
 * @module
 */
import type { RowLayout } from "../../kernels/attention/kv_write.ts";
import { checkMatvec, type MatvecParams } from "../../kernels/matmul/matvec_params.ts";
import { type Elem, elemBytes } from "../gpu/kernel.ts";
import type { Tensor } from "../graph/file/proto.ts";
import type { RotateParams } from "../../kernels/rows/row_kernels.ts";
import type { StoredTensor } from "../graph/file/tensor.ts";
import { Refusal } from "../graph/refusal.ts";
import { joinVectors } from "./merge_products.ts";
import type { FoundNorm } from "./norms.ts";
import { findPlanElem, type ProductPlan } from "./product_plan.ts";
import type { Dispatch, Program } from "./program.ts";

/** Rows of a tensor, or a part of each row. */
export interface Rows extends RowLayout {
  readonly tensor: string;
  readonly width: number;
  readonly elem: Elem;
}

/** An elementwise computation: `activation(a) · scale`, combined with a second operand if there is one. */
interface Pointwise {
  readonly a: Rows;
  /** Rows of the same width, or a vector for all rows. */
  readonly add?: Rows | Tensor;
  /** Rows of the same width, a vector for all rows, or one element per row. */
  readonly multiply?: Rows | Tensor;
  /**
   * The operation `max` applies a lower bound, and `min` an upper bound. Each has an element for each element of a row.
   */
  readonly max?: Tensor;
  readonly min?: Tensor;
  /** Whether `multiply` has one element for each head of a row. */
  readonly byHead?: boolean | undefined;
  readonly activation?: MatvecParams["activation"];
  readonly scale?: number;
  /** Data type of the result; that of `a` if absent. */
  readonly elem?: Elem;
}

/** A product, and a norm of its input. */
interface Product {
  readonly plan: ProductPlan;
  readonly x: Rows;
  readonly norm: FoundNorm | undefined;
  /** Rows of which the result is a part, if it does not have rows of its own. */
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
 * Builds a program. Most methods add a dispatch that computes the tensor `name`, and return the rows of that tensor.
 */
export class ProgramBuilder {
  readonly #kept: ReadonlySet<string>;
  readonly #hasTiles: boolean;
  readonly #dispatches: Dispatch[] = [];
  readonly #weights = new Map<string, Tensor>();
  readonly #scratch = new Map<string, number>();
  /** Outputs of the segment that only reshape a tensor, by the name of that tensor. */
  readonly #outputAliases = new Map<string, string>();

  /**
   * @param options.kept outputs that are read after the segment has run, each in a buffer of its own.
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

  /** Makes dispatches write a tensor to the buffer of an output that has the same elements. */
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

  /** Adds a product, with the norm before it and the operations after it. */
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
   * Adds a product whose input is the sum of a residual and normalised rows. The dispatch also computes and writes the
   * sum.
   *
   * @param what.sum the norm of the rows, a root mean square.
   */
  matvecOfSum(name: string, { residual, sum, sumName, ...what }: Product & {
    readonly residual: string;
    readonly sum: FoundNorm;
    readonly sumName: string;
  }): { readonly rows: Rows; readonly summed: Rows } {
    const { plan: { matrix: { k }, bias }, norm } = what;
    const elem = findPlanElem(what.plan);
    const summed = this.reserve(sumName, k, elem);
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
      x: toLayout(x),
      out: within && toLayout(within),
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
    const out = within ?? this.reserve(name, n, elem);
    this.#dispatches.push({
      kind: "matvec",
      hasTiles: this.#hasTiles,
      params,
      tensors: {
        x: x.tensor,
        weights: this.#weight(matrix.weights, isPacked ? "uint8" : elem),
        scales: this.#optional(matrix.scales, elem),
        zeroPoints: this.#optional(
          matrix.zeroPoints,
          isPacked && format.hasFloatZeroPoints ? elem : "uint8",
        ),
        ...operands(),
        out: out.tensor,
      },
    });
    return out;
  }

  /** Assigns the buffer of a new tensor, and returns its rows, which dispatches then write. */
  reserve(name: string, width: number, elem: Elem): Rows {
    const output = this.#outputAliases.get(name);
    if (output === undefined && !this.#kept.has(name)) {
      this.#scratch.set(name, width * elemBytes(elem));
    }
    return { tensor: output ?? name, stride: width, offset: 0, width, elem };
  }

  /** Adds a norm. @param what.residual a tensor that is added to the result. */
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
    const out = this.reserve(name, x.width, elem);
    this.#dispatches.push({
      kind: "norm",
      params: {
        elem,
        k,
        heads: x.width / k,
        x: toLayout(x),
        norm: norm.params,
        hasResidual: residual !== undefined,
      },
      tensors: {
        x: x.tensor,
        affine: this.#joined([norm.gamma, norm.beta], elem),
        residual,
        out: out.tensor,
      },
    });
    return out;
  }

  /**
   * Adds an elementwise computation. Without a second operand, an activation or a scale, it copies rows to contiguous
   * memory.
   */
  pointwise(name: string, what: Pointwise): Rows {
    const { a, multiply, activation = "none", scale = 1, elem = a.elem } = what;
    const operation = (["add", "multiply", "max", "min"] as const).find((kind) => what[kind]);
    const second = operation && what[operation];
    const rows = second && "tensor" in second ? second : undefined;
    const vector = second && !("tensor" in second) ? second : undefined;
    const width = vector?.shape.at(-1) ?? rows?.width ?? a.width;
    const mayRepeat = (width === 1 && rows !== undefined) || what.byHead === true;
    const repeats = multiply !== undefined && mayRepeat ? a.width / width : 1;
    if (width * repeats !== a.width || !Number.isInteger(repeats)) {
      throw new Refusal(`"${name}" combines rows of ${a.width} and of ${width} elements.`);
    }
    if (rows) requireElem(rows, elem);
    const out = this.reserve(name, a.width, elem);
    this.#dispatches.push({
      kind: "pointwise",
      params: {
        elem,
        ...a.elem !== elem && { from: a.elem },
        width: a.width,
        a: toLayout(a),
        b: { stride: rows?.stride ?? 0, offset: rows?.offset ?? 0 },
        ...repeats > 1 && { repeats },
        operation: operation ?? "none",
        activation,
        scale,
      },
      tensors: { a: a.tensor, b: rows?.tensor ?? this.#optional(vector, elem), out: out.tensor },
    });
    return out;
  }

  /** Adds a lookup of rows by number, in a constant table or in a tensor of contiguous rows. */
  takeRows(name: string, { table, numbers, width, elem }: {
    readonly table: Tensor | string;
    readonly numbers: string;
    readonly width: number;
    readonly elem: Elem;
  }): Rows {
    const out = this.reserve(name, width, elem);
    const isTensor = typeof table === "string";
    this.#dispatches.push({
      kind: "take_rows",
      params: {
        rowBytes: width * elemBytes(elem),
        tableRows: isTensor ? 2 ** 31 : table.shape[0]!,
      },
      tensors: { table: isTensor ? table : this.#weight(table, elem), numbers, out: out.tensor },
    });
    return out;
  }

  /** Adds a rotation of each row's heads by its position. */
  rotate(name: string, { x, cos, sin, positions, ...shape }: Rotation): Rows {
    const { elem } = x;
    const width = shape.heads * shape.headSize;
    if (x.width !== width) {
      throw new Refusal(`"${name}" rotates ${width} of a row's ${x.width} elements.`);
    }
    const out = this.reserve(name, width, elem);
    this.#dispatches.push({
      kind: "rotate",
      params: {
        elem,
        ...shape,
        x: toLayout(x),
        numPositions: cos.shape[0]!,
      },
      tensors: {
        x: x.tensor,
        cos: this.#weight({ ...cos, rest: [] }, "f32"),
        sin: this.#weight({ ...sin, rest: [] }, "f32"),
        positions,
        out: out.tensor,
      },
    });
    return out;
  }

  #weight(tensor: Tensor, type: Elem | "uint8"): string {
    const dtype = type === "uint8" ? type : type === "f16" ? "float16" : "float32";
    if (tensor.dtype !== dtype) {
      throw new Refusal(`Its constant "${tensor.name}" is ${tensor.dtype}, not ${dtype}.`);
    }
    this.#weights.set(tensor.name, tensor);
    return tensor.name;
  }

  /** Joins vectors that kernels read from one buffer: the factors of a norm, followed by its offsets if it has any. */
  #joined(vectors: readonly (Tensor | undefined)[], elem: Elem): string {
    return this.#weight(joinVectors(vectors.filter((vector) => vector !== undefined)), elem);
  }

  #optional(tensor: Tensor | undefined, type: Elem | "uint8"): string | undefined {
    return tensor && this.#weight(tensor, type);
  }
}

function toLayout({ stride, offset }: Rows): RowLayout {
  return { stride, offset };
}

function requireElem({ tensor, elem }: Rows, wanted: Elem): void {
  if (elem === wanted) return;
  throw new Refusal(`It computes in ${wanted} with "${tensor}", which is ${elem}.`);
}
