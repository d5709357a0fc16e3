import assert from "node:assert/strict";
import {
  type AttentionShape,
  type AttentionTiling,
  chooseTiling,
} from "../../kernels/attention/attention_shape.ts";
import { PagedAttention, StepBuffer } from "../../kernels/attention/paged_attention.ts";
import { ReferenceAttention } from "./references/paged_attention_reference.ts";
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { type Elem, elemBytes } from "../../src/gpu/kernel.ts";
import { gpuTest, kernelTest, withLimits } from "../fixtures/engine/gpu.ts";
import {
  attendExactly,
  type CaseOptions,
  type CaseSequence,
  makeCase,
  type PagedCase,
} from "./paged_case.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { runAndRead, upload } from "./tensors.ts";

function makeParams({ shape }: PagedCase, options: CaseOptions) {
  return {
    scale: 1 / Math.sqrt(shape.headSize),
    softcap: options.softcap ?? 0,
    window: options.window ?? 0,
    hasSinks: options.hasSinks ?? false,
    hasSlopes: options.hasSlopes ?? false,
    queryStride: shape.heads * shape.headSize,
    queryOffset: 0,
  };
}

async function attendOnGpu(
  gpu: GpuContext,
  paged: PagedCase,
  options: CaseOptions,
  tiling?: AttentionTiling,
) {
  const { shape, step } = paged;
  const limits = {
    maxTokens: step.numTokens,
    maxSequences: step.sequences.length,
    maxBlocksPerSequence: step.maxBlocksPerSequence,
  };
  const stepBuffer = new StepBuffer(gpu, shape, limits, tiling);
  const attention = new PagedAttention(gpu, stepBuffer, makeParams(paged, options));
  const length = step.numTokens * shape.heads * shape.headSize;
  const out = createBuffer(gpu, {
    size: Math.max(16, length * elemBytes(shape.elem)),
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
  });
  const tensors = {
    q: upload(gpu, paged.q, shape.elem),
    kCache: upload(gpu, paged.kCache, shape.elem),
    vCache: upload(gpu, paged.vCache, shape.elem),
    sinks: options.hasSinks ? upload(gpu, paged.sinks, "f32") : undefined,
    slopes: options.hasSlopes ? upload(gpu, paged.slopes, "f32") : undefined,
    out,
  };
  stepBuffer.write(step);
  const result = await runAndRead(gpu, (pass) => attention.encode(pass, tensors), {
    buffer: out,
    length,
    elem: shape.elem,
  });
  for (const buffer of Object.values(tensors)) buffer?.destroy();
  stepBuffer.dispose();
  return result;
}

function attendByReference(paged: PagedCase, options: CaseOptions): Float32Array {
  const { shape, step } = paged;
  const sinks = options.hasSinks ? paged.sinks : undefined;
  const slopes = options.hasSlopes ? paged.slopes : undefined;
  const out = new Float32Array(step.numTokens * shape.heads * shape.headSize);
  const maxKeys = Math.max(...step.kvLengths);
  new ReferenceAttention(shape, makeParams(paged, options), maxKeys)
    .run(step, { ...paged, out, sinks, slopes });
  return out;
}

const TOLERANCE = { f32: { abs: 2e-5, rel: 1e-4 }, f16: { abs: 1e-3, rel: 2e-3 } };

/** Registers a test of the WebGPU kernel and, in f32, one of the reference. */
function attentionTest(
  name: string,
  shape: AttentionShape,
  sequences: readonly CaseSequence[],
  options: CaseOptions = {},
): void {
  let made: { readonly paged: PagedCase; readonly want: Float64Array } | undefined;
  const make = () => {
    if (made !== undefined) return made;
    const paged = makeCase(shape, sequences, options);
    return made = { paged, want: attendExactly(paged, 1 / Math.sqrt(shape.headSize), options) };
  };
  kernelTest(
    `PagedAttention.encode() equals attention in float64: ${name}, ${shape.elem}`,
    async (gpu) => {
      const { paged, want } = make();
      assertClose(await attendOnGpu(gpu, paged, options), want, TOLERANCE[shape.elem]);
    },
  );
  if (shape.elem === "f16") return;
  Deno.test(`ReferenceAttention.run() equals attention in float64: ${name}`, () => {
    const { paged, want } = make();
    assertClose(attendByReference(paged, options), want, { abs: 1e-6, rel: 1e-6 });
  });
}

