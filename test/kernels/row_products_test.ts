import assert from "node:assert/strict";
import { ACTIVATIONS } from "../../kernels/common/activation.ts";
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import type { MatvecParams } from "../../kernels/matmul/matvec_params.ts";
import { divideGroups } from "../../kernels/matmul/row_products.ts";
import { matvecReference } from "./references/matvec_reference.ts";
import type { ReadBytes } from "../../kernels/cpu/arena.ts";
import { RowArena } from "../../kernels/cpu/row_arena.ts";
import { checkRowKernel, SimdRows } from "../../kernels/cpu/row_simd.ts";
import { makeNormal } from "./exact_sampling.ts";
import { assertClose, assertSameValues } from "../fixtures/engine/compare_values.ts";
import { untilHelped } from "./until_helped.ts";

const EXACT = { abs: 2e-5, rel: 2e-5 };

const PLAIN: MatvecParams = {
  elem: "f32",
  k: 36,
  n: 45,
  x: { stride: 36, offset: 0 },
  matrixRows: 45,
  weights: { kind: "columns" },
  hasBias: false,
  activation: "none",
  scale: 1,
  softcap: 0,
  hasResidual: false,
};
const FULL: MatvecParams = {
  ...PLAIN,
  n: 40,
  x: { stride: 44, offset: 4 },
  matrixRows: 88,
  norm: { kind: "layer", epsilon: 1e-5, hasBeta: true },
  hasBias: true,
  gate: { gateRow: 48, upRow: 0 },
  activation: "gelu",
  scale: 0.5,
  hasResidual: true,
};

function makeTensors(
  { k, n, x, matrixRows, norm, hasBias, hasResidual }: MatvecParams,
  numRows: number,
) {
  const normal = makeNormal(5);
  const random = (length: number, size = 1) => new Float32Array(length).map(() => normal() * size);
  return {
    x: random(numRows * x.stride),
    weights: random(matrixRows * k, 1 / Math.sqrt(k)),
    gamma: norm && random(k),
    beta: norm?.hasBeta ? random(k) : undefined,
    bias: hasBias ? random(matrixRows) : undefined,
    residual: hasResidual ? random(numRows * n) : undefined,
  };
}

const readReader = ({ buffer }: Float32Array): ReadBytes => (offset, into) =>
  Promise.resolve(into.set(new Uint8Array(buffer, offset, into.length)));

/** Opens a product that can run repeatedly, and asserts that it does not write beyond its outputs. */
async function openProduct(
  params: MatvecParams,
  tensors: ReturnType<typeof makeTensors>,
  { numRows, threads = new KernelThreads(1) }: {
    readonly numRows: number;
    readonly threads?: KernelThreads;
  },
): Promise<() => Float32Array> {
  const { k, n, matrixRows } = params;
  const memory = new RowArena(numRows);
  const weights = memory.reserveFloatMatrix(k, matrixRows);
  const { x, gamma, beta = [], bias, residual } = tensors;
  const affine = gamma && Float32Array.of(...gamma, ...beta);
  const placed = Object.fromEntries(
    Object.entries({ x, affine, bias, residual }).flatMap(([name, values]) =>
      values ? [[name, memory.arena.place(values)]] : []
    ),
  );
  const out = memory.arena.reserve(numRows * n + 8);
  const rows = new SimdRows(threads, memory.allocate(threads.numThreads));
  const { kind } = params.weights as { kind: "rows" | "columns" };
  await rows.packFloatMatrix(
    weights,
    { kind, k, outputs: matrixRows },
    readReader(tensors.weights),
  );
  const kernel = rows.product(params, { ...placed, weights, out }, false);
  return () => {
    const result = rows.floats(out, numRows * n + 8).fill(7);
    kernel(numRows);
    assert.deepEqual(result.slice(numRows * n), new Float32Array(8).fill(7));
    return result.slice(0, numRows * n);
  };
}

