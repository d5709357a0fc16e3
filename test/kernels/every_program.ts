/**
 * Every kind of program that Hearth creates on devices: all kernels, in the variants for cards and software adapters,
 * and the steps of decoders.
 *
 * @module
 */
import { Alignment } from "../../kernels/alignment/alignment.ts";
import { ACTIVATIONS } from "../../kernels/common/activation.ts";
import type { AttentionShape } from "../../kernels/attention/attention_shape.ts";
import { CausalConv, LinearAttentionKernel } from "../../kernels/states/recurrences.ts";
import { CompositeAlpha, ResizeNormalize } from "../../kernels/images/image_kernels.ts";
import { Experts, ExpertsScratch } from "../../kernels/experts/experts.ts";
import { KvWrite } from "../../kernels/attention/kv_write.ts";
import { LogMel } from "../../kernels/log_mel/log_mel.ts";
import { readLogMelSpec } from "../../kernels/log_mel/log_mel_spec.ts";
import { Matvec } from "../../kernels/matmul/matvec.ts";
import {
  chooseMatvecTiling,
  type MatrixFormat,
  type MatvecParams,
} from "../../kernels/matmul/matvec_params.ts";
import { Norm, Pointwise, TakeRows } from "../../kernels/rows/row_kernels.ts";
import { PackedAttention, PackedBuffer } from "../../kernels/attention/packed_attention.ts";
import { PagedAttention, StepBuffer } from "../../kernels/attention/paged_attention.ts";
import { SampleKernel } from "../../kernels/sample/sample.ts";
import { StateStepBuffer } from "../../kernels/states/state_step.ts";
import { TokenRules } from "../../kernels/sample/token_rules.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import type { Elem } from "../../src/gpu/kernel.ts";
import { type RecordedProgram, recordGpu } from "../fixtures/engine/recording_gpu.ts";
import { CASES as EXPERTS } from "./experts_case.ts";

/** Numbers of rows that cover every variant of a product. */
const ROW_COUNTS = [1, 3, 8, 20, 100, 2000];
/** Head sizes of small models, most models and the largest. 12 is divisible by 4, but not by 8. */
const HEAD_SIZES = [12, 64, 128, 256];
const RMS = { kind: "rms", epsilon: 1e-6, hasBeta: false } as const;
const LAYER = { kind: "layer", epsilon: 1e-6, hasBeta: true } as const;
const MATRICES: readonly MatrixFormat[] = [
  { kind: "rows" },
  { kind: "columns" },
  { kind: "nbits", bits: 4, blockSize: 32, hasZeroPoints: false, allowsInt8: true },
  { kind: "nbits", bits: 4, blockSize: 64, hasZeroPoints: true, allowsInt8: true },
  { kind: "nbits", bits: 4, blockSize: 16, hasZeroPoints: false },
  { kind: "nbits", bits: 4, blockSize: 32, hasZeroPoints: true },
  { kind: "nbits", bits: 4, blockSize: 64, hasZeroPoints: true, hasFloatZeroPoints: true },
  { kind: "nbits", bits: 8, blockSize: 32, hasZeroPoints: false },
];
const PLAIN: Omit<MatvecParams, "elem" | "weights"> = {
  ...{ k: 384, n: 84, matrixRows: 84, x: { stride: 400, offset: 8 } },
  ...{ hasBias: false, activation: "none", scale: 1, softcap: 0, hasResidual: false },
};
const GATE = { matrixRows: 168, gate: { gateRow: 84, upRow: 0 }, activation: "silu" } as const;
const PRODUCTS: readonly Partial<MatvecParams>[] = [
  {},
  { ...GATE, norm: RMS, hasBias: true, hasResidual: true },
  { norm: LAYER, activation: "gelu", softcap: 3 },
  { norm: RMS, sum: { epsilon: 1e-5 } },
  // 83 is not divisible by four: the last load of four columns goes beyond the outputs.
  { n: 83, matrixRows: 83 },
  { ...GATE, sum: { epsilon: 1e-5 } },
];

/** Collects each different program once, for cards and software adapters, in f32 and f16. */
export function collectPrograms(): RecordedProgram[] {
  const all = new Map<string, RecordedProgram>();
  for (const isFallbackAdapter of [true, false]) {
    for (const workgroupBytes of [16_384, 32_768]) {
      const { gpu, programs } = recordGpu({ isFallbackAdapter, hasF16: true, workgroupBytes });
      openKernels(gpu);
      for (const program of programs) all.set(JSON.stringify(program), program);
    }
  }
  return [...all.values()];
}

function openKernels(gpu: GpuContext): void {
  new CompositeAlpha(gpu);
  new ResizeNormalize(gpu);
  new TakeRows(gpu, { rowBytes: 64, tableRows: 9 });
  for (const elem of ["f32", "f16"] as const) {
    openProducts(gpu, elem);
    openRowKernels(gpu, elem);
    openAttentions(gpu, elem);
    openStates(gpu, elem);
    openExperts(gpu, elem);
    openHeads(gpu, elem);
  }
}

