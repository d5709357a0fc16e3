/**
 * Mixtures of experts with random weights, for the tests of their kernels.
 *
 * @module
 */
import {
  countFirstOutputs,
  type ExpertMatrix,
  type ExpertsParams,
} from "../../kernels/experts/experts_params.ts";
import { makeNormal } from "./exact_sampling.ts";
import type { ReferenceMatrices, ReferenceTensors } from "./references/experts_reference.ts";

const SWIGLU = {
  kind: "silu",
  alpha: 1,
  gate: { order: "interleaved", beta: 0, limit: Infinity },
} as const;
const GPT_OSS = {
  kind: "silu",
  alpha: 1.702,
  gate: { order: "interleaved", beta: 1, limit: 7 },
} as const;
const SOFTMAX = {
  ...{ scores: "softmax", hasBias: false, normalizes: true, epsilon: 0, scale: 1 } as const,
  prefersLast: true,
} as const;

export function nbits(bits: 4 | 8, blockSize: number, hasZeroPoints = false): ExpertMatrix {
  return { kind: "nbits", bits, blockSize, hasZeroPoints };
}

const BASE: ExpertsParams = {
  elem: "f32",
  ...{ experts: 6, topK: 2, hidden: 96, inner: 64 },
  x: { stride: 96, offset: 0 },
  logits: { stride: 6, offset: 0 },
  router: SOFTMAX,
  first: { matrix: nbits(4, 32), hasBias: true },
  activation: GPT_OSS,
  second: { matrix: nbits(4, 32), hasBias: true },
};

const both = (matrix: ExpertMatrix, hasBias = false) => ({
  first: { matrix, hasBias },
  second: { matrix, hasBias },
});

export const CASES: Readonly<Record<string, ExpertsParams>> = {
  "4 bits, bias, clamped swiglu (gpt-oss)": BASE,
  "4 bits with zero points, sigmoid router with a bias (LFM2-MoE)": {
    ...BASE,
    ...both(nbits(4, 32, true)),
    activation: SWIGLU,
    router: {
      ...{ scores: "sigmoid", hasBias: true, normalizes: true, epsilon: 1e-6, scale: 1.5 } as const,
      prefersLast: false,
    },
  },
  "8 bits with zero points, bias": { ...BASE, ...both(nbits(8, 32, true), true) },
  "8 bits, a scale for each row, many experts (Qwen3-MoE)": {
    ...BASE,
    ...{ experts: 130, topK: 8, logits: { stride: 140, offset: 3 } },
    first: { matrix: nbits(8, 96), hasBias: false },
    second: { matrix: nbits(8, 64), hasBias: false },
    activation: { ...SWIGLU, gate: { ...SWIGLU.gate, order: "halves" } },
  },
  "4 bits in blocks of 16, rows with gaps between them": {
    ...BASE,
    ...both(nbits(4, 16), true),
    x: { stride: 104, offset: 4 },
  },
  "weights that are not quantised, bias": { ...BASE, ...both({ kind: "rows" }, true) },
  "weights that are not quantised, no gate, shares not normalised": {
    ...BASE,
    ...both({ kind: "rows" }),
    router: { ...SOFTMAX, normalizes: false },
    activation: { kind: "gelu_tanh", alpha: 1 },
  },
  "4 bits, ReLU, one expert": {
    ...BASE,
    topK: 1,
    activation: { kind: "relu", alpha: 1 },
  },
};

/** Makes random tensors whose numbers f16 represents exactly. */
export function makeTensors(params: ExpertsParams, numRows: number, seed = 3): ReferenceTensors {
  const normal = makeNormal(seed);
  const half = (length: number, size: number) =>
    Float32Array.from(new Float16Array(length).map(() => normal() * size));
  const { experts, hidden, inner, x, logits, router, first, second } = params;
  const matrices = (
    { matrix, hasBias }: ExpertsParams["first"],
    outputs: number,
    k: number,
  ): ReferenceMatrices => {
    const rows = experts * outputs;
    const bias = hasBias ? half(rows, 1) : undefined;
    if (matrix.kind === "rows") return { weights: half(rows * k, 0.15), bias };
    const { bits, blockSize, hasZeroPoints } = matrix;
    const bytes = (length: number) =>
      Uint8Array.from({ length }, () => Math.floor(Math.abs(normal()) * 1e4));
    const blocks = k / blockSize;
    return {
      levels: bytes(rows * k * bits / 8),
      scales: half(rows * blocks, bits === 4 ? 0.03 : 0.002),
      zeroPoints: hasZeroPoints ? bytes(rows * Math.ceil(blocks * bits / 8)) : undefined,
      bias,
    };
  };
  return {
    x: half(numRows * x.stride, 1).map((value, i) => i % 41 === 0 ? value * 8 : value),
    logits: half(numRows * logits.stride, 2),
    routerBias: router.hasBias ? half(experts, 0.2) : undefined,
    first: matrices(first, countFirstOutputs(params), hidden),
    second: matrices(second, hidden, inner),
  };
}
