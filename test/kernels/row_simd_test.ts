import assert from "node:assert/strict";
import { ACTIVATIONS } from "../../kernels/common/activation.ts";
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import type { MatvecParams } from "../../kernels/matmul/matvec_params.ts";
import { matvecReference } from "./references/matvec_reference.ts";
import { normReference } from "./references/norm_reference.ts";
import { pointwiseReference } from "./references/pointwise_reference.ts";
import type { ReadBytes } from "../../kernels/cpu/arena.ts";
import { RowArena, type SumKind } from "../../kernels/cpu/row_arena.ts";
import { checkRowKernel, SimdRows } from "../../kernels/cpu/row_simd.ts";
import { makeNormal } from "./exact_sampling.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { untilHelped } from "./until_helped.ts";

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

type Blocks = Extract<MatvecParams["weights"], { kind: "nbits" }>;

/** Changes the layout of a product's weights. */
function withWeights(params: MatvecParams, change: Partial<Blocks>): MatvecParams {
  return { ...params, weights: { ...params.weights as Blocks, ...change } };
}

function makeTensors(
  { k, n, x, matrixRows, norm, hasBias, hasResidual, weights }: MatvecParams,
  numRows = ROWS,
) {
  const normal = makeNormal(5);
  const { bits, blockSize, hasZeroPoints, hasFloatZeroPoints } = weights as Blocks;
  const blocks = Math.ceil(k / blockSize);
  const bytes = (length: number) => new Uint8Array(length).map(() => Math.abs(normal()) * 1e4);
  return {
    x: random(numRows * x.stride, normal).map((value, i) => i % 37 === 0 ? value * 8 : value),
    weights: bytes(matrixRows * blocks * blockSize * bits / 8),
    scales: random(matrixRows * blocks, normal, bits === 8 ? 0.001 : 0.02),
    zeroPoints: hasFloatZeroPoints
      ? random(matrixRows * blocks, normal, 2 ** (bits - 2))
      : hasZeroPoints
      ? bytes(matrixRows * Math.ceil(blocks * bits / 8))
      : undefined,
    gamma: norm && random(k, normal),
    beta: norm?.hasBeta ? random(k, normal) : undefined,
    bias: hasBias ? random(matrixRows, normal) : undefined,
    residual: hasResidual ? random(numRows * n, normal) : undefined,
  };
}

/** Rounds a row: the largest magnitude of each block becomes 127 levels, or 127 * 254 if rows have 16 bits. */
function rounded(row: Float32Array, { allowsInt8 }: Blocks): Float32Array {
  const levels = allowsInt8 ? 127 : 127 * 254;
  return row.map((_, i) => {
    const block = row.subarray(i - i % BLOCK, i - i % BLOCK + BLOCK);
    const scale = Math.max(...block.map(Math.abs)) / levels;
    return scale === 0 ? 0 : Math.round(row[i]! / scale) * scale;
  });
}

/** Computes the expected result: the reference's product of rounded rows. */
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
    return [...rounded(normed ?? values, params.weights as Blocks)];
  });
  const plain = { ...params, norm: undefined, x: { stride: k, offset: 0 } };
  return matvecReference(plain, { ...tensors, x: Float32Array.from(rows.flat()) }, ROWS);
}

const readReader = (bytes: Uint8Array): ReadBytes => (offset, into) =>
  Promise.resolve(into.set(bytes.subarray(offset, offset + into.length)));

