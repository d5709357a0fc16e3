/**
 * What specialises the kernels of a mixture of experts, and which sizes they take.
 *
 * @module
 */
import type { Elem } from "../../src/gpu/kernel.ts";
import type { RowLayout } from "../attention/kv_write.ts";

/** How the matrices of all experts are stored, one after the other, each `[outputs, k]`. */
export type ExpertMatrix =
  /** Blocks along K of levels of 4 or 8 bits, each with a scale: the layout of `QMoE`. */
  | {
    readonly kind: "nbits";
    readonly bits: 4 | 8;
    /** Weights that share a scale, 16 or a multiple of 32, which divides K. */
    readonly blockSize: number;
    /** If absent, zero is the middle level. */
    readonly hasZeroPoints: boolean;
  }
  /** Numbers in f32 or f16. */
  | { readonly kind: "rows" };

/** Chooses experts and weighs them. */
export interface RouterParams {
  /** Makes probabilities of logits: over all experts, or of each by itself. */
  readonly scores: "softmax" | "sigmoid";
  /** Whether a bias is added to the probabilities for the choice; the weights are those without it. */
  readonly hasBias: boolean;
  /** Whether the weights of the chosen experts are divided by their sum and `epsilon`. */
  readonly normalizes: boolean;
  readonly epsilon: number;
  /** The weights are multiplied with it last. */
  readonly scale: number;
  /** Which of equally likely experts is chosen: ONNX Runtime's operators take the last, `TopK` the first. */
  readonly prefersLast: boolean;
}

/** What is done with the products of an expert's first matrix. */
export interface ExpertActivation {
  readonly kind: "silu" | "gelu" | "gelu_tanh" | "relu" | "none";
  /** The factor inside SiLU's sigmoid. */
  readonly alpha: number;
  /**
   * The rows of the first matrix that are activated ("gate") and those that they multiply ("up"): alternating, or all of
   * the one before all of the other. Absent: no gate.
   */
  readonly gate?: {
    readonly order: "interleaved" | "halves";
    /** Added to what is multiplied. */
    readonly beta: number;
    /** Bounds both, the activated from above alone; `Infinity` for none. */
    readonly limit: number;
  } | undefined;
}

/** One of the two products of an expert. */
export interface ExpertProduct {
  readonly matrix: ExpertMatrix;
  readonly hasBias: boolean;
}

/** What specialises the kernels. */
export interface ExpertsParams {
  /** Type of rows, logits, scales, biases and of the output. */
  readonly elem: Elem;
  readonly experts: number;
  /** Experts of a row. */
  readonly topK: number;
  /** Elements of a row, and of the output. */
  readonly hidden: number;
  /** Elements between the two products. */
  readonly inner: number;
  readonly x: RowLayout;
  readonly logits: RowLayout;
  readonly router: RouterParams;
  readonly first: ExpertProduct;
  readonly activation: ExpertActivation;
  readonly second: ExpertProduct;
}

/** Experts whose probabilities fit the memory of a workgroup. */
const MAX_EXPERTS = 1024;
const MAX_TOP_K = 32;
/** Elements along K that kernels read at a time. */
export const DEPTH = 32;

/** Rows of an expert's first matrix. */
export function firstOutputs({ inner, activation }: ExpertsParams): number {
  return activation.gate ? 2 * inner : inner;
}

/** Where the gate's rows are in the first matrix: row `i * step + gate`, and what it multiplies at `i * step + up`. */
export function gateRows(
  { inner, activation: { gate } }: ExpertsParams,
): { readonly step: number; readonly gate: number; readonly up: number } {
  if (gate === undefined) return { step: 1, gate: 0, up: 0 };
  return gate.order === "interleaved"
    ? { step: 2, gate: 0, up: 1 }
    : { step: 1, gate: 0, up: inner };
}

/** Also asked by the reference. @throws {RangeError} when the kernels cannot run it. */
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
        `Blocks of ${blockSize} weights in rows of ${k}: experts read whole ones.`,
      );
    }
  }
}
