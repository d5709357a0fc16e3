import assert from "node:assert/strict";
import { ACTIVATIONS } from "../../kernels/common/activation.ts";
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import type { MatvecParams } from "../../kernels/matmul/matvec_params.ts";
import { matvecReference } from "./references/matvec_reference.ts";
import { normReference } from "./references/norm_reference.ts";
import { pointwiseReference } from "./references/pointwise_reference.ts";
import type { ReadBytes } from "../../kernels/cpu/row_kernel.ts";
import { RowArena, type SumKind } from "../../kernels/cpu/row_arena.ts";
import { checkRowKernel, SimdRows } from "../../kernels/cpu/row_simd.ts";
import { makeNormal } from "./exact_sampling.ts";
import { assertClose } from "../fixtures/compare_values.ts";

const BLOCK = 32;
const ROWS = 3;
const EXACT = { abs: 2e-5, rel: 2e-5 };

const PLAIN: MatvecParams = {
  elem: "f32",
  k: 96,
  n: 44,
  x: { stride: 96, offset: 0 },
  matrixRows: 44,
  weights: { kind: "nbits", bits: 4, blockSize: BLOCK, hasZeroPoints: false, allowsInt8: true },
  hasBias: false,
  activation: "none",
  scale: 1,
  softcap: 0,
  hasResidual: false,
};
const FULL: MatvecParams = {
  ...PLAIN,
  n: 40,
  x: { stride: 104, offset: 4 },
  matrixRows: 88,
  norm: { kind: "rms", epsilon: 1e-6, hasBeta: false },
  hasBias: true,
  gate: { gateRow: 44, upRow: 0 },
  activation: "silu",
  scale: 0.5,
  hasResidual: true,
};

function random(length: number, normal: () => number, size = 1): Float32Array {
  return new Float32Array(length).map(() => normal() * size);
}

function makeTensors(
  { k, n, x, matrixRows, norm, hasBias, hasResidual }: MatvecParams,
  numRows = ROWS,
) {
  const normal = makeNormal(5);
  return {
    x: random(numRows * x.stride, normal).map((value, i) => i % 37 === 0 ? value * 8 : value),
    weights: new Uint8Array(matrixRows * k / 2).map(() => Math.abs(normal()) * 1e4),
    scales: random(matrixRows * k / BLOCK, normal, 0.02),
    gamma: norm && random(k, normal),
    beta: norm?.hasBeta ? random(k, normal) : undefined,
    bias: hasBias ? random(matrixRows, normal) : undefined,
    residual: hasResidual ? random(numRows * n, normal) : undefined,
  };
}

/** Of each block the largest magnitude becomes 127 levels. */
function rounded(row: Float32Array): Float32Array {
  return row.map((_, i) => {
    const block = row.subarray(i - i % BLOCK, i - i % BLOCK + BLOCK);
    const scale = Math.max(...block.map(Math.abs)) / 127;
    return scale === 0 ? 0 : Math.round(row[i]! / scale) * scale;
  });
}

/** What the kernel computes: the reference's product with rounded rows. */
function wanted(params: MatvecParams, tensors: ReturnType<typeof makeTensors>): Float32Array {
  const { k, x, norm } = params;
  const rows = Array.from({ length: ROWS }, (_, row) => {
    const values = tensors.x.subarray(row * x.stride + x.offset, row * x.stride + x.offset + k);
    const normed = norm &&
      normReference(
        { elem: "f32", k, heads: 1, x: { stride: k, offset: 0 }, norm, hasResidual: false },
        { x: values, gamma: tensors.gamma!, beta: tensors.beta },
        1,
      );
    return [...rounded(normed ?? values)];
  });
  const plain = { ...params, norm: undefined, x: { stride: k, offset: 0 } };
  return matvecReference(plain, { ...tensors, x: Float32Array.from(rows.flat()) }, ROWS);
}

const readerOf = (bytes: Uint8Array): ReadBytes => (offset, into) =>
  Promise.resolve(into.set(bytes.subarray(offset, offset + into.length)));

/** A product that runs again and again. */
async function openProduct(
  params: MatvecParams,
  tensors: ReturnType<typeof makeTensors>,
  threads = new KernelThreads(1),
  numRows = ROWS,
  sums: SumKind = "i16",
): Promise<() => Float32Array> {
  const memory = new RowArena(numRows, sums);
  const weights = memory.reserveMatrix(params.k, params.matrixRows);
  const { x, gamma, beta = [], bias, residual } = tensors;
  const affine = gamma && Float32Array.of(...gamma, ...beta);
  const placed = Object.fromEntries(
    Object.entries({ x, affine, bias, residual }).flatMap(([name, values]) =>
      values ? [[name, memory.arena.place(values)]] : []
    ),
  );
  const out = memory.arena.reserve(numRows * params.n);
  const rows = new SimdRows(threads, memory.allocate(threads.numThreads));
  const { blockSize } = params.weights as Extract<MatvecParams["weights"], { kind: "nbits" }>;
  await rows.packMatrix(weights, { k: params.k, outputs: params.matrixRows, blockSize }, {
    levels: readerOf(tensors.weights),
    scales: readerOf(new Uint8Array(tensors.scales.buffer)),
  });
  const kernel = rows.product(params, { ...placed, weights, out }, false);
  return () => {
    const result = rows.floats(out, numRows * params.n);
    result.fill(0);
    kernel(numRows);
    return result.slice();
  };
}