const SHAPE: AttentionShape = { heads: 4, kvHeads: 2, headSize: 32, blockSize: 16, elem: "f32" };
const decodes = (...lengths: number[]) => lengths.map((keys) => ({ queries: 1, keys }));
/** One step with decodes at block edges, a prompt, and a later chunk of a prompt. */
const MIXED = [
  ...decodes(1, 15, 16, 17, 100),
  { queries: 40, keys: 40 },
  { queries: 2, keys: 33 },
  { queries: 21, keys: 70 },
];

for (const elem of ["f32", "f16"] as Elem[]) {
  for (const headSize of [8, 16, 32, 64, 80, 96, 128, 256]) {
    attentionTest(`heads of ${headSize}`, { ...SHAPE, headSize, elem }, MIXED);
  }
}
for (const group of [1, 3, 7, 8, 12]) {
  const shape = { ...SHAPE, heads: group * 2 };
  attentionTest(`groups of ${group} heads`, shape, [...decodes(1, 33, 200), MIXED[5]!, MIXED[7]!]);
}
attentionTest("groups of 8 heads of 256", { ...SHAPE, heads: 16, headSize: 256 }, MIXED);
attentionTest("contexts of up to 4,096 keys", SHAPE, [
  ...decodes(2, 1000, 4096),
  { queries: 30, keys: 1500 },
]);
attentionTest("one sequence split by keys", { ...SHAPE, kvHeads: 1 }, decodes(4096));
attentionTest("blocks of 5 tokens", { ...SHAPE, blockSize: 5 }, MIXED);
attentionTest("logits much larger than all others", SHAPE, MIXED, { hasOutliers: true });
for (const window of [1, 7, 32]) {
  attentionTest(`a window of ${window}`, SHAPE, [...MIXED, ...decodes(300)], { window });
}
attentionTest("a soft cap", SHAPE, MIXED, { softcap: 1.5 });
attentionTest("a soft cap and outliers", SHAPE, MIXED, { softcap: 30, hasOutliers: true });
attentionTest("sinks", SHAPE, MIXED, { hasSinks: true });
attentionTest("slopes", SHAPE, [...MIXED, ...decodes(1000)], { hasSlopes: true });
attentionTest("slopes, groups of 3 heads", { ...SHAPE, heads: 6 }, MIXED, { hasSlopes: true });
attentionTest("window, soft cap, sinks and slopes in f16", { ...SHAPE, elem: "f16" }, MIXED, {
  window: 20,
  softcap: 5,
  hasSinks: true,
  hasSlopes: true,
});
attentionTest("window, soft cap and sinks in f16", { ...SHAPE, elem: "f16" }, MIXED, {
  window: 20,
  softcap: 5,
  hasSinks: true,
});

/** The variants for graphics cards, run on any device, including decodes split by keys. */
const ON_CARDS: readonly Partial<AttentionShape>[] = [
  { headSize: 8 },
  { headSize: 12 },
  { headSize: 64, heads: 14, elem: "f16" },
  { headSize: 80, heads: 2 },
  { headSize: 128, heads: 6, elem: "f16" },
  { headSize: 256, heads: 16 },
];
for (const limits of ["adapter", "guaranteed"] as const) {
  for (const given of ON_CARDS) {
    const shape = { ...SHAPE, ...given };
    const { heads, headSize, elem } = shape;
    const test = async (gpu: GpuContext) => {
      const card = { ...gpu, isFallbackAdapter: false };
      const options = { hasSinks: true, hasSlopes: true, window: 600, softcap: 5 };
      const sequences = [...MIXED, ...decodes(129, 1000), { queries: 150, keys: 170 }];
      const paged = makeCase(shape, sequences, options);
      const want = attendExactly(paged, 1 / Math.sqrt(headSize), options);
      // With f16, cards add a few products in f16 before they continue in f32.
      const tolerance = elem === "f16" ? { abs: 2e-3, rel: 4e-3 } : TOLERANCE[elem];
      assertClose(await attendOnGpu(card, paged, options), want, tolerance);
    };
    const name = `${heads} heads of ${headSize} on a graphics card, ${elem}, ${limits} limits`;
    gpuTest(`PagedAttention.encode() equals attention in float64: ${name}`, test, { limits });
  }
}

