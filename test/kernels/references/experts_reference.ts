/**
 * Mixtures of experts by the formula, in f64: the reference for `kernels/experts/experts.ts`.
 *
 * @module
 */
import { activate } from "./activate.ts";
import {
  checkExperts,
  countFirstOutputs,
  type ExpertProduct,
  type ExpertsParams,
  findGateRows,
} from "../../../kernels/experts/experts_params.ts";

/** The matrices of all experts as the kernels read them. */
export interface ReferenceMatrices {
  /** Levels of `nbits`, two per byte if they have 4 bits. */
  readonly levels?: Uint8Array | undefined;
  readonly scales?: ArrayLike<number> | undefined;
  readonly zeroPoints?: Uint8Array | undefined;
  /** The elements, if the matrices are not quantised. */
  readonly weights?: ArrayLike<number> | undefined;
  readonly bias?: ArrayLike<number> | undefined;
}

export interface ReferenceTensors {
  readonly x: ArrayLike<number>;
  readonly logits: ArrayLike<number>;
  readonly routerBias?: ArrayLike<number> | undefined;
  readonly first: ReferenceMatrices;
  readonly second: ReferenceMatrices;
}

/** Chooses the experts of a row, and their weights. */
export function routeReference(
  { experts, topK, logits: { stride, offset }, router }: ExpertsParams,
  { logits, routerBias }: Pick<ReferenceTensors, "logits" | "routerBias">,
  row: number,
): { readonly expert: number; readonly weight: number }[] {
  const own = Array.from({ length: experts }, (_, e) => logits[row * stride + offset + e]!);
  const highest = Math.max(...own);
  const sum = own.reduce((total, logit) => total + Math.exp(logit - highest), 0);
  const probabilities = own.map((logit) =>
    router.scores === "softmax" ? Math.exp(logit - highest) / sum : 1 / (1 + Math.exp(-logit))
  );
  const keys = probabilities.map((p, e) => p + (routerBias?.[e] ?? 0));
  const sign = router.prefersLast ? -1 : 1;
  const chosen = keys.map((_, e) => e)
    .sort((a, b) => keys[b]! - keys[a]! || sign * (a - b))
    .slice(0, topK);
  const mass = chosen.reduce((total, e) => total + probabilities[e]!, router.epsilon);
  return chosen.map((expert) => ({
    expert,
    weight: probabilities[expert]! / (router.normalizes ? mass : 1) * router.scale,
  }));
}

/** @returns `[numRows, hidden]`. */
export function expertsReference(
  params: ExpertsParams,
  tensors: ReferenceTensors,
  numRows: number,
): Float64Array {
  checkExperts(params);
  const { hidden, inner, x: { stride, offset }, first, second, activation } = params;
  const { step, gate, up } = findGateRows(params);
  const outputs = countFirstOutputs(params);
  const out = new Float64Array(numRows * hidden);
  for (let row = 0; row < numRows; row++) {
    const x = Array.from({ length: hidden }, (_, i) => tensors.x[row * stride + offset + i]!);
    for (const { expert, weight } of routeReference(params, tensors, row)) {
      const product = multiply(first, tensors.first, { expert, outputs, x });
      const between = Array.from(
        { length: inner },
        (_, i) =>
          activated(
            activation,
            product(i * step + gate),
            activation.gate ? product(i * step + up) : 0,
          ),
      );
      const last = multiply(second, tensors.second, { expert, outputs: hidden, x: between });
      for (let n = 0; n < hidden; n++) out[row * hidden + n]! += weight * last(n);
    }
  }
  return out;
}

function activated(
  { kind, alpha, gate: bounds }: ExpertsParams["activation"],
  gate: number,
  up: number,
): number {
  const g = Math.min(gate, bounds?.limit ?? Infinity);
  const value = kind === "silu" ? g / (1 + Math.exp(-alpha * g)) : activate(kind, g);
  if (bounds === undefined) return value;
  return value * (Math.max(-bounds.limit, Math.min(bounds.limit, up)) + bounds.beta);
}

/** Returns a function that computes output `n` of an expert's product with a row, including the bias. */
function multiply(
  { matrix }: ExpertProduct,
  { levels, scales, zeroPoints, weights, bias }: ReferenceMatrices,
  { expert, outputs, x }: {
    readonly expert: number;
    readonly outputs: number;
    readonly x: readonly number[];
  },
): (n: number) => number {
  const k = x.length;
  const levelAt = (bytes: Uint8Array, bits: number, rowBytes: number, row: number, i: number) => {
    const byte = bytes[row * rowBytes + Math.floor(i * bits / 8)]!;
    return bits === 8 ? byte : (byte >> (i % 2 * 4)) & 15;
  };
  const weightAt = (row: number, i: number): number => {
    if (matrix.kind === "rows") return weights![row * k + i]!;
    const { bits, blockSize } = matrix;
    const blocks = k / blockSize;
    const block = Math.floor(i / blockSize);
    const zero = zeroPoints
      ? levelAt(zeroPoints, bits, Math.ceil(blocks * bits / 8), row, block)
      : 2 ** (bits - 1);
    return (levelAt(levels!, bits, k * bits / 8, row, i) - zero) * scales![row * blocks + block]!;
  };
  return (n) => {
    const row = expert * outputs + n;
    let sum = bias?.[row] ?? 0;
    for (let i = 0; i < k; i++) sum += x[i]! * weightAt(row, i);
    return sum;
  };
}