/** Opens a product that can run repeatedly. */
async function openProduct(
  params: MatvecParams,
  tensors: ReturnType<typeof makeTensors>,
  threads = new KernelThreads(1),
  numRows = ROWS,
  sums: SumKind = "i16",
): Promise<() => Float32Array> {
  const memory = new RowArena(numRows, sums);
  const matrix = { ...params.weights as Blocks, k: params.k, outputs: params.matrixRows };
  const weights = memory.reserveMatrix(matrix);
  const { x, gamma, beta = [], bias, residual } = tensors;
  const affine = gamma && Float32Array.of(...gamma, ...beta);
  const placed = Object.fromEntries(
    Object.entries({ x, affine, bias, residual }).flatMap(([name, values]) =>
      values ? [[name, memory.arena.place(values)]] : []
    ),
  );
  const out = memory.arena.reserve(numRows * params.n);
  const rows = new SimdRows(threads, memory.allocate(threads.numThreads));
  await rows.packMatrix(weights, matrix, {
    levels: readReader(tensors.weights),
    scales: readReader(new Uint8Array(tensors.scales.buffer)),
    zeroPoints: tensors.zeroPoints && readReader(new Uint8Array(tensors.zeroPoints.buffer)),
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
  ["a plain product", PLAIN],
  ["many outputs, computed in parts", {
    ...PLAIN,
    k: 32,
    x: { stride: 32, offset: 0 },
    n: 1060,
    matrixRows: 1060,
  }],
  ["a norm, a bias, a gate, a scale and a residual", FULL],
  ["an incomplete last block of weights", withWeights(PLAIN, { blockSize: 128 })],
  ...([1, 2, 4, 8] as const).flatMap((bits) =>
    [16, 32, 64, 128].slice(bits === 1 ? 1 : 0).flatMap((blockSize) =>
      ["no", "packed", "float"].map((zeros) =>
        [
          `${bits} bits in blocks of ${blockSize} with ${zeros} zero points`,
          withWeights({ ...FULL, k: 256, x: { stride: 264, offset: 4 } }, {
            ...{ bits, blockSize, hasZeroPoints: zeros !== "no" },
            hasFloatZeroPoints: zeros === "float",
          }),
        ] as const
      )
    )
  ),
  ["a soft cap", { ...FULL, softcap: 3 }],
  ["a layer norm", { ...PLAIN, norm: { kind: "layer", epsilon: 1e-5, hasBeta: true } }],
  ...ACTIVATIONS.map((activation) => [activation, { ...PLAIN, activation }] as const),
];
for (const [name, params] of cases) {
  Deno.test(`SimdRows.product() equals its reference with rows of 8 and of 16 bits: ${name}`, async () => {
    for (const allowsInt8 of [true, false]) {
      const own = withWeights(params, { allowsInt8 });
      const tensors = makeTensors(own);
      const run = await openProduct(own, tensors);
      assertClose(run(), wanted(own, tensors), EXACT);
    }
  });
}

/** The kernel's variants: rows of 8 or 16 bits, weights of 4 or 8 bits, no zero points, packed or float ones. */
const VARIANTS: readonly Partial<Blocks>[] = [
  {},
  { allowsInt8: false },
  { hasZeroPoints: true },
  { hasZeroPoints: true, hasFloatZeroPoints: true },
  { bits: 8, allowsInt8: false },
];

Deno.test("SimdRows.product() gives a row the same bits alone and together with others", async () => {
  const k = 256;
  const plain = { ...FULL, k, x: { stride: k + 8, offset: 4 } };
  for (const change of VARIANTS) await assertSameBeside(withWeights(plain, change));
});

async function assertSameBeside(params: MatvecParams): Promise<void> {
  const numRows = 7;
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
}

Deno.test("SimdRows.product() gives the same bits with sums of 16 and of 32 bits", async () => {
  const numRows = 7;
  for (const change of VARIANTS) await assertSameSums(withWeights(FULL, change), numRows);
});

async function assertSameSums(full: MatvecParams, numRows: number): Promise<void> {
  const tensors = makeTensors(full, numRows);
  // The lowest and the highest levels give the largest sums: with 4 bits and no zero points, they stand for -8 and 7.
  const { stride, offset } = full.x;
  tensors.zeroPoints?.fill(0, 0, 20).fill(0xff, tensors.zeroPoints.length - 20);
  tensors.weights.fill(0, 0, tensors.weights.length / 4).fill(0xff, tensors.weights.length * 3 / 4);
  for (const [row, sign] of [[1, 1], [6, -1]] as const) {
    tensors.x.fill(sign * 3, row * stride + offset, (row + 1) * stride);
  }
  for (const params of [full, { ...full, norm: undefined }]) {
    const [short, long] = await Promise.all((["i16", "i32"] as const).map(async (sums) => {
      return (await openProduct(params, tensors, undefined, numRows, sums))();
    }));
    assert.deepEqual(short, long);
    assert.ok(short!.some((value) => value !== 0));
  }
}

Deno.test("SimdRows.product() gives the same bits with any number of threads", async () => {
  const k = 512;
  const params = { ...FULL, k, n: 4096, x: { stride: k, offset: 0 }, matrixRows: 8192 };
  const gated = { ...params, gate: { gateRow: 0, upRow: 4096 } };
  const tensors = makeTensors(gated);
  const alone = (await openProduct(gated, tensors))();
  const threads = new KernelThreads(3, { minFlops: 0 });
  try {
    const run = await openProduct(gated, tensors, threads);
    await untilHelped(threads, 20, () => assert.deepEqual(run(), alone));
  } finally {
    threads.dispose();
  }
});

Deno.test("SimdRows.product() of 4-bit weights equals its reference after a product of f32 weights", async () => {
  const tensors = makeTensors(PLAIN);
  const memory = new RowArena(ROWS);
  const matrix = { ...PLAIN.weights as Blocks, k: PLAIN.k, outputs: PLAIN.n };
  const [weights, floats] = [
    memory.reserveMatrix(matrix),
    memory.reserveFloatMatrix(PLAIN.k, PLAIN.n),
  ];
  const x = memory.arena.place(tensors.x);
  const [out, other] = [memory.arena.reserve(ROWS * PLAIN.n), memory.arena.reserve(ROWS * PLAIN.n)];
  const rows = new SimdRows(new KernelThreads(1), memory.allocate(1));
  await rows.packMatrix(weights, matrix, {
    levels: readReader(tensors.weights),
    scales: readReader(new Uint8Array(tensors.scales.buffer)),
  });
  const inFloats = { ...PLAIN, weights: { kind: "rows" } } as const;
  const first = rows.product(inFloats, { x, weights: floats, out: other }, false);
  const second = rows.product(PLAIN, { x, weights, out }, false);
  first(ROWS);
  second(ROWS);
  assertClose(rows.floats(out, ROWS * PLAIN.n), wanted(PLAIN, tensors), EXACT);
});

Deno.test("SimdRows.product() gives zeros for a row of zeros, and no finite value for rows with NaN or infinity", async () => {
  const tensors = makeTensors(PLAIN);
  tensors.x.fill(0, 0, 96);
  tensors.x[100] = NaN;
  tensors.x[2 * 96] = Infinity;
  const got = (await openProduct(PLAIN, tensors))();
  assert.deepEqual(got.subarray(0, PLAIN.n), new Float32Array(PLAIN.n));
  assert.ok(got.subarray(PLAIN.n).every((value) => !Number.isFinite(value)));
});

Deno.test("SimdRows.norm() and pointwise() equal their references", () => {
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
  const operations = [
    ...[["none"], ["add"], ["multiply"], ["max"], ["min"]],
    ...[["multiply", 62], ["multiply", 31]],
  ] as const;
  for (const [operation, repeats = 1] of operations) {
    // 62 is not divisible by four.
    const width = 62;
    const params = {
      elem: "f32",
      width,
      a: { stride: 80, offset: 12 },
      b: { stride: repeats > 1 ? width / repeats : 0, offset: 0 },
      repeats,
      operation,
      activation: "silu",
      scale: 1.5,
    } as const;
    rows.pointwise(params, { a: at.x, b: at.b, out: at.out })(ROWS);
    const want = pointwiseReference(params, { a: x, b }, ROWS);
    assertClose(rows.floats(at.out, ROWS * width), want, EXACT);
  }
});

Deno.test("SimdRows.rotate() rotates halves and neighbours by position, and leaves the rest unchanged", () => {
  const normal = makeNormal(9);
  const [heads, headSize, numPositions] = [3, 24, 5];
  const x = random(ROWS * 80, normal);
  const positions = [[4n, 0n, 9n], [1n, 2n, 3n], [3n, 3n, 0n]].map((own) =>
    BigInt64Array.from(own)
  );
  const cases = [
    ...[[24, false], [16, false], [20, false], [6, false]] as const,
    ...[[16, true], [12, true], [14, true]] as const,
    ...[[24, false, true], [12, true, true]] as const,
  ];
  for (const [size, isInterleaved, hasSections = false] of cases) {
    const sections = hasSections ? Array.from({ length: size / 2 }, (_, i) => i % 3) : undefined;
    const memory = new RowArena(ROWS);
    const tables = {
      cos: random(numPositions * size / 2, normal),
      sin: random(numPositions * size / 2, normal),
    };
    const at = {
      x: memory.arena.place(x),
      cos: memory.arena.place(tables.cos),
      sin: memory.arena.place(tables.sin),
      out: memory.arena.reserve(ROWS * heads * headSize),
    };
    const rows = new SimdRows(new KernelThreads(1), memory.allocate(1));
    const shape = { heads, headSize, size, isInterleaved, sections, numPositions } as const;
    rows.rotate({ elem: "f32", ...shape, x: { stride: 80, offset: 8 } }, at)(positions);
    const want = Float32Array.from({ length: ROWS * heads * headSize }, (_, at) => {
      const [row, i] = [Math.floor(at / (heads * headSize)), at % headSize];
      const head = row * 80 + 8 + at % (heads * headSize) - i;
      if (i >= size) return x[head + i]!;
      const half = size / 2;
      const isFirst = isInterleaved ? i % 2 === 0 : i < half;
      const other = isInterleaved ? i ^ 1 : (i + half) % size;
      const pair = isInterleaved ? i >> 1 : i % half;
      const position = positions[sections?.[pair] ?? 0]![row];
      const angle = Math.min(Number(position), numPositions - 1) * half + pair;
      const turned = x[head + other]! * tables.sin[angle]!;
      return x[head + i]! * tables.cos[angle]! + (isFirst ? -turned : turned);
    });
    assertClose(rows.floats(at.out, want.length), want, EXACT);
  }
});

Deno.test("checkRowKernel() refuses unsupported parameters", () => {
  const weights = PLAIN.weights as Blocks;
  const refused: readonly [Partial<MatvecParams>, RegExp][] = [
    [{ elem: "f16" }, /only take f32/],
    [{ weights: { ...weights, blockSize: 8 } }, /blocks of 16, or of a multiple of 32/],
    [{ out: { stride: 128, offset: 0 } }, /rows of their own/],
    [{ n: 42 }, /multiples of 4 by 32/],
    [{ k: 100 }, /multiples of 4 by 32/],
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