/** Tilings that limits or shapes may require, each with a property that no other has. */
const TILINGS: Readonly<Record<string, Partial<AttentionTiling>>> = {
  "two keys of a tile per thread, and few threads per value": {
    decode: { rows: 2, threads: 64, threadsPerKey: 8, keysPerThread: 2, threadsPerValue: 8 },
    minSplitKeys: 16,
    targetWorkgroups: 64,
  },
  "one thread per key, and four keys per thread": {
    decode: { rows: 1, threads: 32, threadsPerKey: 1, keysPerThread: 4, threadsPerValue: 16 },
  },
  "eight rows of a tile per thread, keys in f32": {
    tile: { rows: 32, quads: 2, threadsPerRow: 16, keysPerThread: 2, isUnpacked: true },
    maxDecodedRows: 0,
  },
  "decodes of many rows": { maxDecodedRows: 1000 },
};
for (const [name, given] of Object.entries(TILINGS)) {
  kernelTest(`PagedAttention.encode() equals attention in float64: ${name}`, async (gpu) => {
    const tiling = { ...chooseTiling(gpu, SHAPE), ...given };
    const paged = makeCase(SHAPE, [...MIXED, ...decodes(300)], { window: 70 });
    const want = attendExactly(paged, 1 / Math.sqrt(32), { window: 70 });
    assertClose(await attendOnGpu(gpu, paged, { window: 70 }, tiling), want, TOLERANCE.f32);
  });
}

kernelTest(
  "PagedAttention.encode() combines two to ten parts of a decode split by keys",
  async (gpu) => {
    const tiling = { ...chooseTiling(gpu, SHAPE), minSplitKeys: 32, targetWorkgroups: 64 };
    const paged = makeCase(SHAPE, decodes(...Array.from({ length: 9 }, (_, i) => 32 * i + 60)));
    const want = attendExactly(paged, 1 / Math.sqrt(32), {});
    assertClose(await attendOnGpu(gpu, paged, {}, tiling), want, TOLERANCE.f32);
  },
);

kernelTest(
  "PagedAttention.encode() equals attention in float64 if workgroup memory has no room for a prefill tile",
  async (gpu) => {
    const small = withLimits(gpu, {
      maxComputeInvocationsPerWorkgroup: 256,
      maxComputeWorkgroupStorageSize: 1024,
    });
    const paged = makeCase(SHAPE, MIXED);
    const got = await attendOnGpu(small, paged, {});
    assertClose(got, attendExactly(paged, 1 / Math.sqrt(32), {}), TOLERANCE.f32);
  },
);

kernelTest("PagedAttention creates no device objects in a second step", (gpu) => {
  const stepBuffer = new StepBuffer(gpu, SHAPE, {
    maxTokens: 100,
    maxSequences: 10,
    maxBlocksPerSequence: 20,
  });
  const paged = makeCase(SHAPE, MIXED);
  const attention = new PagedAttention(gpu, stepBuffer, makeParams(paged, {}));
  const tensors = {
    q: upload(gpu, paged.q, "f32"),
    kCache: upload(gpu, paged.kCache, "f32"),
    vCache: upload(gpu, paged.vCache, "f32"),
    out: upload(gpu, paged.q, "f32"),
  };
  const run = () => {
    stepBuffer.write(paged.step);
    const encoder = gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    attention.encode(pass, tensors);
    pass.end();
    gpu.device.queue.submit([encoder.finish()]);
  };
  run();
  const before = { ...gpu.counts };
  run();
  assert.deepEqual(gpu.counts, before);
});

kernelTest("StepBuffer refuses head sizes that the kernels do not support", (gpu) => {
  const limits = { maxTokens: 1, maxSequences: 1, maxBlocksPerSequence: 1 };
  for (const headSize of [4, 10, 260]) {
    assert.throws(() => new StepBuffer(gpu, { ...SHAPE, headSize }, limits), RangeError);
  }
});
