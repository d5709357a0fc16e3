import assert from "node:assert/strict";
import { chooseMatvecTiling, type MatvecParams } from "../../kernels/matmul/matvec_params.ts";
import {
  matvecReference,
  normalizeRow,
  type ReferenceMatvecTensors,
} from "./references/matvec_reference.ts";
import { takesInt8 } from "../../kernels/matmul/int8_products.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { HAS_F16, kernelTest, withLimits } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "./exact_sampling.ts";
import { drawTensors, ROOM, runMatvec } from "./matvec_case.ts";

const TOLERANCE = { f32: { abs: 3e-3, rel: 3e-3 }, f16: { abs: 1e-2, rel: 1e-2 } } as const;
const NBITS = {
  kind: "nbits",
  bits: 4,
  blockSize: 32,
  hasZeroPoints: false,
  allowsInt8: true,
} as const;
const RMS = { kind: "rms", epsilon: 1e-6, hasBeta: false } as const;

const PLAIN: MatvecParams = {
  ...{ elem: "f32", k: 256, n: 70, matrixRows: 70, x: { stride: 256, offset: 0 }, weights: NBITS },
  ...{ hasBias: false, activation: "none", scale: 1, softcap: 0, hasResidual: false },
};
const sized = (k: number) => ({ k, x: { stride: k + 8, offset: 8 } });
const GATED = {
  matrixRows: 150,
  gate: { gateRow: 76, upRow: 2 },
  activation: "silu",
  hasBias: true,
} as const;
/** Cases: rows whose blocks do not fill a stage, several stages per row, zero points, and all epilogues. */
const CASES: Readonly<Record<string, Partial<MatvecParams>>> = {
  "without a norm": {},
  "after a norm": { ...sized(96), norm: RMS },
  "gated": { ...sized(160), ...GATED, norm: RMS },
  "with zero points": {
    ...sized(192),
    ...{ weights: { ...NBITS, blockSize: 64, hasZeroPoints: true }, hasResidual: true },
  },
  "of long rows": { ...sized(4608), norm: RMS, hasBias: true, n: 20, matrixRows: 20 },
  "scaled and capped": { ...sized(128), scale: 0.5, softcap: 3, hasResidual: true },
};

function makeTensors(params: MatvecParams): ReferenceMatvecTensors {
  const normal = makeNormal(7);
  const byte = () => Math.floor(Math.abs(normal()) * 1e4) % 256;
  const tensors = drawTensors(params, { number: normal, byte });
  return { ...tensors, x: tensors.x.map((value, i) => i % 41 === 0 ? value * 8 : value) };
}

/**
 * Normalises rows, and rounds them as the products do: the largest magnitude in a block of 32 elements becomes 127
 * steps.
 */
function roundRows(params: MatvecParams, tensors: ReferenceMatvecTensors): Float32Array {
  const { k, x, norm } = params;
  const rounded = new Float32Array(ROOM * k);
  for (let row = 0; row < ROOM; row++) {
    const values = tensors.x.subarray(row * x.stride + x.offset).subarray(0, k);
    const input = norm ? normalizeRow(values, norm, tensors) : Float64Array.from(values);
    for (let at = 0; at < k; at += 32) {
      const block = input.subarray(at, at + 32);
      const step = block.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127;
      rounded.set(
        block.map((value) => step === 0 ? 0 : Math.round(value / step) * step),
        row * k + at,
      );
    }
  }
  return rounded;
}

async function run(
  gpu: GpuContext,
  params: MatvecParams,
  tensors: ReferenceMatvecTensors,
  numRows: number,
): Promise<Float32Array> {
  const tiling = chooseMatvecTiling({ isFallbackAdapter: false }, params);
  return await runMatvec(gpu, params, tensors, { numRows, tiling });
}

for (const elem of ["f32", "f16"] as const) {
  for (const [name, changed] of Object.entries(CASES)) {
    kernelTest(
      `products of rows rounded to 8 bits equal the reference, ${name}, ${elem}`,
      async (gpu) => {
        const params = { ...PLAIN, elem, ...changed };
        assert.ok(takesInt8(gpu, params));
        const tensors = makeTensors(params);
        const plain = { ...params, norm: undefined, x: { stride: params.k, offset: 0 } };
        const input = { ...tensors, x: roundRows(params, tensors) };
        const want = matvecReference(plain, input, 100);
        const all = await run(gpu, params, tensors, 100);
        assertClose(all, want, TOLERANCE[elem]);
        // Bit-identical in every variant.
        for (const numRows of [1, 2, 8, 9, 16, 17, 32, 33, 64]) {
          const some = await run(gpu, params, tensors, numRows);
          assert.deepEqual(some, all.subarray(0, numRows * params.n), `${numRows} rows`);
        }
      },
      { ignore: elem === "f16" && !HAS_F16 },
    );
  }
}

kernelTest("products give a row the same bits in small and large tiles", async (gpu) => {
  const params = { ...PLAIN, ...sized(128), norm: RMS };
  const tensors = makeTensors(params);
  const many = await run(gpu, params, tensors, ROOM);
  // More than 128 rows use the largest tile.
  const device = withLimits(gpu, { maxComputeWorkgroupStorageSize: 32768 });
  assert.deepEqual(await run(device, params, tensors, ROOM), many);
  assert.deepEqual(await run(gpu, params, tensors, 3), many.subarray(0, 3 * params.n));
});

kernelTest(
  "products give the same bits with an existing program, until their own is compiled",
  async (gpu) => {
    const params = { ...PLAIN, ...sized(128), norm: RMS };
    const tensors = makeTensors(params);
    for (const isInt8 of [true, false]) {
      const tiling = { ...chooseMatvecTiling({ isFallbackAdapter: false }, params), isInt8 };
      for (const numRows of [3, 8, 20]) {
        const before = await runMatvec(gpu, params, tensors, { numRows, tiling, isNew: true });
        assert.ok(gpu.later.splice(0).length > 0);
        assert.deepEqual(before, await runMatvec(gpu, params, tensors, { numRows, tiling }));
      }
    }
  },
);

kernelTest(
  "takesInt8() is true only if the model allows rounded rows and the kernel supports the product",
  (gpu) => {
    const takes = (changed: Partial<MatvecParams>) => takesInt8(gpu, { ...PLAIN, ...changed });
    assert.ok(takes({}));
    assert.ok(!takes({ weights: { ...NBITS, allowsInt8: false } }));
    assert.ok(!takes({ weights: { ...NBITS, bits: 8 } }));
    assert.ok(!takes({ weights: { ...NBITS, blockSize: 16 } }));
    assert.ok(!takes({ weights: { kind: "rows" } }));
    assert.ok(!takes({ norm: { kind: "layer", epsilon: 1e-5, hasBeta: true } }));
    assert.ok(!takes({ sum: { epsilon: 1e-5 } }));
    // A software adapter computes in f32.
    assert.ok(!chooseMatvecTiling({ isFallbackAdapter: true }, PLAIN).isInt8);
  },
);
