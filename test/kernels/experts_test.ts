import assert from "node:assert/strict";
import { type ExpertBuffers, Experts, ExpertsScratch } from "../../kernels/experts/experts.ts";
import { checkExperts, type ExpertsParams } from "../../kernels/experts/experts_params.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import type { Elem } from "../../src/gpu/kernel.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { HAS_F16, kernelTest } from "../fixtures/engine/gpu.ts";
import { CASES, makeTensors } from "./experts_case.ts";
import {
  expertsReference,
  type ReferenceMatrices,
  type ReferenceTensors,
  routeReference,
} from "./references/experts_reference.ts";
import { runAndRead, upload, uploadBytes } from "./tensors.ts";

const NUM_ROWS = 75;
const VARIANTS = [["few", true], ["many", false]] as const;

function uploadMatrices(
  gpu: GpuContext,
  { levels, scales, zeroPoints, weights, bias }: ReferenceMatrices,
  elem: Elem,
): ExpertBuffers {
  const floats = (values: ArrayLike<number> | undefined) =>
    values && upload(gpu, Float32Array.from(values), elem);
  return {
    weights: levels ? uploadBytes(gpu, levels) : floats(weights)!,
    scales: floats(scales),
    zeroPoints: zeroPoints && uploadBytes(gpu, zeroPoints),
    bias: floats(bias),
  };
}

/** Runs the kernels on the first `numRows` rows. */
async function run(
  gpu: GpuContext,
  params: ExpertsParams,
  tensors: ReferenceTensors,
  { numRows, isFew }: { readonly numRows: number; readonly isFew: boolean },
): Promise<Float32Array> {
  const { elem, hidden } = params;
  const scratch = new ExpertsScratch(gpu, [params], NUM_ROWS);
  const kernels = new Experts(gpu, scratch, params);
  const out = upload(gpu, new Float32Array(NUM_ROWS * hidden).fill(NaN), elem);
  const buffers = {
    x: upload(gpu, Float32Array.from(tensors.x), elem),
    logits: upload(gpu, Float32Array.from(tensors.logits), elem),
    routerBias: tensors.routerBias && upload(gpu, Float32Array.from(tensors.routerBias), "f32"),
    first: uploadMatrices(gpu, tensors.first, elem),
    second: uploadMatrices(gpu, tensors.second, elem),
    out,
  };
  const encode = (pass: GPUComputePassEncoder) => kernels.encode(pass, buffers, { numRows, isFew });
  const result = await runAndRead(gpu, encode, { buffer: out, length: numRows * hidden, elem });
  scratch.dispose();
  return result;
}

for (const [name, params] of Object.entries(CASES)) {
  const tensors = makeTensors(params, NUM_ROWS);
  const wanted = expertsReference(params, tensors, NUM_ROWS);
  for (const elem of HAS_F16 ? ["f32", "f16"] as const : ["f32"] as const) {
    for (const [variant, isFew] of VARIANTS) {
      kernelTest(
        `Experts for ${variant} rows in ${elem} equals its reference: ${name}`,
        async (gpu) => {
          const got = await run(gpu, { ...params, elem }, tensors, { numRows: NUM_ROWS, isFew });
          const [abs, rel] = elem === "f16" ? [8e-3, 1e-3] : [3e-5, 1e-5];
          assertClose(got, wanted, { abs, rel });
        },
      );
    }
  }
}

for (const [variant, isFew] of VARIANTS) {
  kernelTest(
    `Experts for ${variant} rows gives a row the same bits alone and with others`,
    async (gpu) => {
      const params = Object.values(CASES)[0]!;
      const { hidden } = params;
      const tensors = makeTensors(params, NUM_ROWS);
      const all = await run(gpu, params, tensors, { numRows: NUM_ROWS, isFew });
      for (const row of [0, 33, NUM_ROWS - 1]) {
        const own = {
          ...tensors,
          x: Array.from(tensors.x).slice(row * params.x.stride),
          logits: Array.from(tensors.logits).slice(row * params.logits.stride),
        };
        const alone = await run(gpu, params, own, { numRows: 1, isFew });
        assert.deepEqual(alone, all.slice(row * hidden, (row + 1) * hidden));
      }
    },
  );
}

for (const prefersLast of [false, true]) {
  kernelTest(
    `Experts takes the ${prefersLast ? "last" : "first"} of experts with equal scores`,
    async (gpu) => {
      const base = Object.values(CASES)[0]!;
      const params = { ...base, router: { ...base.router, prefersLast } };
      const tensors = { ...makeTensors(params, 2), logits: [1, 3, 2, 3, 3, 0, 0, 0, 0, 0, 0, 0] };
      const chosen = routeReference(params, tensors, 0).map(({ expert }) => expert);
      assert.deepEqual(chosen, prefersLast ? [4, 3] : [1, 3]);
      const got = await run(gpu, params, tensors, { numRows: 2, isFew: true });
      assertClose(got, expertsReference(params, tensors, 2), { abs: 3e-5, rel: 1e-5 });
    },
  );
}

Deno.test("checkExperts() refuses sizes that the kernels do not support", () => {
  const base = Object.values(CASES)[0]!;
  assert.throws(() => checkExperts({ ...base, topK: 7 }), /7 of 6 experts/);
  assert.throws(() => checkExperts({ ...base, inner: 48 }), /96 by 48: the kernels take multiples/);
  assert.throws(() => checkExperts({ ...base, x: { stride: 97, offset: 0 } }), /stride of 97/);
  const odd = { matrix: { ...base.first.matrix, blockSize: 64 } as never, hasBias: false };
  assert.throws(() => checkExperts({ ...base, first: odd }), /Blocks of 64 weights in rows of 96/);
});
