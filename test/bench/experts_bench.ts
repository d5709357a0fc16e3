/**
 * Measures a mixture of experts of gpt-oss-20b's size. On the CPU, Hearth's and ONNX Runtime's QMoE alternate on the
 * same weights, rows and threads. On a hardware GPU only Hearth's kernels are measured, in f32 and, if the card has
 * `shader-f16`, in f16: ONNX Runtime's graph is made in f32, for the CPU only.
 *
 *     deno task bench experts [rounds]
 *
 * @module
 */
import { type ExpertBuffers, Experts, ExpertsScratch } from "../../kernels/experts/experts.ts";
import type { ExpertSource } from "../../kernels/experts/experts_memory.ts";
import { SimdExperts } from "../../kernels/experts/experts_simd.ts";
import type { ExpertsParams } from "../../kernels/experts/experts_params.ts";
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import { countCores } from "../../src/device/cpu/runtime.ts";
import { loadNative, openSession, Tensor } from "../../src/device/ort/ort.ts";
import { createBuffer, type GpuContext, openDevice } from "../../src/gpu/device.ts";
import type { Elem } from "../../src/gpu/kernel.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { makeNode } from "../../src/graph/file/proto.ts";
import { buildModel, constant } from "../fixtures/graphs/onnx_builder.ts";
import { formatTable, median, time } from "./report.ts";

const DEFAULT_ROUNDS = 9;
const ROWS = [1, 8, 256];
const [EXPERTS, TOP_K, HIDDEN, INNER, BLOCK] = [32, 4, 2880, 2880, 32];

const MATRIX = { kind: "nbits", bits: 4, blockSize: BLOCK, hasZeroPoints: false } as const;
const PARAMS: ExpertsParams = {
  elem: "f32",
  ...{ experts: EXPERTS, topK: TOP_K, hidden: HIDDEN, inner: INNER },
  x: { stride: HIDDEN, offset: 0 },
  logits: { stride: EXPERTS, offset: 0 },
  router: {
    ...{ scores: "softmax", hasBias: false, normalizes: true, epsilon: 0, scale: 1 },
    prefersLast: true,
  },
  first: { matrix: MATRIX, hasBias: true },
  activation: {
    ...{ kind: "silu", alpha: 1.702 },
    gate: { order: "interleaved", beta: 1, limit: 7 },
  },
  second: { matrix: MATRIX, hasBias: true },
};

let seed = 1;
function next(): number {
  seed = (seed * 48271) % 2147483647;
  return seed / 2147483647 - 0.5;
}
const floats = (length: number, size: number) =>
  Float32Array.from({ length }, () => 2 * size * next());

/** Makes levels, scales and biases of one weight matrix for all experts. */
function makeMatrix(outputs: number, k: number) {
  const levels = new Uint8Array(EXPERTS * outputs * k / 2);
  const words = new Uint32Array(levels.buffer);
  for (let i = 0; i < words.length; i++) words[i] = (Math.imul(i, 2654435761) ^ (i << 7)) >>> 0;
  return {
    levels,
    scales: floats(EXPERTS * outputs * k / BLOCK, 0.01),
    bias: floats(EXPERTS * outputs, 0.1),
  };
}

type Matrix = ReturnType<typeof makeMatrix>;

/** Runs one mixture on this many rows. */
type Run = (numRows: number) => Promise<unknown> | void;

const first = makeMatrix(2 * INNER, HIDDEN);
const second = makeMatrix(HIDDEN, INNER);
const x = floats(Math.max(...ROWS) * HIDDEN, 1);
const logits = floats(Math.max(...ROWS) * EXPERTS, 3);

async function openTheirs(threads: number): Promise<Run> {
  await loadNative();
  const f32 = "float32";
  const constants = [
    constant("w1", [EXPERTS, 2 * INNER, HIDDEN / 2], first.levels),
    constant("s1", [EXPERTS, 2 * INNER, HIDDEN / BLOCK], first.scales),
    constant("b1", [EXPERTS, 2 * INNER], first.bias),
    constant("w2", [EXPERTS, HIDDEN, INNER / 2], second.levels),
    constant("s2", [EXPERTS, HIDDEN, INNER / BLOCK], second.scales),
    constant("b2", [EXPERTS, HIDDEN], second.bias),
  ];
  const node = makeNode("QMoE", ["x", "logits", "w1", "s1", "b1", "w2", "s2", "b2"], ["y"], {
    domain: "com.microsoft",
    attributes: {
      ...{ k: TOP_K, expert_weight_bits: 4, block_size: BLOCK, activation_type: "swiglu" },
      ...{ swiglu_fusion: 1, activation_alpha: { float: 1.702 }, activation_beta: { float: 1 } },
      ...{ swiglu_limit: { float: 7 }, normalize_routing_weights: 1 },
    },
  });
  const model = buildModel({
    nodes: [node],
    inputs: [["x", f32, ["rows", HIDDEN]], ["logits", f32, ["rows", EXPERTS]]],
    outputs: [["y", f32, ["rows", HIDDEN]]],
    initializers: constants,
  });
  const session = await openSession(model, { runtime: "native", threads });
  return (numRows) =>
    session.run({
      x: new Tensor("float32", x.subarray(0, numRows * HIDDEN), [numRows, HIDDEN]),
      logits: new Tensor("float32", logits.subarray(0, numRows * EXPERTS), [numRows, EXPERTS]),
    });
}