const cases: readonly (readonly [string, MatvecParams])[] = [
  ["one product", PLAIN],
  ["many outputs, in parts", {
    ...PLAIN,
    k: 32,
    x: { stride: 32, offset: 0 },
    n: 1060,
    matrixRows: 1060,
  }],
  ["a norm, a bias, a gate, a factor and a sum", FULL],
  ["weights with a scale for 64 or 128", {
    ...PLAIN,
    k: 256,
    x: { stride: 256, offset: 0 },
    weights: { ...PLAIN.weights as { kind: "nbits" }, blockSize: 128 } as MatvecParams["weights"],
  }],
  ["a layer norm", { ...PLAIN, norm: { kind: "layer", epsilon: 1e-5, hasBeta: true } }],
  ...ACTIVATIONS.map((activation) => [activation, { ...PLAIN, activation }] as const),
];
for (const [name, params] of cases) {
  Deno.test(`SimdRows.product(): ${name}, with rows of 8 bits`, async () => {
    const tensors = makeTensors(params);
    const run = await openProduct(params, tensors);
    assertClose(run(), wanted(params, tensors), EXACT);
  });
}

Deno.test("SimdRows.product() gives a row the same bits alone and beside others", async () => {
  const numRows = 7;
  const k = 256;
  const params = { ...FULL, k, x: { stride: k + 8, offset: 4 } };
  const tensors = makeTensors(params, numRows);
  const open = async (first: number, end: number) => {
    const x = tensors.x.slice(first * params.x.stride, end * params.x.stride);
    const residual = tensors.residual!.slice(first * params.n, end * params.n);
    return (await openProduct(params, { ...tensors, x, residual }, undefined, end - first))();
  };
  const together = await open(0, numRows);
  for (let first = 0; first < numRows; first++) {
    for (const end of [first + 1, Math.min(first + 3, numRows)]) {
      const wanted = together.subarray(first * params.n, end * params.n);
      assert.deepEqual(await open(first, end), wanted, `rows ${first} to ${end}`);
    }
  }
});

Deno.test("SimdRows.product() gives the same bits with sums of 16 and of 32 bits", async () => {
  const numRows = 7;
  const tensors = makeTensors(FULL, numRows);
  // The largest sums there are: of the level 0, which stands for -8, and of 15.
  const { stride, offset } = FULL.x;
  tensors.weights.fill(0, 0, tensors.weights.length / 4).fill(0xff, tensors.weights.length * 3 / 4);
  for (const [row, sign] of [[1, 1], [6, -1]] as const) {
    tensors.x.fill(sign * 3, row * stride + offset, (row + 1) * stride);
  }
  for (const params of [FULL, { ...FULL, norm: undefined }]) {
    const [short, long] = await Promise.all((["i16", "i32"] as const).map(async (sums) => {
      return (await openProduct(params, tensors, undefined, numRows, sums))();
    }));
    assert.deepEqual(short, long);
    assert.ok(short!.some((value) => value !== 0));
  }
});

Deno.test("SimdRows.product() gives the same bits with any number of threads", async () => {
  const k = 512;
  const params = { ...FULL, k, n: 4096, x: { stride: k, offset: 0 }, matrixRows: 8192 };
  const gated = { ...params, gate: { gateRow: 0, upRow: 4096 } };
  const tensors = makeTensors(gated);
  const alone = (await openProduct(gated, tensors))();
  const threads = new KernelThreads(3, { minFlops: 0 });
  try {
    const run = await openProduct(gated, tensors, threads);
    for (let round = 0; threads.numHelpedWorks < 20; round++) {
      assert.ok(round < 2000, "no helper takes part");
      assert.deepEqual(run(), alone);
      // Helpers are told of the memory.
      await new Promise((resolve) => setTimeout(resolve));
    }
  } finally {
    threads.dispose();
  }
});

