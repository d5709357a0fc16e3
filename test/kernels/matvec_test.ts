import assert from "node:assert/strict";
import { ACTIVATIONS } from "../../kernels/common/activation.ts";
import { Matvec } from "../../kernels/matmul/matvec.ts";
import {
  chooseMatvecTiling,
  chooseValues,
  LEVEL_BITS,
  type MatvecParams,
  type MatvecTiling,
  numSums,
} from "../../kernels/matmul/matvec_params.ts";
import {
  matvecReference,
  matvecRow,
  type ReferenceMatvecTensors,
} from "./references/matvec_reference.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { HAS_F16, kernelTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "./exact_sampling.ts";
import { drawTensors, ROOM, runMatvec, runMatvecOfSums } from "./matvec_case.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { runAndRead, upload } from "./tensors.ts";

const TOLERANCE = { f32: { abs: 2e-4, rel: 2e-4 }, f16: { abs: 4e-3, rel: 4e-3 } } as const;
/** The tiling of a graphics card: adjacent threads along K. */
const HARDWARE: MatvecTiling = {
  lanes: 8,
  groups: 4,
  outs: 2,
  unitsFirst: false,
  rowCounts: [1, 4, 8],
  isUnrolled: true,
  hasTiles: false,
  isInt8: false,
};
const HARDWARE_COLUMNS: MatvecTiling = {
  lanes: 4,
  groups: 4,
  outs: 4,
  unitsFirst: true,
  rowCounts: [2, 8],
  isUnrolled: true,
  hasTiles: false,
  isInt8: false,
};

const PLAIN: MatvecParams = {
  elem: "f32",
  k: 64,
  n: 40,
  x: { stride: 64, offset: 0 },
  matrixRows: 40,
  weights: { kind: "rows" },
  hasBias: false,
  activation: "none",
  scale: 1,
  softcap: 0,
  hasResidual: false,
};

function makeTensors(params: MatvecParams): ReferenceMatvecTensors {
  const normal = makeNormal(1);
  const byte = () => Math.floor(Math.abs(normal()) * 1e4) % 256;
  const tensors = drawTensors(params, { number: normal, byte });
  return { ...tensors, x: tensors.x.map((value, i) => i % 37 === 0 ? value * 8 : value) };
}

async function check(
  gpu: GpuContext,
  params: MatvecParams,
  options: { numRows?: number; tiling?: MatvecTiling | undefined } = {},
): Promise<void> {
  const { numRows = 3, tiling } = options;
  const tensors = makeTensors(params);
  const want = matvecReference(params, tensors, numRows);
  const got = await runMatvec(gpu, params, tensors, { numRows, tiling });
  assertClose(got, want, TOLERANCE[params.elem]);
}

