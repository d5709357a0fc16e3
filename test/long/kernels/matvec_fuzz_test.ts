/** `matvec` of random sizes, formats and layouts equals its reference, tiled for both classes of devices. */
import {
  chooseMatvecTiling,
  LEVEL_BITS,
  type MatrixFormat,
  type MatvecParams,
} from "../../../kernels/matmul/matvec_params.ts";
import { matvecReference } from "../../kernels/references/matvec_reference.ts";
import { HAS_F16, kernelTest } from "../../fixtures/engine/gpu.ts";
import { drawTensors, runMatvec } from "../../kernels/matvec_case.ts";
import { makeRandom, type Random } from "../../kernels/random_choices.ts";
import { assertClose } from "../../fixtures/engine/compare_values.ts";

const NUM_CASES = 10;
const MAX_ROWS = 9;
const TOLERANCE = { f32: { abs: 3e-4, rel: 3e-4 }, f16: { abs: 6e-3, rel: 6e-3 } } as const;

function makeParams({ int, pick }: Random): MatvecParams {
  const kind = pick(["nbits", "rows", "columns"]);
  const k = 4 * int(1, 90);
  const isGated = int(0, 2) === 0;
  // Gated columns are read in groups of four.
  const unit = isGated && kind === "columns" ? 4 : 1;
  const n = unit * int(1, 70 / unit);
  const gap = isGated ? unit * int(0, 2) : 0;
  const rows = pick([[0, n + gap], [n + gap, 0]]) as [number, number];
  const weights: MatrixFormat = kind === "nbits"
    ? {
      kind,
      bits: pick(LEVEL_BITS),
      blockSize: pick([32, 64, 128]),
      ...pick([{ hasZeroPoints: false }, { hasZeroPoints: true }, {
        ...{ hasZeroPoints: true, hasFloatZeroPoints: true },
      }]),
    }
    : { kind };
  const norm = pick(["none", "rms", "layer"]);
  const padding = int(0, 3);
  return {
    elem: HAS_F16 ? pick(["f32", "f16"]) : "f32",
    ...{ k, n, weights },
    x: { stride: k + 4 * padding, offset: 4 * int(0, padding) },
    matrixRows: isGated ? 2 * n + gap : n,
    norm: norm === "none"
      ? undefined
      : { kind: norm, epsilon: 1e-5, hasBeta: norm === "layer" && pick([true, false]) },
    hasBias: pick([true, false]),
    gate: isGated ? { gateRow: rows[0], upRow: rows[1] } : undefined,
    activation: pick(["none", "silu", "gelu_tanh", "tanh"]),
    scale: pick([1, 0.5]),
    softcap: pick([0, 3]),
    hasResidual: pick([true, false]),
  };
}

for (let seed = 1; seed <= NUM_CASES; seed++) {
  const random = makeRandom(seed);
  const params = makeParams(random);
  const { k, n, elem, weights, gate, norm } = params;
  const what = `${weights.kind} ${n} x ${k}${gate ? ", gated" : ""}, ${norm?.kind ?? "no"} norm`;
  kernelTest(`matvec of random shape ${seed}: ${what}, ${elem}`, async (gpu) => {
    const { int, fraction } = random;
    const tensors = drawTensors(params, {
      number: () => 2 * fraction() - 1,
      byte: () => int(0, 255),
    });
    const numRows = int(1, MAX_ROWS);
    const want = matvecReference(params, tensors, numRows);
    for (const isFallbackAdapter of [false, true]) {
      const tiling = chooseMatvecTiling({ isFallbackAdapter }, params);
      const got = await runMatvec(gpu, params, tensors, { numRows, tiling });
      assertClose(got, want, TOLERANCE[elem]);
    }
  });
}