function openProducts(gpu: GpuContext, elem: Elem): void {
  const buffer = gpu.device.createBuffer({ size: 2 ** 20, usage: GPUBufferUsage.STORAGE });
  const tensors = { x: buffer, weights: buffer, out: buffer };
  for (const weights of MATRICES) {
    for (const some of PRODUCTS) {
      for (const hasTiles of [false, true]) {
        const params: MatvecParams = { ...PLAIN, elem, weights, ...some };
        const kernel = new Matvec(gpu, params, chooseMatvecTiling(gpu, params, hasTiles));
        for (const rows of ROW_COUNTS) kernel.encode(gpu.commands, tensors, rows);
      }
    }
  }
}

function openRowKernels(gpu: GpuContext, elem: Elem): void {
  const x = { stride: 72, offset: 4 };
  for (const norm of [RMS, LAYER]) {
    new Norm(gpu, { ...{ elem, k: 64, heads: 1, x, norm }, hasResidual: norm === RMS });
  }
  for (const from of ["f32", "f16"] as const) {
    for (const activation of ACTIVATIONS) {
      const operation = from === elem ? "multiply" : "none";
      const rows = { width: 64, a: x, b: x };
      new Pointwise(gpu, { ...rows, elem, from, operation, activation, scale: 1 });
    }
  }
}

function openAttentions(gpu: GpuContext, elem: Elem): void {
  const limits = { maxTokens: 64, maxSequences: 4, maxBlocksPerSequence: 8 };
  for (const headSize of HEAD_SIZES) {
    for (const isQuantized of headSize === 12 ? [false] : [false, true]) {
      const shape = { ...{ heads: 4, kvHeads: 2, headSize, elem }, blockSize: 16, isQuantized };
      const step = new StepBuffer(gpu, shape, limits);
      openPaged(gpu, step);
    }
    const heads = { heads: 4, kvHeads: 2, headSize, elem };
    const batch = new PackedBuffer(gpu, heads, { maxRows: 64, maxSequences: 4 });
    const [q, k, v] = [0, 4, 6].map((head) => ({ stride: 8 * headSize, offset: head * headSize }));
    for (const window of [0, 5]) {
      const params = { shape: heads, scale: 0.1, softcap: window, window };
      new PackedAttention(gpu, batch, { ...params, q: q!, k: k!, v: v! });
    }
  }
}

function openPaged(gpu: GpuContext, step: StepBuffer): void {
  const { shape } = step;
  const { headSize } = shape as AttentionShape;
  const stride = 8 * headSize;
  const rows = {
    q: { stride, offset: 0 },
    k: { stride, offset: 4 * headSize },
    v: { stride, offset: 6 * headSize },
  };
  const norms = { epsilon: 1e-6, ofQueries: true, ofKeys: true };
  const isWhole = headSize % 16 === 0;
  const rotaries = isWhole
    ? [headSize, 6].flatMap((size) =>
      [true, false].map((isInterleaved) => ({ size, isInterleaved }))
    )
    : [];
  for (const rotary of [undefined, ...rotaries]) {
    new KvWrite(gpu, step, { ...rows, rotary });
    if (isWhole) new KvWrite(gpu, step, { ...rows, rotary, norms });
    if (isWhole) new KvWrite(gpu, step, { ...rows, rotary, norms: { ...norms, ofRows: true } });
  }
  for (const softcap of [0, 2]) {
    const hasMore = softcap > 0;
    new PagedAttention(gpu, step, {
      ...{ scale: 0.1, softcap, window: hasMore ? 9 : 0, hasSinks: hasMore, hasSlopes: hasMore },
      ...{ queryStride: stride, queryOffset: 0 },
    });
  }
}

function openStates(gpu: GpuContext, elem: Elem): void {
  const step = new StateStepBuffer(gpu, 4);
  const conv = { elem, channels: 24, taps: 4, stride: 40, offset: 8 };
  new CausalConv(gpu, step, conv);
  new CausalConv(gpu, step, { ...conv, activation: "silu" });
  const rows = { stride: 256, offset: 0 };
  const sizes = { heads: 4, queryHeads: 2, keyHeads: 2, keyDim: 32, valueDim: 16 };
  for (const decay of [undefined, "factor", "logarithm"] as const) {
    for (const rates of [0, 1, 4]) {
      new LinearAttentionKernel(gpu, step, {
        ...{ elem, ...sizes, scale: 0.2, decay, decaysRows: rates === 4, rates },
        ...{ q: rows, k: rows, v: rows, decays: rows, betas: rows },
      });
    }
  }
}

function openExperts(gpu: GpuContext, elem: Elem): void {
  const all = Object.values(EXPERTS).map((params) => ({ ...params, elem }));
  const scratch = new ExpertsScratch(gpu, all, 64);
  for (const params of all) new Experts(gpu, scratch, params);
}

function openHeads(gpu: GpuContext, elem: Elem): void {
  new SampleKernel(gpu, { vocabSize: 1000, rowStride: 1000, elem, maxRows: 4 });
  new TokenRules(gpu, {
    ...{ vocabSize: 100, endToken: 50, timestampsStart: 60, plainTokens: new Uint32Array(4) },
    ...{ elem, maxRows: 4 },
  });
  new LogMel(gpu, { spec: readLogMelSpec({}), elem, maxRows: 2, maxRecordings: 2 });
  const shape = { heads: 4, kvHeads: 4, headSize: 64, elem, blockSize: 16 };
  const q = { stride: 256, offset: 0 };
  const layer = { shape, q, scale: 0.125, heads: [0, 2] };
  new Alignment(gpu, [layer], { maxTokens: 8, maxKeys: 64 });
}
