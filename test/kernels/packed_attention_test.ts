import assert from "node:assert/strict";
import type { HeadShape } from "../../kernels/attention/attention_shape.ts";
import {
  numQueryRows,
  PackedAttention,
  type PackedBounds,
  PackedBuffer,
  type PackedParams,
  selfBounds,
} from "../../kernels/attention/packed_attention.ts";
import { attendPacked } from "./references/packed_attention_reference.ts";
import { SimdPackedAttention } from "../../kernels/attention/packed_attention_simd.ts";
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { elemBytes } from "../../src/gpu/kernel.ts";
import { gpuTest, kernelTest, withLimits } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "./exact_sampling.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { runAndRead, upload } from "./tensors.ts";

const SHAPE: HeadShape = { heads: 4, kvHeads: 2, headSize: 32, elem: "f32" };
/** A mix of single tokens, lengths close to that of a tile, and long ones. */
const UNEVEN = selfBounds([1, 15, 40, 16, 1, 17, 130, 33]);
const TOLERANCE = { f32: { abs: 2e-5, rel: 1e-4 }, f16: { abs: 1e-3, rel: 2e-3 } };
/** Unused rows after the last sequence. */
const NUM_SPARE_ROWS = 5;

interface Case {
  readonly bounds: PackedBounds;
  readonly params: PackedParams;
  readonly isPacked: boolean;
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

interface CaseOptions {
  readonly softcap?: number;
  readonly window?: number;
  /** Queries, keys and values in one tensor. */
  readonly isPacked?: boolean;
  readonly hasOutliers?: boolean;
}

/** Makes tensors with NaN in every row that belongs to no sequence. */
function makeCase(shape: HeadShape, bounds: PackedBounds, options: CaseOptions): Case {
  const { softcap = 0, window = 0, isPacked = false, hasOutliers = false } = options;
  const { heads, kvHeads, headSize, elem } = shape;
  const [query, key] = [heads * headSize, kvHeads * headSize];
  const layouts = isPacked
    ? [[query + 2 * key, 0], [query + 2 * key, query], [query + 2 * key, query + key]] as const
    : [[query, 0], [key, 0], [key, 0]] as const;
  const [q, k, v] = layouts.map(([stride, offset]) => ({ stride, offset }));
  const normal = makeNormal(5);
  const next = () => {
    const value = normal();
    const scaled = hasOutliers && value > 2.5 ? value * 100 : value;
    return elem === "f16" ? new Float16Array([scaled])[0]! : scaled;
  };
  const keyRows = new Set<number>();
  for (let s = 0; s < bounds.numSequences; s++) {
    for (let row = 0; row < bounds.keyLengths[s]!; row++) keyRows.add(bounds.keyStarts[s]! + row);
  }
  const numKeyRows = Math.max(...keyRows) + 1 + NUM_SPARE_ROWS;
  const numQueries = numQueryRows(bounds);
  const fill = (width: number, numRows: number, isUsed: (row: number) => boolean) =>
    Float32Array.from(
      { length: numRows * width },
      (_, i) => isUsed(Math.floor(i / width)) ? next() : NaN,
    );
  const queries = fill(
    q!.stride,
    isPacked ? numKeyRows : numQueries + NUM_SPARE_ROWS,
    (row) => row < numQueries,
  );
  const isKey = (row: number) => keyRows.has(row);
  return {
    bounds,
    params: { shape, q: q!, k: k!, v: v!, scale: 1 / Math.sqrt(headSize), softcap, window },
    isPacked,
    q: queries,
    k: isPacked ? queries : fill(k!.stride, numKeyRows, isKey),
    v: isPacked ? queries : fill(v!.stride, numKeyRows, isKey),
  };
}

function attendExactly({ bounds, params, q, k, v }: Case): Float32Array {
  const { heads, headSize } = params.shape;
  const out = new Float32Array(numQueryRows(bounds) * heads * headSize);
  attendPacked(bounds, { q, k, v, out }, params);
  return out;
}

function attendWithSimd({ bounds, params, isPacked, q, k, v }: Case): Float32Array {
  const simd = new SimdPackedAttention([{ ...params, isPacked }]);
  // A first batch of NaN, larger than this one: none of it may appear in the result.
  const larger = selfBounds([400]);
  simd.begin(larger);
  for (const input of Object.values(simd.inputs(0))) input.fill(NaN);
  simd.run(0);

  simd.begin(bounds);
  const inputs = simd.inputs(0);
  inputs.q.set(q.subarray(0, inputs.q.length));
  if (!isPacked) inputs.k.set(k.subarray(0, inputs.k.length));
  if (!isPacked) inputs.v.set(v.subarray(0, inputs.v.length));
  return simd.run(0);
}

async function attendOnGpu(gpu: GpuContext, { bounds, params, isPacked, ...arrays }: Case) {
  const { shape } = params;
  const numRows = numQueryRows(bounds);
  const batch = new PackedBuffer(gpu, shape, {
    maxRows: numRows,
    maxSequences: bounds.numSequences,
  });
  const attention = new PackedAttention(gpu, batch, params);
  const length = numRows * shape.heads * shape.headSize;
  const out = createBuffer(gpu, {
    size: Math.max(16, length * elemBytes(shape.elem)),
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
  });
  const q = upload(gpu, arrays.q, shape.elem);
  const tensors = {
    q,
    k: isPacked ? q : upload(gpu, arrays.k, shape.elem),
    v: isPacked ? q : upload(gpu, arrays.v, shape.elem),
    out,
  };
  batch.write(bounds);
  const result = await runAndRead(gpu, (pass) => attention.encode(pass, tensors), {
    buffer: out,
    length,
    elem: shape.elem,
  });
  for (const buffer of new Set(Object.values(tensors))) buffer.destroy();
  batch.dispose();
  return result;
}

/** Registers a test of the WebGPU kernel and, in f32, one of the SIMD kernel. */
function attentionTest(
  name: string,
  shape: HeadShape,
  bounds: PackedBounds,
  options: CaseOptions = {},
): void {
  let made: { readonly given: Case; readonly want: Float32Array } | undefined;
  const make = () => {
    if (made !== undefined) return made;
    const given = makeCase(shape, bounds, options);
    return made = { given, want: attendExactly(given) };
  };
  kernelTest(
    `PackedAttention.encode() equals attention in float64: ${name}, ${shape.elem}`,
    async (gpu) => {
      const { given, want } = make();
      assertClose(await attendOnGpu(gpu, given), want, TOLERANCE[shape.elem]);
    },
  );
  if (shape.elem === "f16") return;
  Deno.test(`SimdPackedAttention.run() equals attention in float64: ${name}`, () => {
    const { given, want } = make();
    // A float32 keeps three decimals of logits in the thousands.
    const tolerance = options.hasOutliers ? { abs: 1e-4, rel: 1e-3 } : { abs: 1e-5, rel: 1e-5 };
    assertClose(attendWithSimd(given), want, tolerance);
  });
}

for (const headSize of [8, 12, 32, 64, 96, 128, 256]) {
  attentionTest(`heads of ${headSize}`, { ...SHAPE, headSize }, UNEVEN);
}
for (const headSize of [32, 64]) {
  attentionTest(`heads of ${headSize}`, { ...SHAPE, headSize, elem: "f16" }, UNEVEN);
}
for (const group of [1, 3, 8]) {
  attentionTest(`groups of ${group} heads`, { ...SHAPE, heads: group * 2 }, UNEVEN);
}
attentionTest("one token", SHAPE, selfBounds([1]));
attentionTest("one long sequence", SHAPE, selfBounds([700]));
attentionTest("queries, keys and values in one tensor", SHAPE, UNEVEN, { isPacked: true });
attentionTest("logits much larger than all others", SHAPE, UNEVEN, { hasOutliers: true });
for (const window of [1, 7, 64]) {
  attentionTest(`a window of ${window}`, SHAPE, selfBounds([1, 40, 300]), { window });
}
attentionTest("a window of 7 and one head", { ...SHAPE, heads: 1, kvHeads: 1 }, UNEVEN, {
  window: 7,
});
attentionTest("a soft cap", SHAPE, UNEVEN, { softcap: 1.5 });
attentionTest("everything at once in f16", { ...SHAPE, elem: "f16" }, UNEVEN, {
  window: 20,
  softcap: 5,
  isPacked: true,
});
/** Queries of one sequence that attend to the rows of another, like those of a decoder to an encoder. */
attentionTest("keys of other rows, shared by two sequences", SHAPE, {
  numSequences: 4,
  queryStarts: Int32Array.of(0, 1, 1, 6, 40),
  keyStarts: Int32Array.of(50, 0, 50, 7),
  keyLengths: Int32Array.of(45, 3, 45, 20),
});

/** The tiles for a graphics card, run on any device. */
for (const limits of ["adapter", "guaranteed"] as const) {
  for (const [headSize, elem] of [[32, "f32"], [64, "f16"], [80, "f32"], [128, "f16"]] as const) {
    const test = async (gpu: GpuContext) => {
      const card = { ...gpu, isFallbackAdapter: false };
      const given = makeCase({ ...SHAPE, headSize, elem }, UNEVEN, { window: 100 });
      assertClose(await attendOnGpu(card, given), attendExactly(given), TOLERANCE[elem]);
    };
    const name = `heads of ${headSize} on a graphics card, ${elem}, ${limits} limits`;
    gpuTest(`PackedAttention.encode() equals attention in float64: ${name}`, test, { limits });
  }
}

kernelTest("PackedAttention creates no device objects in a second batch", (gpu) => {
  const { params, q } = makeCase(SHAPE, UNEVEN, { isPacked: true });
  const batch = new PackedBuffer(gpu, SHAPE, { maxRows: 300, maxSequences: 8 });
  const attention = new PackedAttention(gpu, batch, params);
  const buffer = upload(gpu, q, "f32");
  const tensors = { q: buffer, k: buffer, v: buffer, out: upload(gpu, q, "f32") };
  const run = (bounds: PackedBounds) => {
    batch.write(bounds);
    const encoder = gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    attention.encode(pass, tensors);
    pass.end();
    gpu.device.queue.submit([encoder.finish()]);
  };
  run(UNEVEN);
  const before = { ...gpu.counts };
  run(selfBounds([3, 200]));
  assert.deepEqual(gpu.counts, before);
});

kernelTest("PackedBuffer and PackedAttention refuse unsupported shapes", (gpu) => {
  const limits = { maxRows: 1, maxSequences: 1 };
  for (const wrong of [{ headSize: 4 }, { headSize: 10 }, { headSize: 260 }, { kvHeads: 3 }]) {
    assert.throws(() => new PackedBuffer(gpu, { ...SHAPE, ...wrong }, limits), RangeError);
  }
  const poor = withLimits(gpu, {
    maxComputeInvocationsPerWorkgroup: 256,
    maxComputeWorkgroupStorageSize: 1024,
  });
  assert.throws(() => new PackedBuffer(poor, SHAPE, limits), /1024 bytes is too small for a tile/);
  const { params } = makeCase(SHAPE, UNEVEN, {});
  const batch = new PackedBuffer(gpu, SHAPE, limits);
  const crooked = { ...params, k: { stride: 66, offset: 0 } };
  assert.throws(() => new PackedAttention(gpu, batch, crooked), RangeError);
});

Deno.test("SimdPackedAttention refuses unsupported shapes", () => {
  const { params } = makeCase(SHAPE, UNEVEN, {});
  const of = (wrong: object) => [{ ...params, isPacked: false, ...wrong }];
  const small = { ...SHAPE, headSize: 6 };
  assert.throws(() => new SimdPackedAttention(of({ shape: small })), RangeError);
  assert.throws(() => new SimdPackedAttention(of({ v: { stride: 64, offset: 2 } })), RangeError);
});

Deno.test("SimdPackedAttention computes layers of different shapes in one object", () => {
  const cases = [64, 32].map((headSize) => makeCase({ ...SHAPE, headSize }, UNEVEN, {}));
  const simd = new SimdPackedAttention(cases.map((each) => ({ ...each.params, isPacked: false })));
  simd.begin(UNEVEN);
  cases.forEach((each, layer) => {
    const inputs = simd.inputs(layer);
    for (const name of ["q", "k", "v"] as const) {
      inputs[name].set(each[name].subarray(0, inputs[name].length));
    }
    assertClose(simd.run(layer), attendExactly(each), { abs: 1e-5, rel: 1e-5 });
  });
});