const cases: readonly (readonly [string, MatvecParams])[] = [
  ["a plain product", PLAIN],
  ["weights stored by output", { ...PLAIN, weights: { kind: "rows" } }],
  ["many outputs, computed in parts", { ...PLAIN, n: 1061, matrixRows: 1061 }],
  ["more weights than are packed at a time", {
    ...PLAIN,
    k: 128,
    x: { stride: 128, offset: 0 },
    n: 20_001,
    matrixRows: 20_001,
  }],
  ["more weights than are packed at a time, stored by output", {
    ...PLAIN,
    k: 128,
    x: { stride: 128, offset: 0 },
    n: 20_003,
    matrixRows: 20_003,
    weights: { kind: "rows" },
  }],
  ["a norm, a bias, a gate, a scale and a residual", FULL],
  ["a soft cap", { ...FULL, softcap: 3 }],
  ["a bias and a residual, with an incomplete last group of outputs", {
    ...PLAIN,
    hasBias: true,
    hasResidual: true,
  }],
  ...ACTIVATIONS.map((activation) => [activation, { ...PLAIN, activation }] as const),
];
for (const [name, params] of cases) {
  Deno.test(`SimdRows.product() in f32 equals its reference: ${name}`, async () => {
    for (const numRows of [1, 2, 3, 4, 7]) {
      const tensors = makeTensors(params, numRows);
      const run = await openProduct(params, tensors, { numRows });
      assertClose(run(), matvecReference(params, tensors, numRows), EXACT);
    }
  });
}

Deno.test("SimdRows.product() in f32 gives a row the same bits alone and with others", async () => {
  const numRows = 7;
  const k = 256;
  const params = { ...FULL, k, x: { stride: k + 8, offset: 4 } };
  const tensors = makeTensors(params, numRows);
  const open = async (first: number, end: number) => {
    const x = tensors.x.slice(first * params.x.stride, end * params.x.stride);
    const residual = tensors.residual!.slice(first * params.n, end * params.n);
    return (await openProduct(params, { ...tensors, x, residual }, { numRows: end - first }))();
  };
  const together = await open(0, numRows);
  for (let first = 0; first < numRows; first++) {
    for (const end of [first + 1, first + 2, first + 4].filter((end) => end <= numRows)) {
      const wanted = together.subarray(first * params.n, end * params.n);
      assert.deepEqual(await open(first, end), wanted, `rows ${first} to ${end}`);
    }
  }
});

Deno.test("SimdRows.product() in f32 gives the same bits with any number of threads", async () => {
  const params = {
    ...FULL,
    ...{ k: 512, n: 2048, x: { stride: 512, offset: 0 }, matrixRows: 4100 },
    gate: { gateRow: 0, upRow: 2048 },
  };
  const numRows = 3;
  const tensors = makeTensors(params, numRows);
  const alone = (await openProduct(params, tensors, { numRows }))();
  const threads = new KernelThreads(3, { minFlops: 0 });
  try {
    const run = await openProduct(params, tensors, { numRows, threads });
    await untilHelped(threads, 20, () => assertSameValues(run(), alone));
  } finally {
    threads.dispose();
  }
});

Deno.test("SimdRows.product() in f32 refuses unsupported sizes", () => {
  const refused: readonly [Partial<MatvecParams>, RegExp][] = [
    [{ elem: "f16" }, /only take f32/],
    [{ out: { stride: 128, offset: 0 } }, /rows of their own/],
    [{ k: 34 }, /multiples of 8 by 4/],
    [{ gate: { gateRow: 4, upRow: 0 } }, /multiples of 8 by 4/],
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

const PART_SIZES = { usual: 64, least: 6, maxParts: 32 };

Deno.test("divideGroups() keeps threads busy for more than 85 % of the time", () => {
  for (const numThreads of [2, 3, 4, 6, 8, 12, 16, 32]) {
    for (const numGroups of [256, 768, 1024, 37_984]) {
      const groups = divideGroups(numGroups, numThreads, PART_SIZES);
      const numParts = Math.ceil(numGroups / groups);
      // In the last round, some threads may have no part.
      const rounds = Math.ceil(numParts / numThreads);
      const busy = numGroups / (rounds * numThreads * groups);
      assert.ok(busy > 0.85, `${numGroups} groups on ${numThreads} threads: ${busy} busy`);
    }
  }
});

Deno.test("divideGroups() makes no part larger for more threads, and none smaller than four groups", () => {
  for (const numGroups of [1, 5, 32, 64, 100, 256, 5000]) {
    const alone = divideGroups(numGroups, 1, PART_SIZES);
    assert.ok(alone <= Math.max(64, Math.ceil(numGroups / 32)), `${alone} of ${numGroups}`);
    for (const numThreads of [2, 5, 16, 64]) {
      const groups = divideGroups(numGroups, numThreads, PART_SIZES);
      assert.ok(groups <= alone && groups >= Math.min(numGroups, 4), `${groups} of ${numGroups}`);
    }
  }
});