async function openOurs(numThreads: number): Promise<Run> {
  const getSource = ({ levels, ...others }: Matrix): ExpertSource => ({
    weights: (offset, into) =>
      Promise.resolve(into.set(levels.subarray(offset, offset + into.length))),
    ...others,
  });
  const layer = { params: PARAMS, first: getSource(first), second: getSource(second) };
  const experts = await SimdExperts.open(new KernelThreads(numThreads), [layer]);
  const out = new Float32Array(Math.max(...ROWS) * HIDDEN);
  return (numRows) => experts.run(0, { x, logits, out, numRows });
}

/** Opens Hearth's mixture on a GPU with this element type; each call waits for the device. */
async function openOnGpu(gpu: GpuContext, elem: Elem): Promise<Run> {
  const upload = (data: Float32Array | Uint8Array) => {
    const values = elem === "f16" && data instanceof Float32Array ? new Float16Array(data) : data;
    const buffer = createBuffer(gpu, {
      size: Math.ceil(values.byteLength / 16) * 16,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
    });
    gpu.device.queue.writeBuffer(buffer, 0, values as Uint8Array<ArrayBuffer>);
    return buffer;
  };
  const getBuffers = ({ levels, scales, bias }: Matrix): ExpertBuffers => ({
    weights: upload(levels),
    scales: upload(scales),
    bias: upload(bias),
  });
  const params = { ...PARAMS, elem };
  const kernels = new Experts(gpu, new ExpertsScratch(gpu, [params], Math.max(...ROWS)), params);
  const out = upload(new Float32Array(Math.max(...ROWS) * HIDDEN));
  const tensors = {
    ...{ x: upload(x), logits: upload(logits), out },
    ...{ first: getBuffers(first), second: getBuffers(second) },
  };
  const readback = await Readback.create(gpu, { maxBytes: 4 });
  return async (numRows) => {
    const encoder = gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    // Runs as many layers as a step has, since the layers of a step share one wait for the device.
    for (let layer = 0; layer < LAYERS; layer++) {
      kernels.encode(pass, tensors, { numRows, isFew: numRows <= 32 });
    }
    pass.end();
    await readback.read(encoder, [{ buffer: out, offset: 0, size: 4 }]);
  };
}

const LAYERS = 24;

async function measure(runs: readonly Run[], rounds: number, numRows: number): Promise<number[]> {
  const times = runs.map((): number[] => []);
  for (let round = -2; round < rounds; round++) {
    for (const [i, run] of runs.entries()) {
      const took = await time(async () => await run(numRows));
      if (round >= 0) times[i]!.push(took);
    }
  }
  return times.map(median);
}

if (import.meta.main) {
  const rounds = Number(Deno.args[0] ?? DEFAULT_ROUNDS);
  const cores = await countCores();
  const gpu = await openDevice({ allowFallback: false });
  const runs = gpu === undefined
    ? [await openTheirs(cores), await openOurs(cores)]
    : [await openOnGpu(gpu, "f32"), ...gpu.hasF16 ? [await openOnGpu(gpu, "f16")] : []];
  const rows: string[][] = [];
  for (const numRows of ROWS) {
    const [a, b = NaN] = await measure(runs, rounds, numRows);
    const cells = gpu === undefined
      ? [a!.toFixed(2), b.toFixed(2), (a! / b).toFixed(2)]
      : [a! / LAYERS, b / LAYERS].map((ms) => ms.toFixed(3));
    rows.push([String(numRows), ...cells]);
  }
  const header = gpu === undefined
    ? ["rows", "ONNX Runtime's QMoE, ms", "ours, ms", "times as fast"]
    : ["rows", "ours in f32, ms a layer", "in f16"];
  // deno-lint-ignore no-console -- a table is what a benchmark is run for
  console.log(gpu?.adapterInfo.description ?? `${cores} cores`, formatTable(header, rows));
  Deno.exit();
}
