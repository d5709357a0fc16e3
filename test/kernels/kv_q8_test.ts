/** Keys and values in 8 bits: the kernels store and read each head of a token as rounded values. */
import assert from "node:assert/strict";
import { type AttentionShape, cachedHeadBytes } from "../../kernels/attention/attention_shape.ts";
import { joinAngles, KvWrite, type KvWriteParams } from "../../kernels/attention/kv_write.ts";
import { ReferenceKvWrite, roundTo8Bits } from "./references/kv_write_reference.ts";
import { PagedAttention, StepBuffer } from "../../kernels/attention/paged_attention.ts";
import { ReferenceAttention } from "./references/paged_attention_reference.ts";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { type Elem, elemBytes } from "../../src/gpu/kernel.ts";
import { kernelTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "./exact_sampling.ts";
import { makeStep } from "./paged_case.ts";
import { runAndRead, upload } from "./tensors.ts";

const SHAPE = { heads: 4, kvHeads: 2, blockSize: 16 };
/** Decodes, a prompt across block edges, and chunks that continue a prompt. */
const SEQUENCES = [
  { queries: 1, keys: 1 },
  { queries: 40, keys: 40 },
  { queries: 1, keys: 17 },
  { queries: 1, keys: 300 },
  { queries: 2, keys: 33 },
  { queries: 21, keys: 70 },
];
const MAX_POSITIONS = 300;

/** Makes the step that writes the tokens before those of `step`. */
function makeHistory(step: PackedStep): PackedStep {
  const queryStarts = new Int32Array(step.queryStarts.length);
  const positions: number[] = [];
  const kvLengths = step.kvLengths.map((length, s) => {
    const numOld = length - (step.queryStarts[s + 1]! - step.queryStarts[s]!);
    for (let i = 0; i < numOld; i++) positions.push(i);
    queryStarts[s + 1] = positions.length;
    return numOld;
  });
  const numTokens = positions.length;
  return { ...step, numTokens, positions: Int32Array.from(positions), queryStarts, kvLengths };
}

/** Makes rows whose magnitude changes every eight elements, between 1 and 5. */
function makeRows(step: PackedStep, width: number, elem: Elem, seed: number): Float32Array {
  const normal = makeNormal(seed);
  const round = elem === "f16" ? Math.f16round : Math.fround;
  return new Float32Array(step.numTokens * width).map((_, i) =>
    round(normal() * (1 + Math.floor(i / 8) % 5))
  );
}

function setUp(shape: AttentionShape, isRotated: boolean) {
  const { heads, kvHeads, headSize, blockSize } = shape;
  const stride = (heads + 2 * kvHeads) * headSize;
  const rotary = isRotated ? { size: headSize, isInterleaved: false } : undefined;
  const write: KvWriteParams = {
    rotary,
    q: { stride, offset: 0 },
    k: { stride, offset: heads * headSize },
    v: { stride, offset: (heads + kvHeads) * headSize },
  };
  const angles = Array.from({ length: MAX_POSITIONS * headSize / 2 }, (_, i) => i * 0.37);
  const tables = {
    cos: Float32Array.from(angles, Math.cos),
    sin: Float32Array.from(angles, Math.sin),
  };
  const attend = {
    scale: 0.3 / Math.sqrt(headSize),
    ...{ softcap: 0, window: 0, hasSinks: false, hasSlopes: false },
    queryStride: isRotated ? heads * headSize : stride,
    queryOffset: 0,
  };
  const { step, numBlocks } = makeStep(SEQUENCES, blockSize);
  const steps = [makeHistory(step), step];
  const rows = steps.map((each, i) => makeRows(each, stride, shape.elem, i + 1));
  return { write, rotary, tables, attend, steps, rows, numBlocks };
}

type Case = ReturnType<typeof setUp>;

function runReference(shape: AttentionShape, { write, tables, attend, steps, rows, ...own }: Case) {
  const { heads, kvHeads, headSize, blockSize } = shape;
  const kCache = new Float32Array(own.numBlocks * kvHeads * blockSize * headSize).fill(NaN);
  const vCache = kCache.slice();
  const out = new Float32Array(steps[1]!.numTokens * heads * headSize);
  steps.forEach((step, i) => {
    const q = rows[i]!;
    const qOut = new Float32Array(step.numTokens * heads * headSize);
    new ReferenceKvWrite(shape, write).run(step, {
      ...{ q, k: q, v: q, kCache, vCache, qOut },
      rotary: own.rotary && tables,
    });
    if (i === 0) return;
    new ReferenceAttention(shape, attend, MAX_POSITIONS)
      .run(step, { q: own.rotary ? qOut : q, kCache, vCache, out });
  });
  return out;
}

async function runKernels(gpu: GpuContext, shape: AttentionShape, own: Case) {
  const { heads, kvHeads, headSize, blockSize, elem } = shape;
  const most = Math.max(...own.steps.map(({ numTokens }) => numTokens));
  const step = new StepBuffer(gpu, shape, {
    maxTokens: most,
    maxSequences: SEQUENCES.length,
    maxBlocksPerSequence: own.steps[1]!.maxBlocksPerSequence,
  });
  const write = new KvWrite(gpu, step, own.write);
  const attend = new PagedAttention(gpu, step, own.attend);
  const make = (size: number) =>
    createBuffer(gpu, { size, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC });
  const cacheBytes = own.numBlocks * kvHeads * blockSize * cachedHeadBytes(shape);
  const [kCache, vCache] = [make(cacheBytes), make(cacheBytes)];
  const length = own.steps[1]!.numTokens * heads * headSize;
  const [out, qOut] = [
    make(length * elemBytes(elem)),
    make(most * heads * headSize * elemBytes(elem)),
  ];
  const angles = own.rotary && upload(gpu, joinAngles(own.tables, headSize / 2), "f32");
  let got = new Float32Array();
  for (const [i, each] of own.steps.entries()) {
    const q = upload(gpu, own.rows[i]!, elem);
    step.write(each);
    got = await runAndRead(gpu, (pass) => {
      write.encode(pass, { q, k: q, v: q, kCache, vCache, angles, qOut });
      if (i === 1) attend.encode(pass, { q: own.rotary ? qOut : q, kCache, vCache, out });
    }, { buffer: out, length, elem }) as Float32Array<ArrayBuffer>;
  }
  step.dispose();
  return got;
}

/** Computes the root mean square of the differences. */
function distance(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < b.length; i++) sum += (a[i]! - b[i]!) ** 2;
  return Math.sqrt(sum / b.length);
}

