/**
 * Plans the matrix products of a graph: finds their constant matrices, and the nodes after a product that the same
 * dispatch can compute.
 *
 * @module
 */
import type { Activation } from "../../kernels/common/activation.ts";
import {
  describeNode,
  eitherInput,
  type GraphIndex,
  readIntegers,
  readScalar,
  readVector,
} from "../graph/graph_index.ts";
import {
  type Node,
  readFloatAttribute,
  readIntAttribute,
  readIntsAttribute,
  type Tensor,
} from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";
import { findActivation } from "./activations.ts";
import { type Elem, toElem } from "../gpu/kernel.ts";
import { LEVEL_BITS, type MatrixFormat } from "../../kernels/matmul/matvec_params.ts";

/** Index of the bias input, for operators that have one. */
const BIAS_INPUTS: Readonly<Record<string, number>> = { Gemm: 2, MatMulNBits: 5 };

/** A product, and the operations after it that are computed in the same dispatch. */
export interface ProductPlan {
  readonly matrix: Matrix;
  /** The tensor that is multiplied with the matrix. */
  readonly input: string;
  readonly bias?: Tensor | undefined;
  readonly activation: Activation;
  /** Set if one half of the outputs is activated and multiplied with the other half. */
  readonly gate?: { readonly gateRow: number; readonly upRow: number; readonly n: number };
  readonly scale: number;
  readonly softcap: number;
  /** The tensor that is added last. */
  readonly residual?: string | undefined;
}

/** Plans the products of one segment. */
export class ProductPlanner {
  readonly #index: GraphIndex;
  readonly #isKept: (name: string) => boolean;

  /** @param isKept tells which tensors must be written to memory. */
  constructor(index: GraphIndex, isKept: (name: string) => boolean) {
    this.#index = index;
    this.#isKept = isKept;
  }

  /** Plans one dispatch that computes a tensor, beginning with a product; `undefined` if that is not possible. */
  plan(name: string): ProductPlan | undefined {
    const node = this.#index.producers.get(name);
    if (node === undefined) return undefined;
    return this.#product(node) ?? this.#sum(node, name) ?? this.#gated(node) ??
      this.#scaled(node) ?? this.#activated(name) ?? this.#capped(node);
  }

