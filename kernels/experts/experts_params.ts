/**
 * The parameters of the mixture-of-experts kernels, and the sizes that they support.
 *
 * @module
 */
import type { Elem } from "../../src/gpu/kernel.ts";
import type { RowLayout } from "../attention/kv_write.ts";

/** The format of the matrices of all experts, which lie one after the other, each `[outputs, k]`. */
export type ExpertMatrix =
  /** Levels of 4 or 8 bits in blocks along K, each with a scale: the layout of the operator `QMoE`. */
  | {
    readonly kind: "nbits";
    readonly bits: 4 | 8;
    /** Number of weights that share a scale: 16 or a multiple of 32. It divides K. */
    readonly blockSize: number;
    /** If absent, the middle level stands for zero. */
    readonly hasZeroPoints: boolean;
  }
  /** Elements in f32 or f16. */
  | { readonly kind: "rows" };

/** The parameters by which experts are chosen and weighted. */
export interface RouterParams {
  /** The function from logits to probabilities: a softmax over all experts, or a sigmoid for each. */
  readonly scores: "softmax" | "sigmoid";
  /** Whether a bias is added to the probabilities when experts are chosen; it does not affect their weights. */
  readonly hasBias: boolean;
  /** Whether the weights of the chosen experts are divided by their sum plus `epsilon`. */
  readonly normalizes: boolean;
  readonly epsilon: number;
  /** A final factor on the weights. */
  readonly scale: number;
  /**
   * Whether the last of equally likely experts is chosen, as by ONNX Runtime's operators, rather than the first, as by
   * `TopK`.
   */
  readonly prefersLast: boolean;
}

/** The activation between the two products. */
export interface ExpertActivation {
  readonly kind: "silu" | "gelu" | "gelu_tanh" | "relu" | "none";
  /** Factor inside SiLU's sigmoid. */
  readonly alpha: number;
  /**
   * The order of the first matrix's rows. The outputs of "gate" rows are activated, and multiplied with outputs of "up"
   * rows. The two kinds of rows alternate, or each kind is one half. If absent, there is no gate.
   */
  readonly gate?: {
    readonly order: "interleaved" | "halves";
    /** Added to the "up" results before they are multiplied. */
    readonly beta: number;
    /** Limits both values; the gate is only limited from above. `Infinity` for no limit. */
    readonly limit: number;
  } | undefined;
}

/** One of the two products of an expert. */
export interface ExpertProduct {
  readonly matrix: ExpertMatrix;
  readonly hasBias: boolean;
}

/** The parameters of the kernels. */
export interface ExpertsParams {
  /** Data type of rows, logits, scales, biases and the output. */
  readonly elem: Elem;
  readonly experts: number;
  /** Number of experts per row. */
  readonly topK: number;
  /** Number of elements in a row, and in a row of the output. */
  readonly hidden: number;
  /** Number of elements between the two products. */
  readonly inner: number;
  readonly x: RowLayout;
  readonly logits: RowLayout;
  readonly router: RouterParams;
  readonly first: ExpertProduct;
  readonly activation: ExpertActivation;
  readonly second: ExpertProduct;
}

/** Maximum number of experts whose probabilities fit into a workgroup's memory. */
const MAX_EXPERTS = 1024;
const MAX_TOP_K = 32;
/** Number of elements along K that kernels read at a time. */
export const DEPTH = 32;

/** Number of rows in an expert's first matrix. */
export function countFirstOutputs({ inner, activation }: ExpertsParams): number {
  return activation.gate ? 2 * inner : inner;
}

/** Positions of the gate's rows in the first matrix: row `i * step + gate` is multiplied with row `i * step + up`. */
export function findGateRows(
  { inner, activation: { gate } }: ExpertsParams,
): { readonly step: number; readonly gate: number; readonly up: number } {
  if (gate === undefined) return { step: 1, gate: 0, up: 0 };
  return gate.order === "interleaved"
    ? { step: 2, gate: 0, up: 1 }
    : { step: 1, gate: 0, up: inner };
}

/**
 * Checks parameters; the reference uses it too.
 *
 * @throws {RangeError} when the kernels cannot run them.
 */
export function checkExperts(params: ExpertsParams): void {
  const { experts, topK, hidden, inner, x } = params;
  if (experts < 1 || experts > MAX_EXPERTS || topK < 1 || topK > Math.min(experts, MAX_TOP_K)) {
    throw new RangeError(
      `${topK} of ${experts} experts: the kernels choose up to ${MAX_TOP_K} of ${MAX_EXPERTS}.`,
    );
  }
  if ([hidden, inner].some((size) => size % DEPTH !== 0)) {
    throw new RangeError(
      `Experts of ${hidden} by ${inner}: the kernels take multiples of ${DEPTH}.`,
    );
  }
  if (x.stride % 4 !== 0 || x.offset % 4 !== 0) {
    throw new RangeError(
      `Rows with a stride of ${x.stride} and an offset of ${x.offset}: experts read multiples of 4.`,
    );
  }
  for (const [{ matrix }, k] of [[params.first, hidden], [params.second, inner]] as const) {
    if (matrix.kind !== "nbits") continue;
    const { blockSize } = matrix;
    const isKnown = blockSize === 16 || (blockSize > 0 && blockSize % DEPTH === 0);
    if (!isKnown || k % blockSize !== 0) {
      throw new RangeError(
        `Blocks of ${blockSize} weights in rows of ${k}: the kernels take blocks of 16, or of a ` +
          `multiple of ${DEPTH}, that divide a row.`,
      );
    }
  }
}
