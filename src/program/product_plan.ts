/**
 * Plans matrix products of a graph, with the surrounding nodes that the same dispatch can compute.
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
import { intsAttribute, type Node, type Tensor } from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";
import { findActivation } from "./activations.ts";
import { type Matrix, readMatrix } from "./matrices.ts";
import { findNorm, type FoundNorm, skipBias } from "./norms.ts";
import { findOriginal } from "./row_graph.ts";

/** Index of the bias input, for operators that have one. */
const BIAS_INPUTS: Readonly<Record<string, number>> = { Gemm: 2, MatMulNBits: 5 };

/** A product, and the operations after it that are computed in the same dispatch. */
export interface ProductPlan {
  readonly matrix: Matrix;
  /** The tensor that is multiplied with the matrix. */
  readonly input: string;
  readonly bias?: Tensor | undefined;
  readonly activation: Activation;
  /** Set if it multiplies parts of its own outputs with each other. */
  readonly gate?: { readonly gateRow: number; readonly upRow: number; readonly n: number };
  readonly scale: number;
  readonly softcap: number;
  /** The tensor that is added last. */
  readonly residual?: string | undefined;
}

/** Plans products in one segment. `isKept` tells which tensors must be computed themselves. */
export class ProductPlanner {
  readonly #index: GraphIndex;
  readonly #isKept: (name: string) => boolean;

  constructor(index: GraphIndex, isKept: (name: string) => boolean) {
    this.#index = index;
    this.#isKept = isKept;
  }

  /** How one dispatch computes a tensor from a product; `undefined` if none can. */
  plan(name: string): ProductPlan | undefined {
    const node = this.#index.producers.get(name);
    if (node === undefined) return undefined;
    return this.#product(node) ?? this.#sum(node, name) ?? this.#gated(node) ??
      this.#scaled(node) ?? this.#activated(name) ?? this.#capped(node);
  }

  /** The plan of a tensor that only `readers` need, so that their dispatch may include it. */
  inner(name: string, ...readers: readonly Node[]): ProductPlan | undefined {
    if (this.#isKept(name)) return undefined;
    const consumers = this.#index.consumers(name);
    return consumers.every((node) => readers.includes(node)) ? this.plan(name) : undefined;
  }

  /** The plan of a sum of two tensors, one of which is a product. */
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

  /** The nodes between an input and an output, provided that all of them lead to the output. */
  #findReaders(input: string, between: readonly string[], output: string): Node[] {
    const passed = new Set([...between, output]);
    return this.#index.consumers(input).filter(({ outputs }) =>
      outputs.some((name) => passed.has(name))
    );
  }

  /** Matches `activate(part) * other part`, with parts of one product that a split divides. */
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
    const sizes = splitSizes(this.#index, split, plan.matrix.outputs);
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

/** Reads a factor that all elements are multiplied with. */
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

/** The sizes, along the last axis, of the parts of a row of `width` elements. */
export function splitSizes(
  index: GraphIndex,
  node: Node,
  width: number,
): readonly number[] | undefined {
  const sizes = readIntegers(index, node.inputs[1]) ?? intsAttribute(node, "split");
  if (sizes !== undefined) return sizes;
  if (node.inputs.length > 1) return undefined;
  return node.outputs.map(() => width / node.outputs.length);
}

/** `residual + norm`, where the norm is a root mean square, and the name of the sum. */
interface FoundSum {
  readonly name: string;
  readonly norm: FoundNorm;
  readonly residual: string;
}

/**
 * Most outputs of such a product. Each group of outputs computes the sum again, which for a vocabulary costs more than
 * a dispatch.
 */
const MOST_OUTPUTS = 2 ** 15;

/** The name of the sum that a norm of two tensors normalises. */
export function nameSum(node: Node): string {
  return node.outputs[3] || `${node.outputs[0]}/sum`;
}

/**
 * Finds the sum that a product, or the norm before it, reads, if the product can compute it.
 *
 * @param product.isFree whether a tensor is only read by one node and has not been computed yet.
 */
export function findSum(
  index: GraphIndex,
  { plan, norm, isFree }: {
    readonly plan: ProductPlan;
    readonly norm: FoundNorm | undefined;
    readonly isFree: (name: string, reader: Node) => boolean;
  },
): FoundSum | undefined {
  const { matrix: { k, outputs }, residual: added } = plan;
  if (added !== undefined || outputs > MOST_OUTPUTS) return undefined;
  const isSkip = norm?.inputs.length === 2;
  const input = findOriginal(index, norm?.inputs[0] ?? plan.input);
  const node = isSkip ? norm.node : index.producers.get(input);
  if (node === undefined || (!isSkip && node.opType !== "Add")) return undefined;
  if (skipBias(index, node) !== undefined) return undefined;
  const [left, right] = node.inputs as [string, string];
  for (const [normed, residual] of [[left, right], [right, left]] as const) {
    const own = isFree(normed, node) ? findNorm(index, normed) : undefined;
    const isTaken = own?.params.kind === "rms" && own.inputs.length === 1 &&
      own.gamma.shape[0] === k;
    if (!isTaken || index.constants.has(residual)) continue;
    return { name: isSkip ? nameSum(node) : input, norm: own, residual };
  }
  return undefined;
}