/**
 * Asserts that 8-bit keys and values give the reference's results, with a tolerance that is small compared to the
 * effect of rounding.
 */
async function assertRounded(gpu: GpuContext, shape: AttentionShape, isRotated: boolean) {
  const own = setUp(shape, isRotated);
  const exact = runReference(shape, own);
  const want = runReference({ ...shape, isQuantized: true }, own);
  const got = await runKernels(gpu, { ...shape, isQuantized: true }, own);
  const rounding = distance(want, exact);
  assert(rounding > 1e-3 && rounding < 0.06, `rounding to 8 bits changes results by ${rounding}`);
  // A value close to the middle between two multiples of 1/127 may be rounded either way. f16 adds errors, and cards
  // may round the scale, which is packed as f16, up or down.
  const isClose = shape.elem === "f32" && !isRotated && gpu.isFallbackAdapter;
  const limit = isClose ? 0.05 : 0.25;
  assert(distance(got, want) < limit * rounding, `${distance(got, want)} of ${rounding}`);
}

for (const elem of ["f32", "f16"] as const) {
  for (const headSize of [8, 32, 64, 128, 256]) {
    for (const isRotated of [false, true]) {
      const name = `heads of ${headSize}, ${elem}${isRotated ? ", rotated" : ""}`;
      kernelTest(
        `KvWrite and PagedAttention store and read keys and values in 8 bits: ${name}`,
        (gpu) => assertRounded(gpu, { ...SHAPE, headSize, elem }, isRotated),
      );
    }
  }
}

kernelTest("KvWrite stores a value beyond the range of f16 as the largest of f16", async (gpu) => {
  const shape = { ...SHAPE, headSize: 32, elem: "f32", isQuantized: true } as const;
  const own = setUp(shape, false);
  // The first sequence's only token sees no other value.
  for (const rows of own.rows) rows[own.write.v.offset + 3] = -1e6;
  const got = await runKernels(gpu, shape, own);
  assert.equal(got[3], -65_504);
  assert(distance(got, runReference(shape, own)) < 1);
});

for (const [headSize, elem] of [[8, "f32"], [64, "f16"], [128, "f32"]] as const) {
  kernelTest(
    `PagedAttention stays within the tolerance when it also rounds queries, as on a graphics card: heads of ${headSize}, ${elem}`,
    (gpu) =>
      assertRounded({ ...gpu, isFallbackAdapter: false }, { ...SHAPE, headSize, elem }, false),
  );
}

Deno.test("roundTo8Bits() keeps zeros and the largest magnitude, with errors of at most half of 1/127 of it", () => {
  const head = Float32Array.of(0, -3, 1.5, 0.01, 2.999);
  const before = head.slice();
  roundTo8Bits(head);
  assert.equal(head[0], 0);
  assert.equal(head[1], -3);
  head.forEach((value, i) => assert(Math.abs(value - before[i]!) <= 3 / 127 / 2 + 1e-6));
  const zeros = new Float32Array(4);
  roundTo8Bits(zeros);
  assert.deepEqual([...zeros], [0, 0, 0, 0]);
});

Deno.test("cachedHeadBytes() of a head in 8 bits is about half of that in f16", () => {
  const head = { headSize: 128, elem: "f16" } as const;
  assert.deepEqual([cachedHeadBytes(head), cachedHeadBytes({ ...head, isQuantized: true })], [
    256,
    132,
  ]);
});