Deno.test("SimdRows.product() with weights of 4 bits after one with weights in f32", async () => {
  const tensors = makeTensors(PLAIN);
  const memory = new RowArena(ROWS);
  const [weights, floats] = [
    memory.reserveMatrix(PLAIN.k, PLAIN.n),
    memory.reserveFloatMatrix(PLAIN.k, PLAIN.n),
  ];
  const x = memory.arena.place(tensors.x);
  const [out, other] = [memory.arena.reserve(ROWS * PLAIN.n), memory.arena.reserve(ROWS * PLAIN.n)];
  const rows = new SimdRows(new KernelThreads(1), memory.allocate(1));
  await rows.packMatrix(weights, { k: PLAIN.k, outputs: PLAIN.n }, {
    levels: readerOf(tensors.weights),
    scales: readerOf(new Uint8Array(tensors.scales.buffer)),
  });
  const inFloats = { ...PLAIN, weights: { kind: "rows" } } as const;
  const first = rows.product(inFloats, { x, weights: floats, out: other }, false);
  const second = rows.product(PLAIN, { x, weights, out }, false);
  first(ROWS);
  second(ROWS);
  assertClose(rows.floats(out, ROWS * PLAIN.n), wanted(PLAIN, tensors), EXACT);
});

Deno.test("SimdRows.product() of rows of nothing, and of what is no number", async () => {
  const tensors = makeTensors(PLAIN);
  tensors.x.fill(0, 0, 96);
  tensors.x[100] = NaN;
  tensors.x[2 * 96] = Infinity;
  const got = (await openProduct(PLAIN, tensors))();
  assert.deepEqual(got.subarray(0, PLAIN.n), new Float32Array(PLAIN.n));
  assert.ok(got.subarray(PLAIN.n).every((value) => !Number.isFinite(value)));
});

Deno.test("SimdRows.norm() and pointwise() are what their references are", () => {
  const normal = makeNormal(8);
  const memory = new RowArena(ROWS);
  const x = random(ROWS * 80, normal);
  const [gamma, beta] = [random(16, normal), random(16, normal)];
  const b = random(64, normal);
  const residual = random(ROWS * 64, normal);
  const at = {
    x: memory.arena.place(x),
    affine: memory.arena.place(Float32Array.of(...gamma, ...beta)),
    residual: memory.arena.place(residual),
    b: memory.arena.place(b),
    out: memory.arena.reserve(ROWS * 64),
  };
  const rows = new SimdRows(new KernelThreads(1), memory.allocate(1));
  for (const kind of ["rms", "layer"] as const) {
    const hasBeta = kind === "layer";
    const params = {
      elem: "f32",
      k: 16,
      heads: 4,
      x: { stride: 80, offset: 8 },
      norm: { kind, epsilon: 1e-5, hasBeta },
      hasResidual: hasBeta,
    } as const;
    const { residual: _, ...plain } = at;
    rows.norm(params, hasBeta ? at : plain)(ROWS);
    const optional = hasBeta ? { beta, residual } : {};
    const want = normReference(params, { x, gamma, ...optional }, ROWS);
    assertClose(rows.floats(at.out, ROWS * 64), want, EXACT);
  }
  for (const operation of ["none", "add", "multiply"] as const) {
    const params = {
      elem: "f32",
      width: 64,
      a: { stride: 80, offset: 12 },
      b: { stride: 0, offset: 0 },
      operation,
      activation: "silu",
      scale: 1.5,
    } as const;
    rows.pointwise(params, { a: at.x, b: at.b, out: at.out })(ROWS);
    const want = pointwiseReference(params, { a: x, b }, ROWS);
    assertClose(rows.floats(at.out, ROWS * 64), want, EXACT);
  }
});

Deno.test("checkRowKernel() refuses what the kernels do not compute", () => {
  const weights = PLAIN.weights as Extract<MatvecParams["weights"], { kind: "nbits" }>;
  const refused: readonly [Partial<MatvecParams>, RegExp][] = [
    [{ elem: "f16" }, /in f32/],
    [{ weights: { ...weights, bits: 8 } }, /4-bit weights/],
    [{ weights: { ...weights, blockSize: 16 } }, /4-bit weights/],
    [{ weights: { ...weights, blockSize: 64 }, k: 96 }, /whole blocks/],
    [{ weights: { ...weights, hasZeroPoints: true } }, /4-bit weights/],
    [{ weights: { ...weights, allowsInt8: false } }, /accuracy level 4/],
    [{ softcap: 30 }, /4-bit weights/],
    [{ n: 42 }, /multiples of 4 by 32/],
    [{ k: 100 }, /whole blocks/],
  ];
  for (const [change, message] of refused) {
    const params = { ...PLAIN, ...change };
    assert.throws(() => checkRowKernel({ kind: "matvec", params }), {
      name: "RangeError",
      message,
    });
  }
  checkRowKernel({ kind: "matvec", params: FULL });
});
