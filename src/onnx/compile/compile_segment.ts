/**
 * Compiles a segment of a cut decoder to dispatches of the kernels for few rows. Pure: it looks at nodes and at constants
 * in memory, and touches no device.
 *
 * From what the segment must give it goes back to what that is made of, and takes as much of the graph into one dispatch
 * as a kernel can do.
 *
 * @module
 */
import type { RowLayout } from "../../../kernels/kv_write.ts";
import { checkMatvec, type MatvecParams } from "../../../kernels/matvec.ts";
import { codeOfDtype, elementsOf } from "../dtype.ts";
import type { AttentionSite, HeadRows, Segment, TensorPort } from "../graph_cut.ts";
import { describeNode, GraphIndex } from "../graph_index.ts";
import { intAttribute, type Node, type Tensor } from "../proto.ts";
import { Refusal } from "../refusal.ts";
import { ROWS } from "../segment_model.ts";
import { findActivation } from "./activations.ts";
import { eitherInput, vectorOf } from "./constants.ts";
import {
  findNorm,
  type FoundNorm,
  type ProductPlan,
  ProductPlanner,
  scaleOf,
  splitSizes,
} from "./product_plan.ts";
import type { Compiled, Dispatch, SiteForm } from "./program.ts";

/** What a segment is compiled for. */
export interface CompileOptions {
  /** The attentions after the segment, if they take operands as the dispatches leave them; else none. */
  readonly sites: readonly AttentionSite[];
  /** Outputs that are read by more than these attentions. */
  readonly kept: ReadonlySet<string>;
  /** Whether every token of the step is a wanted row, so that the last segment need not pick them. */
  readonly allRows: boolean;
}

/** Rows of a tensor, or a part of each. */
interface Rows extends RowLayout {
  readonly tensor: string;
  readonly width: number;
}

/** Operators that leave a token's elements where they are. */
const FREE = new Set(["Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten"]);

/** Compiles a segment, or says in one sentence why not. */
export function compileSegment(segment: Segment, options: CompileOptions): Compiled {
  try {
    return { program: new Compiler(segment, options).compile() };
  } catch (error) {
    // A kernel refuses sizes by a RangeError.
    if (!(error instanceof Refusal) && !(error instanceof RangeError)) throw error;
    return { refused: error.message };
  }
}

class Compiler {
  readonly #segment: Segment;
  readonly #options: CompileOptions;
  readonly #index: GraphIndex;
  readonly #planner: ProductPlanner;
  /** Of all that is computed. */
  readonly #dtype: "float32" | "float16";
  readonly #elem: "f32" | "f16";
  readonly #dispatches: Dispatch[] = [];
  readonly #weights = new Map<string, Tensor>();
  readonly #scratch = new Map<string, number>();
  readonly #known = new Map<string, Rows>();
  /** Tensors that are written where an output of the segment is, which is the same but for its shape. */
  readonly #outputAliases = new Map<string, string>();

  constructor(segment: Segment, options: CompileOptions) {
    this.#segment = segment;
    this.#options = options;
    this.#index = new GraphIndex(segment.model.graph);
    const [dtype, ...others] = new Set(segment.outputs.map((port) => port.dtype));
    if (others.length > 0 || (dtype !== "float32" && dtype !== "float16")) {
      throw new Refusal(`Its outputs are ${[dtype, ...others].join(" and ")}.`);
    }
    this.#dtype = dtype;
    this.#elem = dtype === "float16" ? "f16" : "f32";
    this.#planner = new ProductPlanner(this.#index, (name) => options.kept.has(name));
  }

