import assert from "node:assert/strict";
import type { ExpertLayer, ExpertSource } from "../../kernels/experts/experts_memory.ts";
import { orderByExpert, routeRows, SimdExperts } from "../../kernels/experts/experts_simd.ts";
import type { ExpertsParams } from "../../kernels/experts/experts_params.ts";
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { CASES, makeTensors } from "./experts_case.ts";
import {
  expertsReference,
  type ReferenceMatrices,
  type ReferenceTensors,
  routeReference,
} from "./references/experts_reference.ts";

/** More rows than the kernel computes at a time. */
const NUM_ROWS = 131;

function getSource(
  { levels, scales, zeroPoints, weights, bias }: ReferenceMatrices,
  isHalf: boolean,
): ExpertSource {
  const numbers = isHalf ? new Float16Array(weights ?? []) : Float32Array.from(weights ?? []);
  const bytes = levels ?? new Uint8Array(numbers.buffer);
  return {
    weights: (offset, into) =>
      Promise.resolve(into.set(bytes.subarray(offset, offset + into.length))),
    isHalf: levels === undefined && isHalf,
    scales: scales && Float32Array.from(scales),
    zeroPoints,
    bias: bias && Float32Array.from(bias),
  };
}

function getLayer(params: ExpertsParams, tensors: ReferenceTensors, isHalf = false): ExpertLayer {
  return {
    params,
    routerBias: tensors.routerBias && Float32Array.from(tensors.routerBias),
    first: getSource(tensors.first, isHalf),
    second: getSource(tensors.second, isHalf),
  };
}

async function run(
  layers: readonly ExpertLayer[],
  tensors: ReferenceTensors,
  { numRows, layer = 0, threads = new KernelThreads(1) }: {
    readonly numRows: number;
    readonly layer?: number;
    readonly threads?: KernelThreads;
  },
): Promise<Float32Array> {
  const experts = await SimdExperts.open(threads, layers);
  const out = new Float32Array(numRows * layers[layer]!.params.hidden).fill(NaN);
  const [x, logits] = [Float32Array.from(tensors.x), Float32Array.from(tensors.logits)];
  experts.run(layer, { x, logits, out, numRows });
  experts.dispose();
  return out;
}

for (const [name, params] of Object.entries(CASES)) {
  const tensors = makeTensors(params, NUM_ROWS);
  const wanted = expertsReference(params, tensors, NUM_ROWS);
  const kinds = params.first.matrix.kind === "rows" ? [false, true] : [false];
  for (const isHalf of kinds) {
    Deno.test(`SimdExperts equals its reference${isHalf ? ", weights in f16" : ""}: ${name}`, async () => {
      const got = await run([getLayer(params, tensors, isHalf)], tensors, { numRows: NUM_ROWS });
      assertClose(got, wanted, { abs: 1e-2, rel: 1e-3 });
      // With quantised weights, rows are rounded to 16 bits, which loses less than half as much as f16 (2e-4).
      // Otherwise they stay in f32.
      const error = Math.hypot(...got.map((value, i) => value - wanted[i]!));
      const most = params.first.matrix.kind === "rows" ? 1e-6 : 1e-4;
      assert.ok(
        error < most * Math.hypot(...wanted),
        `${error / Math.hypot(...wanted)} of the whole`,
      );
    });
  }
}

Deno.test("SimdExperts gives a row the same bits in any batch, on any number of threads", async () => {
  const params = Object.values(CASES)[0]!;
  const tensors = makeTensors(params, NUM_ROWS);
  const layers = [getLayer(params, tensors)];
  const all = await run(layers, tensors, { numRows: NUM_ROWS });
  const threads = new KernelThreads(3, { minFlops: 0 });
  assert.deepEqual(await run(layers, tensors, { numRows: NUM_ROWS, threads }), all);
  threads.dispose();
  for (const row of [0, 33, NUM_ROWS - 1]) {
    const own = {
      ...tensors,
      x: Array.from(tensors.x).slice(row * params.x.stride),
      logits: Array.from(tensors.logits).slice(row * params.logits.stride),
    };
    const alone = await run(layers, own, { numRows: 1 });
    assert.deepEqual(alone, all.slice(row * params.hidden, (row + 1) * params.hidden));
  }
});

Deno.test("SimdExperts computes layers of different sizes in one memory", async () => {
  const [one, two] = [Object.values(CASES)[0]!, Object.values(CASES)[5]!];
  const tensors = [one, two].map((params) => makeTensors(params, 3));
  const layers = [one, two].map((params, i) => getLayer(params, tensors[i]!));
  for (const [layer, params] of [one, two].entries()) {
    const got = await run(layers, tensors[layer]!, { numRows: 3, layer });
    assertClose(got, expertsReference(params, tensors[layer]!, 3), { abs: 2e-3, rel: 2e-4 });
  }
});

Deno.test("routeRows() chooses and weights experts like the reference", () => {
  for (const params of Object.values(CASES)) {
    const tensors = makeTensors(params, 9);
    const bias = tensors.routerBias && Float32Array.from(tensors.routerBias);
    const { experts, weights } = routeRows(params, tensors.logits, { first: 2, numRows: 7, bias });
    const wanted = Array.from({ length: 7 }, (_, row) => routeReference(params, tensors, row + 2));
    assert.deepEqual([...experts], wanted.flatMap((row) => row.map(({ expert }) => expert)));
    assertClose(weights, wanted.flatMap((row) => row.map(({ weight }) => weight)), { abs: 1e-6 });
  }
});

Deno.test("orderByExpert() groups pairs by expert, and omits experts without pairs", () => {
  const { pairs, items } = orderByExpert(Uint32Array.of(4, 1, 0, 4, 1, 1), 5);
  assert.deepEqual([...pairs], [2, 1, 4, 5, 0, 3]);
  assert.deepEqual([...items], [0, 0, 1, 1, 1, 4, 4, 4, 6]);
});