for (const elem of ["f32", "f16"] as const) {
  const ignore = elem === "f16" && !HAS_F16;
  for (const bits of LEVEL_BITS) {
    kernelTest(
      `matvec equals its reference with weights of ${bits} bits in blocks of 16 to 256, ${elem}`,
      async (gpu) => {
        for (const [index, blockSize] of [16, 32, 64, 128, 256].entries()) {
          if (bits * blockSize < 32) continue;
          // Zero points alternate between block sizes, so that each block size is tested with and without them.
          const isEven = (index + (elem === "f16" ? 1 : 0)) % 2 === 0;
          for (const tiling of [undefined, HARDWARE]) {
            const hasZeroPoints = isEven === (tiling === undefined);
            const weights = { kind: "nbits", bits, blockSize, hasZeroPoints } as const;
            // 13 outputs leave part of a workgroup idle; 320 is not a multiple of 128 or 256.
            const sizes = { k: 320, n: 13, matrixRows: 13, x: { stride: 320, offset: 0 } };
            await check(gpu, { ...PLAIN, elem, ...sizes, weights }, { tiling });
          }
        }
      },
      { ignore },
    );
  }

  kernelTest(
    `matvec equals its reference with float zero points, ${elem}`,
    async (gpu) => {
      for (const bits of [4, 8] as const) {
        const zeros = { hasZeroPoints: true, hasFloatZeroPoints: true };
        const weights = { kind: "nbits", bits, blockSize: 64, ...zeros } as const;
        const params = { ...PLAIN, elem, k: 128, x: { stride: 128, offset: 0 }, weights };
        await check(gpu, params);
        await check(gpu, params, { tiling: HARDWARE });
        await check(gpu, params, { tiling: { ...HARDWARE, hasTiles: true }, numRows: 100 });
      }
    },
    { ignore },
  );

  for (const kind of ["rows", "columns"] as const) {
    kernelTest(
      `matvec equals its reference with a matrix stored by ${kind}, ${elem}`,
      async (gpu) => {
        const tiling = kind === "rows" ? HARDWARE : HARDWARE_COLUMNS;
        const all = [[4, 4], [64, 40], [172, 64], [68, 512], [60, 36], [64, 29]] as const;
        // Fewer sizes for f16: its loops and edges are the same as those of f32.
        for (const [k, n] of elem === "f32" ? all : [all[0], all[2], all[5]]) {
          const sizes = { k, n, matrixRows: n, x: { stride: k, offset: 0 } };
          const params = { ...PLAIN, elem, ...sizes, weights: { kind } };
          await check(gpu, params);
          await check(gpu, params, { tiling });
        }
      },
      { ignore },
    );
  }

  kernelTest(
    `matvec equals its reference with every operation before and after the product, ${elem}`,
    async (gpu) => {
      const nbits = { kind: "nbits", bits: 4, blockSize: 32, hasZeroPoints: false } as const;
      const forms = [
        { weights: nbits, tiling: HARDWARE },
        { weights: { kind: "rows" }, tiling: HARDWARE },
        { weights: { kind: "columns" }, tiling: { ...HARDWARE_COLUMNS, outs: 8 } },
      ] as const;
      for (const { weights, tiling } of forms) {
        for (const kind of ["rms", "layer"] as const) {
          const params: MatvecParams = {
            ...PLAIN,
            elem,
            weights,
            // Part of a wider row, and a matrix with unused rows between those of `up` and of the gate.
            x: { stride: 96, offset: 12 },
            matrixRows: 84,
            norm: { kind, epsilon: 1e-5, hasBeta: kind === "layer" },
            hasBias: true,
            gate: { gateRow: 44, upRow: 0 },
            activation: "silu",
            scale: 0.5,
            softcap: 3,
            hasResidual: true,
          };
          await check(gpu, params);
          await check(gpu, params, { tiling });
        }
      }
    },
    { ignore },
  );
}

for (const elem of ["f32", "f16"] as const) {
  kernelTest(
    `matvec equals its reference with rows that are sums, and writes the sums, ${elem}`,
    async (gpu) => {
      const nbits = { kind: "nbits", bits: 4, blockSize: 32, hasZeroPoints: true } as const;
      const norms = [
        undefined,
        ...(["rms", "layer"] as const).map((kind) => ({
          ...{ kind, epsilon: 1e-5, hasBeta: kind === "layer" },
        })),
      ];
      const forms = [
        { weights: nbits, tiling: HARDWARE },
        { weights: { kind: "rows" }, tiling: HARDWARE },
        { weights: { kind: "columns" }, tiling: HARDWARE_COLUMNS },
      ] as const;
      for (const { weights, tiling: hardware } of forms) {
        for (const norm of norms) {
          const gate = norm && { gateRow: 44, upRow: 0 };
          const params: MatvecParams = {
            ...{ ...PLAIN, elem, weights, norm, gate },
            // Several workgroups, one of which writes the sums.
            ...gate ? { matrixRows: 84 } : { n: 150, matrixRows: 150 },
            x: { stride: 96, offset: 12 },
            sum: { epsilon: 1e-4 },
            hasBias: true,
          };
          const tensors = makeTensors(params);
          const tiling = gate && weights.kind === "columns" ? { ...hardware, outs: 8 } : hardware;
          for (const numRows of [1, 9]) {
            for (const each of [undefined, tiling]) {
              const got = await runMatvecOfSums(gpu, params, tensors, { numRows, tiling: each });
              assertClose(got.out, matvecReference(params, tensors, numRows), TOLERANCE[elem]);
              const sums = Array.from({ length: numRows }, (_, row) => [
                ...matvecRow(params, tensors, row),
              ]);
              assertClose(got.sum, Float32Array.from(sums.flat()), TOLERANCE[elem]);
            }
          }
        }
      }
    },
    { ignore: elem === "f16" && !HAS_F16 },
  );
}