  compile() {
    const { sites, kept: names } = this.#options;
    const kept = this.#segment.outputs.filter(({ name }) => names.has(name));
    for (const { name } of kept) this.#aliasOutput(name);
    for (const { name } of kept) this.#settle(name);
    const forms = sites.map((site) => this.#form(site));
    return {
      dispatches: this.#dispatches,
      weights: [...this.#weights.values()],
      scratch: this.#scratch,
      forms,
    };
  }

  /** Lets the tensor that an output is another shape of be written where the output is. */
  #aliasOutput(name: string): void {
    let root = name;
    for (let node = this.#index.producers.get(root); node && FREE.has(node.opType);) {
      root = node.inputs[0]!;
      node = this.#index.producers.get(root);
    }
    if (root !== name && this.#index.producers.has(root)) this.#outputAliases.set(root, name);
  }

  /** Computes an output where it belongs. */
  #settle(name: string): void {
    const rows = this.#rows(name);
    if (rows.tensor === name && rows.offset === 0 && rows.stride === rows.width) return;
    this.#pointwise(rows, name, {});
  }

  #form(site: AttentionSite): SiteForm {
    const operands = [site.q, site.k, site.v].map((rows) => this.#operand(rows, site));
    const [q, k, v] = operands.map(({ rows }) => rows) as [HeadRows, HeadRows, HeadRows];
    const [ofQ, ofK] = operands.map(({ norm }) => norm);
    const epsilons = new Set([ofQ, ofK].flatMap((norm) => norm?.params.epsilon ?? []));
    if (epsilons.size > 1) throw new Refusal("The norms of its queries and keys differ.");
    const [epsilon] = epsilons;
    const norms = epsilon === undefined ? undefined : { epsilon, q: ofQ?.gamma, k: ofK?.gamma };
    return { layer: site.layer, q, k, v, norms };
  }

  /** Where an operand of an attention is, before the norm of its heads if it has one. */
  #operand(
    own: HeadRows,
    { v, headDim }: AttentionSite,
  ): { readonly rows: HeadRows; readonly norm?: FoundNorm } {
    const { tensor, offset } = own;
    if (!this.#index.producers.has(tensor)) return { rows: own };
    const offsetOf = ({ tensor, stride, offset: from }: Rows) => ({
      tensor,
      tokenStride: stride,
      offset: from + offset,
    });
    const norm = tensor === v.tensor || offset !== 0
      ? undefined
      : findNorm(this.#index, this.#original(tensor));
    // A norm of whole heads, as far as the heads fit a workgroup of the kernel.
    const isTaken = norm !== undefined && norm.params.kind === "rms" &&
      norm.inputs.length === 1 && norm.gamma.shape[0] === headDim && 256 % headDim === 0;
    if (!isTaken) return { rows: offsetOf(this.#rows(tensor)) };
    return { rows: offsetOf(this.#rows(norm.inputs[0]!)), norm };
  }

  /** The tensor that another is but a shape of. */
  #original(name: string): string {
    const node = this.#index.producers.get(name);
    return node && FREE.has(node.opType) ? this.#original(node.inputs[0]!) : name;
  }

  /** Where a tensor's rows are; computes them if that has not been done. */
  #rows(name: string): Rows {
    let rows = this.#known.get(name);
    if (rows === undefined) this.#known.set(name, rows = this.#compute(name));
    return rows;
  }

  #compute(name: string): Rows {
    const node = this.#index.producers.get(name);
    if (node === undefined) return this.#input(name);
    const plan = this.#planner.plan(name);
    if (plan !== undefined) return this.#product(name, plan);
    const norm = findNorm(this.#index, name);
    if (norm !== undefined) return this.#norm(name, norm);
    if (FREE.has(node.opType)) return this.#rows(node.inputs[0]!);
    const activation = findActivation(this.#index, name);
    if (activation !== undefined) {
      const { activation: kind } = activation;
      return this.#pointwise(this.#rows(activation.input), name, { activation: kind });
    }
    if (node.opType.startsWith("Skip") && name === node.outputs[3]) return this.#sum(name, node);
    switch (node.opType) {
      case "Add":
        return this.#sum(name, node);
      case "Mul":
      case "Div":
        return this.#multiply(name, node);
      case "Split":
        return this.#part(name, node);
      case "Cast":
        return this.#cast(name, node);
      case "Gather":
        return this.#take(name, node);
      default:
        throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
    }
  }

  #input(name: string): Rows {
    const port = this.#segment.inputs.find((input) => input.name === name);
    if (port?.dtype !== this.#dtype) {
      const what = port === undefined ? "no row of a token" : port.dtype;
      throw new Refusal(`It computes in ${this.#dtype} with "${name}", which is ${what}.`);
    }
    return rowsOfPort(port);
  }

  /** An input of the other type. */
  #cast(name: string, node: Node): Rows {
    const port = this.#segment.inputs.find((input) => input.name === node.inputs[0]);
    const isTo = intAttribute(node, "to") === codeOfDtype(this.#dtype);
    if (isTo && port?.dtype === this.#dtype) return this.#rows(port.name);
    if (!isTo || (port?.dtype !== "float16" && port?.dtype !== "float32")) {
      throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
    }
    const from = port.dtype === "float16" ? "f16" : "f32";
    return this.#pointwise(rowsOfPort(port), name, { from });
  }

  /** Where a new tensor goes. */
  #target(name: string, width: number): string {
    const output = this.#outputAliases.get(name);
    if (output !== undefined) return output;
    if (this.#options.kept.has(name)) return name;
    this.#scratch.set(name, width * (this.#elem === "f16" ? 2 : 4));
    return name;
  }

  #weight(tensor: Tensor, dtype: string = this.#dtype): string {
    if (tensor.dtype !== dtype) {
      throw new Refusal(`Its constant "${tensor.name}" is ${tensor.dtype}, not ${dtype}.`);
    }
    this.#weights.set(tensor.name, tensor);
    return tensor.name;
  }

  #optional(tensor: Tensor | undefined, dtype?: string): string | undefined {
    return tensor && this.#weight(tensor, dtype);
  }

  #product(name: string, plan: ProductPlan): Rows {
    const { matrix, bias, gate, activation, scale, softcap } = plan;
    const { form, k, outputs } = matrix;
    const found = findNorm(this.#index, this.#original(plan.input));
    const norm = found?.gamma.shape[0] === k ? found : undefined;
    const x = norm ? this.#normed(norm) : this.#rows(plan.input);
    const n = gate?.n ?? outputs;
    const residual = plan.residual === undefined ? undefined : this.#whole(plan.residual, n);
    if (x.width !== k) {
      throw new Refusal(`Its product "${name}" takes ${k} of ${x.width} elements of a row.`);
    }
    const params: MatvecParams = {
      elem: this.#elem,
      k,
      n,
      x: { stride: x.stride, offset: x.offset },
      matrixRows: outputs,
      weights: form,
      norm: norm?.params,
      hasBias: bias !== undefined,
      gate: gate && { gateRow: gate.gateRow, upRow: gate.upRow },
      activation,
      scale,
      softcap,
      hasResidual: residual !== undefined,
    };
    checkMatvec(params);
    const isPacked = form.kind === "nbits";
    const out = this.#target(name, n);
    this.#dispatches.push({
      kind: "matvec",
      params,
      tensors: {
        x: x.tensor,
        weights: this.#weight(matrix.weights, isPacked ? "uint8" : undefined),
        scales: this.#optional(matrix.scales),
        zeroPoints: this.#optional(matrix.zeroPoints, "uint8"),
        gamma: this.#optional(norm?.gamma),
        beta: this.#optional(norm?.beta),
        bias: this.#optional(bias),
        residual,
        out,
      },
    });
    return { tensor: out, stride: n, offset: 0, width: n };
  }

  /** The rows that a norm is of. */
  #normed({ node, inputs }: FoundNorm): Rows {
    if (inputs.length === 1) return this.#rows(inputs[0]!);
    const name = node.outputs[3] || `${node.outputs[0]}/sum`;
    const rows = this.#known.get(name) ?? this.#sum(name, node);
    this.#known.set(name, rows);
    return rows;
  }