  /** Plans a tensor that only `readers` read, so that their dispatch may include it. */
  inner(name: string, ...readers: readonly Node[]): ProductPlan | undefined {
    if (this.#isKept(name)) return undefined;
    const consumers = this.#index.consumers(name);
    return consumers.every((node) => readers.includes(node)) ? this.plan(name) : undefined;
  }

  /** Plans a sum of two tensors, one of which is a product. */
  addTo([left, right]: readonly [string, string], reader: Node): ProductPlan | undefined {
    for (const [product, residual] of [[left, right], [right, left]] as const) {
      const plan = this.inner(product, reader);
      const isFree = plan !== undefined && plan.residual === undefined;
      if (isFree && !this.#index.constants.has(residual)) return { ...plan, residual };
    }
    return undefined;
  }

  /** Adds a bias to a plan. @throws {Refusal} when no product can include it. */
  withBias(plan: ProductPlan | undefined, bias: Tensor, node: Node): ProductPlan {
    const fits = plan?.bias === undefined && bias.shape.at(-1) === plan?.matrix.outputs;
    if (plan !== undefined && fits && isPlain({ ...plan, residual: undefined })) {
      return { ...plan, bias };
    }
    throw new Refusal(`No product can include the bias of ${describeNode(node)}.`);
  }

  #product(node: Node): ProductPlan | undefined {
    const matrix = readMatrix(this.#index, node);
    if (matrix === undefined) return undefined;
    const bias = readVector(this.#index, node.inputs[BIAS_INPUTS[node.opType] ?? -1]);
    const input = node.inputs[0]!;
    return { matrix, input, bias, activation: "none", scale: 1, softcap: 0 };
  }

  #sum(node: Node, name: string): ProductPlan | undefined {
    if (node.opType !== "Add" || name !== node.outputs[0]) return undefined;
    const biased = eitherInput(node, (input) => readVector(this.#index, input));
    if (biased === undefined) return this.addTo(node.inputs as unknown as [string, string], node);
    const plan = this.inner(biased.other, node);
    if (plan === undefined || plan.bias || !isPlain(plan)) return undefined;
    const fits = biased.found.shape.at(-1) === plan.matrix.outputs;
    return fits ? { ...plan, bias: biased.found } : undefined;
  }

  #activated(name: string): ProductPlan | undefined {
    const found = findActivation(this.#index, name);
    if (found === undefined || found.between.some((tensor) => this.#isKept(tensor))) {
      return undefined;
    }
    const plan = this.inner(found.input, ...this.#findReaders(found.input, found.between, name));
    if (plan === undefined || !isPlain(plan)) return undefined;
    return { ...plan, activation: found.activation };
  }

  /** The nodes that read an input on the path through `between` to an output. */
  #findReaders(input: string, between: readonly string[], output: string): Node[] {
    const passed = new Set([...between, output]);
    return this.#index.consumers(input).filter(({ outputs }) =>
      outputs.some((name) => passed.has(name))
    );
  }

  /** Matches `activate(part) * other part`, where a split divides the result of one product into the two parts. */
  #gated(node: Node): ProductPlan | undefined {
    if (node.opType !== "Mul") return undefined;
    const pair = eitherInput(node, (name) => {
      const found = findActivation(this.#index, name);
      return found && { ...found, name };
    });
    if (pair === undefined) return undefined;
    const { found, other } = pair;
    const split = this.#index.producers.get(other);
    if (split?.opType !== "Split" || this.#index.producers.get(found.input) !== split) {
      return undefined;
    }
    const kept = [found.name, ...found.between, ...split.outputs];
    if (kept.some((name) => this.#isKept(name)) || split.outputs.length !== 2) return undefined;
    const readers = split.outputs.flatMap((name) => this.#index.consumers(name));
    const passed = new Set([...found.between, found.name, node.outputs[0]!]);
    if (!readers.every(({ outputs }) => outputs.some((name) => passed.has(name)))) return undefined;
    if (this.#index.consumers(found.name).length !== 1) return undefined;
    const plan = this.inner(split.inputs[0]!, split);
    if (plan === undefined || !isPlain(plan)) return undefined;
    const sizes = readSplitSizes(this.#index, split, plan.matrix.outputs);
    if (sizes === undefined || sizes[0] !== sizes[1]) return undefined;
    const n = sizes[0]!;
    const gateRow = split.outputs.indexOf(found.input) * n;
    return { ...plan, activation: found.activation, gate: { gateRow, upRow: n - gateRow, n } };
  }

  #scaled(node: Node): ProductPlan | undefined {
    if (node.opType !== "Mul" && node.opType !== "Div") return undefined;
    const factor = readScale(this.#index, node);
    const plan = factor && this.inner(factor.input, node);
    if (!plan || plan.residual !== undefined || plan.softcap !== 0) return undefined;
    return { ...plan, scale: plan.scale * factor.scale };
  }

  /** Matches `c * tanh(x / c)`. */
  #capped(node: Node): ProductPlan | undefined {
    const outer = node.opType === "Mul" ? readScale(this.#index, node) : undefined;
    const tanh = this.#index.producers.get(outer?.input ?? "");
    if (outer === undefined || tanh?.opType !== "Tanh" || this.#isKept(outer.input)) {
      return undefined;
    }
    const plan = this.inner(tanh.inputs[0]!, tanh);
    const isAlone = this.#index.consumers(outer.input).length === 1;
    if (plan === undefined || !isAlone || plan.residual !== undefined || plan.softcap !== 0) {
      return undefined;
    }
    if (Math.abs(plan.scale * outer.scale - 1) > 1e-3) return undefined;
    return { ...plan, scale: 1, softcap: outer.scale };
  }
}

/** Whether nothing but a bias follows the product. */
function isPlain(plan: ProductPlan): boolean {
  const { activation, gate, scale, softcap, residual } = plan;
  return activation === "none" && !gate && scale === 1 && softcap === 0 && residual === undefined;
}

/** Finds the constant factor of a `Mul` or `Div` that scales all elements. */
export function readScale(
  index: GraphIndex,
  node: Node,
): { readonly scale: number; readonly input: string } | undefined {
  if (node.opType === "Div") {
    const divisor = readScalar(index, node.inputs[1]);
    return divisor === undefined ? undefined : { scale: 1 / divisor, input: node.inputs[0]! };
  }
  const pair = eitherInput(node, (name) => readScalar(index, name));
  return pair && { scale: pair.found, input: pair.other };
}

/** The sizes of the parts into which a `Split` divides a row of `width` elements; `undefined` if they are computed. */
export function readSplitSizes(
  index: GraphIndex,
  node: Node,
  width: number,
): readonly number[] | undefined {
  const sizes = readIntegers(index, node.inputs[1]) ?? readIntsAttribute(node, "split");
  if (sizes !== undefined) return sizes;
  if (node.inputs.length > 1) return undefined;
  return node.outputs.map(() => width / node.outputs.length);
}

/** The constant matrix of a product, as the graph stores it. */
interface Matrix {
  readonly format: MatrixFormat;
  readonly k: number;
  readonly outputs: number;
  readonly weights: Tensor;
  readonly scales?: Tensor | undefined;
  readonly zeroPoints?: Tensor | undefined;
}

/**
 * Reads the matrix of a product; `undefined` if it is not constant.
 *
 * @throws {Refusal} when the kernels do not support its format.
 */
export function readMatrix(index: GraphIndex, node: Node): Matrix | undefined {
  const { opType, inputs } = node;
  if (opType === "Gemm" && !isPlainGemm(index, node)) return undefined;
  const weights = index.constants.get(inputs[1] ?? "");
  if (opType === "MatMulNBits" && weights !== undefined) return readBlocks(index, node, weights);
  if (opType === "MatMul" && weights?.shape.length === 2) {
    const [k, outputs] = weights.shape as [number, number];
    return { format: { kind: "columns" }, k, outputs, weights };
  }
  const transposed = opType === "MatMul" ? findTransposed(index, inputs[1]) : undefined;
  const isTransposed = readIntAttribute(node, "transB") === 1;
  const table = transposed ?? (opType === "Gemm" && isTransposed ? weights : undefined);
  if (table?.shape.length === 2) {
    const [outputs, k] = table.shape as [number, number];
    return { format: { kind: "rows" }, k, outputs, weights: table };
  }
  if (opType !== "Gemm" || weights === undefined) return undefined;
  const [k, outputs] = weights.shape as [number, number];
  return { format: { kind: "columns" }, k, outputs, weights };
}

/** Whether a `Gemm` is only a product and a bias, without scale factors. */
function isPlainGemm(index: GraphIndex, node: Node): boolean {
  const [alpha, beta] = ["alpha", "beta"].map((name) => readFloatAttribute(node, name) ?? 1);
  const { inputs: [, , bias = ""] } = node;
  return alpha === 1 && beta === 1 && !readIntAttribute(node, "transA") &&
    (bias === "" || readVector(index, bias) !== undefined);
}

/** Finds the constant of which a tensor is the transpose. */
export function findTransposed(
  index: GraphIndex,
  name: string | undefined,
): Tensor | undefined {
  const node = index.producers.get(name ?? "");
  return node?.opType === "Transpose" ? index.constants.get(node.inputs[0]!) : undefined;
}

function readBlocks(index: GraphIndex, node: Node, weights: Tensor): Matrix {
  const [k, outputs, blockSize] = ["K", "N", "block_size"].map((name) =>
    readIntAttribute(node, name)!
  ) as [number, number, number];
  const given = readIntAttribute(node, "bits") ?? 4;
  const bits = LEVEL_BITS.find((known) => known === given);
  if (bits === undefined) throw new Refusal(`Its product "${node.name}" has ${given} bits.`);
  const [, , scales, zeroPoints = "", groups = "", bias = ""] = node.inputs;
  if (groups !== "" || (bias !== "" && readVector(index, bias, outputs) === undefined)) {
    throw new Refusal(`Its product "${node.name}" has inputs that the kernel does not support.`);
  }
  const zeros = index.constants.get(zeroPoints);
  const hasFloatZeroPoints = zeros !== undefined && zeros.dtype !== "uint8";
  if (hasFloatZeroPoints && zeros.dtype !== index.constants.get(scales!)?.dtype) {
    throw new Refusal(`The zero points of its product "${node.name}" are ${zeros.dtype}.`);
  }
  // ONNX Runtime does not round the rows of products with float zero points.
  const allowsInt8 = readIntAttribute(node, "accuracy_level") === 4 && !hasFloatZeroPoints;
  return {
    format: {
      ...{ kind: "nbits", bits, blockSize, hasZeroPoints: zeros !== undefined },
      ...hasFloatZeroPoints && { hasFloatZeroPoints },
      ...allowsInt8 && { allowsInt8 },
    },
    k,
    outputs,
    weights,
    scales: index.constants.get(scales!),
    zeroPoints: zeros,
  };
}

/** The data type in which a product is computed, which is that of its weights or their scales. */
export function findPlanElem({ matrix: { weights, scales } }: ProductPlan): Elem {
  return findElem(scales ?? weights);
}

/** The kernels' name for the data type of a constant. @throws {Refusal} when they do not support it. */
export function findElem({ name, dtype }: Tensor): Elem {
  if (dtype === "float32" || dtype === "float16") return toElem(dtype);
  throw new Refusal(`Its constant "${name}" is ${dtype}.`);
}