kernelTest("matvec runs with the tiling of a graphics card on every device", async (gpu) => {
  const nbits = { kind: "nbits", bits: 4, blockSize: 32, hasZeroPoints: true } as const;
  const k = 512;
  for (const weights of [nbits, { kind: "rows" }, { kind: "columns" }] as const) {
    for (const gate of [undefined, { gateRow: 0, upRow: 20 }]) {
      const params: MatvecParams = {
        ...{ ...PLAIN, k, x: { stride: k, offset: 0 }, n: gate ? 20 : 40, weights, gate },
        norm: { kind: "rms", epsilon: 1e-5, hasBeta: false },
      };
      const tiling = chooseMatvecTiling({ isFallbackAdapter: false }, params);
      for (const rows of tiling.rowCounts) {
        // Not every device refuses a kernel that needs more workgroup memory than it has.
        const variant = { ...tiling, rows };
        const totals = chooseValues(params, variant).count * tiling.groups;
        const floats = numSums(params, variant) + totals + 64;
        assert.ok(4 * floats <= 16384, `${4 * floats} bytes for ${rows} rows of ${weights.kind}`);
        assert.ok(tiling.lanes * tiling.groups <= 256);
      }
      for (const numRows of [1, 8]) await check(gpu, params, { numRows, tiling });
    }
  }
});

for (const elem of ["f32", "f16"] as const) {
  kernelTest(`matvec equals its reference with many rows in tiles, ${elem}`, async (gpu) => {
    const nbits = { kind: "nbits", bits: 4, blockSize: 32, hasZeroPoints: false } as const;
    const rms = { kind: "rms", epsilon: 1e-5, hasBeta: false } as const;
    const k = 96;
    const plain = { ...PLAIN, elem, k, x: { stride: k + 8, offset: 8 }, hasBias: true };
    const gated = {
      ...{ matrixRows: 84, gate: { gateRow: 44, upRow: 0 } },
      activation: "silu",
    } as const;
    // The last tile of outputs is partly filled.
    const whole = { n: 70, matrixRows: 70, hasResidual: true };
    const cases: MatvecParams[] = [
      { ...plain, ...whole, weights: nbits },
      { ...plain, ...gated, weights: { ...nbits, hasZeroPoints: true }, norm: rms },
      { ...plain, ...whole, weights: { ...nbits, bits: 8, blockSize: 16 }, norm: rms },
      { ...plain, ...gated, weights: { ...nbits, bits: 2, blockSize: 16 }, norm: rms },
      { ...plain, ...whole, weights: { ...nbits, bits: 1, hasZeroPoints: true } },
      { ...plain, ...gated, weights: { kind: "rows" }, norm: rms },
      { ...plain, ...whole, weights: { kind: "columns" } },
      { ...plain, ...gated, weights: { kind: "columns" }, norm: rms },
    ];
    for (const params of cases) {
      const tiling = params.weights.kind === "columns" ? HARDWARE_COLUMNS : HARDWARE;
      const tiled = { ...tiling, hasTiles: true };
      for (const numRows of [1, 100]) await check(gpu, params, { numRows, tiling: tiled });
    }
  }, { ignore: elem === "f16" && !HAS_F16 });
}

