import assert from "node:assert/strict";
import type { AttentionShape } from "../../kernels/attention/attention_shape.ts";
import {
  type HeadNormParams,
  joinAngles,
  KvWrite,
  type KvWriteParams,
  type RotaryParams,
} from "../../kernels/attention/kv_write.ts";
import { ReferenceKvWrite } from "./references/kv_write_reference.ts";
import { StepBuffer } from "../../kernels/attention/paged_attention.ts";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { kernelTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "./exact_sampling.ts";
import { cacheAt, makeStep } from "./paged_case.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { runAndRead, upload } from "./tensors.ts";

const SHAPE: AttentionShape = { heads: 4, kvHeads: 2, headSize: 32, blockSize: 16, elem: "f32" };
/** Norm factors for all heads of a token: queries, then keys. */
const GAMMAS = Float32Array.from({ length: 192 }, (_, i) => 0.5 + (i % 7) / 4);
/** The cache's value where nothing is written. */
const UNTOUCHED = 7;
/** Decodes, a prompt across block edges, and a chunk that continues a prompt. */
const SEQUENCES = [
  { queries: 1, keys: 1 },
  { queries: 35, keys: 35 },
  { queries: 1, keys: 16 },
  { queries: 1, keys: 17 },
  { queries: 20, keys: 50 },
];

interface Tensors {
  readonly rows: Float32Array;
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

interface Written {
  readonly q: ArrayLike<number>;
  readonly k: ArrayLike<number>;
  readonly v: ArrayLike<number>;
}

/** Makes parameters for queries, keys and values packed in one row. */
function packedParams(
  shape: AttentionShape,
  rotary?: RotaryParams,
  norms?: HeadNormParams,
): KvWriteParams {
  const { heads, kvHeads, headSize } = shape;
  const stride = (heads + 2 * kvHeads) * headSize;
  return {
    rotary,
    norms,
    q: { stride, offset: 0 },
    k: { stride, offset: heads * headSize },
    v: { stride, offset: (heads + kvHeads) * headSize },
  };
}

function makeTensors(shape: AttentionShape, step: PackedStep, rotary?: RotaryParams): Tensors {
  const normal = makeNormal(4);
  const { heads, kvHeads, headSize, elem } = shape;
  const length = step.numTokens * (heads + 2 * kvHeads) * headSize;
  const half = (rotary?.size ?? 8) / 2;
  const angle = (i: number) => Math.floor(i / half) / 100 ** ((i % half) / half);
  return {
    rows: new Float32Array(length).map(() => elem === "f16" ? Math.f16round(normal()) : normal()),
    // Rotary tables may also scale: here by 1.25.
    cos: new Float32Array(64 * half).map((_, i) => 1.25 * Math.cos(angle(i))),
    sin: new Float32Array(64 * half).map((_, i) => 1.25 * Math.sin(angle(i))),
  };
}

/** Computes the formula in float64. */
function writeExactly(
  shape: AttentionShape,
  { step, numBlocks }: ReturnType<typeof makeStep>,
  { rows, cos, sin }: Tensors,
  rotary?: RotaryParams,
  norms?: HeadNormParams,
): Written {
  const { heads, kvHeads, headSize, blockSize } = shape;
  const stride = (heads + 2 * kvHeads) * headSize;
  /** Finds a head's factors, and the elements whose root mean square divides it. */
  const makeNorm = (row: number, numHeads: number, head: number, first: number) => {
    const from = first + (norms?.ofRows ? head * headSize : 0);
    return {
      gammas: GAMMAS.subarray(from, from + headSize),
      span: norms?.ofRows
        ? rows.subarray(row, row + numHeads * headSize)
        : rows.subarray(row + head * headSize, row + (head + 1) * headSize),
    };
  };
  const rotate = (at: number, position: number, norm?: ReturnType<typeof makeNorm>) => {
    const head = Float64Array.from(rows.subarray(at, at + headSize));
    const normalize = (span: ArrayLike<number>, gammas: Float32Array) => {
      const square = Float64Array.from(span).reduce((sum, x) => sum + x * x, 0) / span.length;
      head.forEach((x, i) => head[i] = x * gammas[i]! / Math.sqrt(square + norms!.epsilon));
    };
    if (norm && !norms?.isAfterRotation) normalize(norm.span, norm.gammas);
    const half = (rotary?.size ?? 0) / 2;
    for (let i = 0; i < half; i++) {
      const [a, b] = rotary!.isInterleaved ? [2 * i, 2 * i + 1] : [i, i + half];
      const [x, y] = [head[a]!, head[b]!];
      const [c, s] = [cos[position * half + i]!, sin[position * half + i]!];
      head[a] = x * c - y * s;
      head[b] = x * s + y * c;
    }
    if (norm && norms?.isAfterRotation) normalize(head, norm.gammas);
    return head;
  };
  const q = new Float64Array(step.numTokens * heads * headSize);
  const k = new Float64Array(numBlocks * kvHeads * blockSize * headSize).fill(UNTOUCHED);
  const v = k.slice();
  for (let s = 0; s < step.sequences.length; s++) {
    for (let token = step.queryStarts[s]!; token < step.queryStarts[s + 1]!; token++) {
      const position = step.positions[token]!;
      const row = token * stride;
      for (let head = 0; head < heads; head++) {
        const norm = norms?.ofQueries ? makeNorm(row, heads, head, 0) : undefined;
        q.set(rotate(row + head * headSize, position, norm), (token * heads + head) * headSize);
      }
      for (let head = 0; head < kvHeads; head++) {
        const at = cacheAt(shape, step, s, position, head);
        const keys = row + heads * headSize;
        const first = (norms?.ofRows ? heads : 1) * headSize;
        const norm = norms?.ofKeys ? makeNorm(keys, kvHeads, head, first) : undefined;
        k.set(rotate(keys + head * headSize, position, norm), at);
        const value = row + (heads + kvHeads + head) * headSize;
        v.set(rows.subarray(value, value + headSize), at);
      }
    }
  }
  return { q, k, v };
}

async function writeOnGpu(
  gpu: GpuContext,
  shape: AttentionShape,
  { step, numBlocks }: ReturnType<typeof makeStep>,
  tensors: Tensors,
  rotary?: RotaryParams,
  norms?: HeadNormParams,
): Promise<Written> {
  const { heads, kvHeads, headSize, blockSize, elem } = shape;
  const stepBuffer = new StepBuffer(gpu, shape, {
    maxTokens: step.numTokens,
    maxSequences: step.sequences.length,
    maxBlocksPerSequence: step.maxBlocksPerSequence,
  });
  const kernel = new KvWrite(gpu, stepBuffer, packedParams(shape, rotary, norms));
  const rows = upload(gpu, tensors.rows, elem);
  const numQueries = step.numTokens * heads * headSize;
  const cacheLength = numBlocks * kvHeads * blockSize * headSize;
  const qOut = upload(gpu, new Float32Array(numQueries), elem);
  const kCache = upload(gpu, new Float32Array(cacheLength).fill(UNTOUCHED), elem);
  const vCache = upload(gpu, new Float32Array(cacheLength).fill(UNTOUCHED), elem);
  const angles = rotary && upload(gpu, joinAngles(tensors, rotary.size / 2), "f32");
  stepBuffer.write(step);
  const encode = (pass: GPUComputePassEncoder) =>
    kernel.encode(pass, {
      ...{ q: rows, k: rows, v: rows, kCache, vCache, qOut },
      angles,
      gammas: norms && upload(gpu, GAMMAS, "f32", GPUBufferUsage.UNIFORM),
    });
  const k = await runAndRead(gpu, encode, { buffer: kCache, length: cacheLength, elem });
  const v = await runAndRead(gpu, () => {}, { buffer: vCache, length: cacheLength, elem });
  const q = await runAndRead(gpu, () => {}, { buffer: qOut, length: numQueries, elem });
  stepBuffer.dispose();
  return { q, k, v };
}

function writeByReference(
  shape: AttentionShape,
  { step, numBlocks }: ReturnType<typeof makeStep>,
  { rows, cos, sin }: Tensors,
  rotary?: RotaryParams,
  norms?: HeadNormParams,
): Written {
  const { heads, kvHeads, headSize, blockSize } = shape;
  const q = new Float32Array(step.numTokens * heads * headSize);
  const k = new Float32Array(numBlocks * kvHeads * blockSize * headSize).fill(UNTOUCHED);
  const v = k.slice();
  new ReferenceKvWrite(shape, packedParams(shape, rotary, norms)).run(step, {
    q: rows,
    k: rows,
    v: rows,
    kCache: k,
    vCache: v,
    rotary: rotary && { cos, sin },
    qOut: q,
    gammas: GAMMAS,
  });
  return { q, k, v };
}

const TOLERANCE = { f32: { abs: 1e-6, rel: 1e-6 }, f16: { abs: 1e-3, rel: 1e-3 } };

function assertWritten(got: Written, want: Written, elem: "f32" | "f16", isRotated: boolean): void {
  if (isRotated) assertClose(got.q, want.q, TOLERANCE[elem]);
  assertClose(got.k, want.k, TOLERANCE[elem]);
  // Values are copied.
  assertClose(got.v, want.v, { abs: 0, rel: 0 });
}

/** Like `assertWritten`, for norms, whose sums of squares are in f32. */
function assertNormed(got: Written, want: Written, elem: "f32" | "f16", isWritten: boolean): void {
  const tolerance = elem === "f32" ? { abs: 1e-5, rel: 1e-5 } : { abs: 3e-3, rel: 3e-3 };
  if (isWritten) assertClose(got.q, want.q, tolerance);
  assertClose(got.k, want.k, tolerance);
  assertClose(got.v, want.v, { abs: 0, rel: 0 });
}

const ROTARIES: Record<string, RotaryParams | undefined> = {
  "no rotation": undefined,
  "rotated halves": { size: 32, isInterleaved: false },
  "rotated neighbours": { size: 32, isInterleaved: true },
  "rotated halves of a part": { size: 24, isInterleaved: false },
  "rotated neighbours of a part": { size: 12, isInterleaved: true },
  "rotated halves of half a head": { size: 16, isInterleaved: false },
  "rotated halves of 10 elements": { size: 20, isInterleaved: false },
  "rotated halves of an odd size": { size: 6, isInterleaved: false },
  "an odd number of rotated neighbours": { size: 14, isInterleaved: true },
};

const NORMS: Record<string, HeadNormParams> = {
  "queries and keys": { epsilon: 1e-6, ofQueries: true, ofKeys: true },
  "queries and keys after the rotation": {
    ...{ epsilon: 1e-2, ofQueries: true, ofKeys: true, isAfterRotation: true },
  },
  "keys alone": { epsilon: 1e-2, ofQueries: false, ofKeys: true },
  "all heads together": { epsilon: 1e-6, ofQueries: true, ofKeys: true, ofRows: true },
  "all keys together": { epsilon: 1e-2, ofQueries: false, ofKeys: true, ofRows: true },
};

const NORMED_ROTATIONS = [
  ...["no rotation", "rotated halves", "rotated neighbours of a part"],
  "rotated halves of an odd size",
];

for (const [normed, norms] of Object.entries(NORMS)) {
  for (const rotation of NORMED_ROTATIONS) {
    const rotary = ROTARIES[rotation];
    for (const elem of ["f32", "f16"] as const) {
      const shape = { ...SHAPE, elem };
      const paged = makeStep(SEQUENCES, shape.blockSize);
      const tensors = makeTensors(shape, paged.step, rotary);
      const want = writeExactly(shape, paged, tensors, rotary, norms);
      const isWritten = rotary !== undefined || norms.ofQueries;
      kernelTest(`KvWrite.encode() normalises ${normed}, ${rotation}, ${elem}`, async (gpu) => {
        const got = await writeOnGpu(gpu, shape, paged, tensors, rotary, norms);
        assertNormed(got, want, elem, isWritten);
      });
      Deno.test(`ReferenceKvWrite.run() normalises ${normed}, ${rotation}, ${elem}`, () => {
        const got = writeByReference(shape, paged, tensors, rotary, norms);
        assertNormed(got, want, "f32", isWritten);
      });
    }
  }
}

for (const [name, rotary] of Object.entries(ROTARIES)) {
  for (const elem of ["f32", "f16"] as const) {
    const shape = { ...SHAPE, elem };
    const paged = makeStep(SEQUENCES, shape.blockSize);
    const tensors = makeTensors(shape, paged.step, rotary);
    const want = writeExactly(shape, paged, tensors, rotary);

    kernelTest(`KvWrite.encode() equals the formula in float64: ${name}, ${elem}`, async (gpu) => {
      const got = await writeOnGpu(gpu, shape, paged, tensors, rotary);
      assertWritten(got, want, elem, rotary !== undefined);
    });

    Deno.test(`ReferenceKvWrite.run() equals the formula in float64: ${name}, ${elem}`, () => {
      const got = writeByReference(shape, paged, tensors, rotary);
      assertWritten(got, want, "f32", rotary !== undefined);
    });
  }
}

kernelTest(
  "KvWrite.encode() reads queries, keys and values from separate tensors",
  async (gpu) => {
    const rotary = { size: 32, isInterleaved: false } as const;
    const paged = makeStep(SEQUENCES, 16);
    const tensors = makeTensors(SHAPE, paged.step, rotary);
    const want = writeExactly(SHAPE, paged, tensors, rotary);
    const { numTokens } = paged.step;
    const rowLength = tensors.rows.length / numTokens;
    const slice = (from: number, length: number) =>
      Float32Array.from(
        { length: numTokens * length },
        (_, i) => tensors.rows[Math.floor(i / length) * rowLength + from + i % length]!,
      );
    const stepBuffer = new StepBuffer(gpu, SHAPE, {
      maxTokens: 100,
      maxSequences: 9,
      maxBlocksPerSequence: 5,
    });
    const kernel = new KvWrite(gpu, stepBuffer, {
      rotary,
      q: { stride: 128, offset: 0 },
      k: { stride: 64, offset: 0 },
      v: { stride: 64, offset: 0 },
    });
    stepBuffer.write(paged.step);
    const kCache = upload(gpu, new Float32Array(want.k.length).fill(UNTOUCHED), "f32");
    const written = await runAndRead(gpu, (pass) =>
      kernel.encode(pass, {
        q: upload(gpu, slice(0, 128), "f32"),
        k: upload(gpu, slice(128, 64), "f32"),
        v: upload(gpu, slice(192, 64), "f32"),
        kCache,
        vCache: upload(gpu, new Float32Array(want.k.length), "f32"),
        angles: upload(gpu, joinAngles(tensors, rotary.size / 2), "f32"),
        qOut: upload(gpu, new Float32Array(want.q.length), "f32"),
      }), { buffer: kCache, length: want.k.length, elem: "f32" });
    assertClose(written, want.k, TOLERANCE.f32);
  },
);

Deno.test("ReferenceKvWrite refuses an unsupported rotary size", () => {
  for (const [size, isInterleaved] of [[11, false], [5, true], [40, false]] as const) {
    const rotary = { size, isInterleaved } as const;
    assert.throws(() => new ReferenceKvWrite(SHAPE, packedParams(SHAPE, rotary)), RangeError);
  }
});