  #norm(name: string, norm: FoundNorm): Rows {
    const x = this.#normed(norm);
    const k = norm.gamma.shape[0]!;
    const out = this.#target(name, x.width);
    this.#dispatches.push({
      kind: "norm",
      params: {
        elem: this.#elem,
        k,
        heads: x.width / k,
        x: { stride: x.stride, offset: x.offset },
        norm: norm.params,
        hasSkip: false,
        hasResidual: false,
      },
      tensors: {
        x: x.tensor,
        gamma: this.#weight(norm.gamma),
        beta: this.#optional(norm.beta),
        out,
      },
    });
    return { tensor: out, stride: x.width, offset: 0, width: x.width };
  }

  /** The sum of a node's first two inputs. */
  #sum(name: string, node: Node): Rows {
    const operands = node.inputs.slice(0, 2) as [string, string];
    const plan = this.#planner.addTo(operands, node);
    if (plan !== undefined) return this.#product(name, plan);
    const vector = eitherInput(node, (input) => vectorOf(this.#index, input));
    if (vector !== undefined) {
      return this.#pointwise(this.#rows(vector.other), name, { add: vector.found });
    }
    const [left, right] = operands;
    return this.#pointwise(this.#rows(left), name, { add: right });
  }

  #multiply(name: string, node: Node): Rows {
    const scaled = scaleOf(this.#index, node);
    if (scaled !== undefined) {
      return this.#pointwise(this.#rows(scaled.input), name, { scale: scaled.scale });
    }
    if (node.opType === "Div") throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
    const vector = eitherInput(node, (input) => vectorOf(this.#index, input));
    if (vector !== undefined) {
      return this.#pointwise(this.#rows(vector.other), name, { multiply: vector.found });
    }
    for (const [left, right] of [node.inputs, node.inputs.toReversed()] as [string, string][]) {
      const found = findActivation(this.#index, left);
      if (found === undefined || this.#known.has(left)) continue;
      const { activation } = found;
      return this.#pointwise(this.#rows(found.input), name, { activation, multiply: right });
    }
    const [left, right] = node.inputs as [string, string];
    return this.#pointwise(this.#rows(left), name, { multiply: right });
  }

  #pointwise(a: Rows, name: string, what: {
    readonly add?: string | Tensor;
    readonly multiply?: string | Tensor;
    readonly activation?: MatvecParams["activation"];
    readonly scale?: number;
    /** The type of `a`, where it is another. */
    readonly from?: "f16" | "f32";
  }): Rows {
    const { activation = "none", scale = 1, from } = what;
    const second = what.add ?? what.multiply;
    const b = typeof second === "string" ? this.#rows(second) : undefined;
    const vector = typeof second === "object" ? this.#weight(second) : undefined;
    const width = typeof second === "object" ? second.shape.at(-1)! : b?.width ?? a.width;
    if (width !== a.width) {
      throw new Refusal(`"${name}" joins rows of ${a.width} and of ${width} elements.`);
    }
    const out = this.#target(name, width);
    this.#dispatches.push({
      kind: "pointwise",
      params: {
        elem: this.#elem,
        from,
        width,
        a: { stride: a.stride, offset: a.offset },
        b: { stride: b?.stride ?? 0, offset: b?.offset ?? 0 },
        operation: second === undefined ? "none" : what.add === undefined ? "multiply" : "add",
        activation,
        scale,
        softcap: 0,
      },
      tensors: { a: a.tensor, b: b?.tensor ?? vector, out },
    });
    return { tensor: out, stride: width, offset: 0, width };
  }

  /** A tensor that is nothing but the rows of another. */
  #whole(name: string, width: number): string {
    const rows = this.#rows(name);
    if (rows.width !== width) {
      throw new Refusal(`"${name}" of ${rows.width} elements is added to rows of ${width}.`);
    }
    if (rows.offset === 0 && rows.stride === width) return rows.tensor;
    return this.#pointwise(rows, `${name}/copy`, {}).tensor;
  }

  #part(name: string, node: Node): Rows {
    const whole = this.#rows(node.inputs[0]!);
    const axis = intAttribute(node, "axis") ?? 0;
    const sizes = splitSizes(this.#index, node, whole.width);
    if (sizes === undefined || (axis !== -1 && axis !== 2)) {
      throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
    }
    const offsetOf = node.outputs.indexOf(name);
    const before = sizes.slice(0, offsetOf).reduce((sum, size) => sum + size, 0);
    return { ...whole, offset: whole.offset + before, width: sizes[offsetOf]! };
  }

  #take(name: string, node: Node): Rows {
    const [table, numbers] = node.inputs as [string, string];
    const constant = this.#index.constants.get(table);
    const isWanted = numbers === ROWS.name && intAttribute(node, "axis") === 1;
    if (isWanted && this.#options.allRows) return this.#rows(table);
    const port = this.#segment.inputs.find((input) => input.name === numbers);
    const isLookup = constant?.shape.length === 2 && !intAttribute(node, "axis") && port?.isIndex;
    if (!isWanted && !isLookup) throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
    const width = constant ? constant.shape[1]! : this.#rows(table).width;
    const out = this.#target(name, width);
    this.#dispatches.push({
      kind: "take_rows",
      params: {
        rowBytes: width * (this.#elem === "f16" ? 2 : 4),
        tableRows: constant ? constant.shape[0]! : 2 ** 31,
      },
      tensors: {
        table: constant ? this.#weight(constant) : this.#whole(table, width),
        numbers,
        out,
      },
    });
    return { tensor: out, stride: width, offset: 0, width };
  }
}

function rowsOfPort({ name, shape }: TensorPort): Rows {
  const width = elementsOf(shape.filter((size) => typeof size === "number"));
  return { tensor: name, stride: width, offset: 0, width };
}