kernelTest("matvec writes a part of each row and leaves the rest unchanged", async (gpu) => {
  for (const tiling of [undefined, HARDWARE]) {
    const params = { ...PLAIN, n: 13, matrixRows: 13 };
    const tensors = makeTensors(params);
    const numRows = 3;
    const out = upload(gpu, new Float32Array(ROOM * 32).fill(7), "f32");
    const kernel = new Matvec(gpu, { ...params, out: { stride: 32, offset: 5 } }, tiling);
    const x = upload(gpu, tensors.x, "f32");
    const weights = upload(gpu, tensors.weights as Float32Array, "f32");
    const got = await runAndRead(gpu, (pass) => kernel.encode(pass, { x, weights, out }, numRows), {
      buffer: out,
      length: numRows * 32,
      elem: "f32",
    });
    const want = matvecReference(params, tensors, numRows);
    const isPart = (i: number) => i % 32 >= 5 && i % 32 < 18;
    assertClose(got.filter((_, i) => isPart(i)), want, TOLERANCE.f32);
    assert.ok(got.every((value, i) => isPart(i) || value === 7));
  }
});

kernelTest("matvec equals its reference with each activation", async (gpu) => {
  for (const activation of ACTIVATIONS) await check(gpu, { ...PLAIN, activation });
});

kernelTest("matvec gives a row the same result in steps of 1 to 16 rows", async (gpu) => {
  const weights = { kind: "nbits", bits: 4, blockSize: 32, hasZeroPoints: false } as const;
  const norm = { kind: "rms", epsilon: 1e-6, hasBeta: false } as const;
  const others = [{ hasResidual: true }, { sum: { epsilon: 1e-6 } }];
  for (
    const [tiling, other] of [undefined, HARDWARE].flatMap((each) =>
      others.map((other) => [each, other] as const)
    )
  ) {
    const params = { ...PLAIN, weights, norm, ...other };
    const tensors = makeTensors(params);
    const all = await runMatvec(gpu, params, tensors, { numRows: 16, tiling });
    assertClose(all, matvecReference(params, tensors, 16), TOLERANCE.f32);
    for (let numRows = 1; numRows < 16; numRows++) {
      const some = await runMatvec(gpu, params, tensors, { numRows, tiling });
      assert.deepEqual(some, all.subarray(0, numRows * params.n), `${numRows} rows`);
    }
  }
});

kernelTest("Matvec refuses unsupported sizes, and names their values", (gpu) => {
  const make = (params: Partial<MatvecParams>) => () => new Matvec(gpu, { ...PLAIN, ...params });
  assert.throws(make({ k: 66 }), /Rows of 66 elements/);
  const gate = { gateRow: 0, upRow: 41 };
  assert.throws(make({ weights: { kind: "columns" }, matrixRows: 82, n: 41, gate }), /82 columns/);
  const weights = { kind: "nbits", bits: 4, blockSize: 24, hasZeroPoints: false } as const;
  assert.throws(make({ weights }), /Blocks of 24 levels/);
  const short = { kind: "nbits", bits: 1, blockSize: 16, hasZeroPoints: false } as const;
  assert.throws(make({ weights: short }), /Blocks of 16 levels of 1 bits/);
  // More workgroups than a dispatch allows.
  assert.throws(make({ n: 600_000, matrixRows: 600_000 }), /600000 outputs.*524280 at most/);
  for (const isFallbackAdapter of [false, true]) {
    for (const kind of ["rows", "columns"] as const) {
      for (const gate of [undefined, { gateRow: 0, upRow: 40 }]) {
        const params = { ...PLAIN, weights: { kind }, gate };
        const { groups, outs } = chooseMatvecTiling({ isFallbackAdapter }, params);
        assert.ok(groups * outs / (gate ? 2 : 1) >= (gate ? 4 : 8));
      }
    }
  }
  assert.throws(make({ sum: { epsilon: 1e-5 }, hasResidual: true }), /one tensor to add/);
});
