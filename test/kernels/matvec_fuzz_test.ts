/** `matvec` of random sizes, forms and layouts gives what its reference gives, tiled for both classes of devices. */
import { Matvec } from "../../kernels/matvec.ts";
import type { MatrixForm, MatvecParams } from "../../kernels/matvec_params.ts";
import { matvecReference, type ReferenceMatvecTensors } from "../../kernels/matvec_reference.ts";
import { chooseMatvecTiling } from "../../kernels/matvec_shape.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { HAS_F16, kernelTest } from "../fixtures/gpu.ts";
import { makeRandom, type Random } from "./random_choices.ts";
import { affineOf, assertClose, runAndRead, upload, uploadBytes } from "./tensors.ts";

const NUM_CASES = 10;
const MAX_ROWS = 9;
/** Rows that buffers have room for: whole groups of eight. */
const ROOM = 16;
const TOLERANCE = { f32: { abs: 3e-4, rel: 3e-4 }, f16: { abs: 6e-3, rel: 6e-3 } } as const;

function makeParams({ int, pick }: Random): MatvecParams {
  const kind = pick(["nbits", "rows", "columns"]);
  const k = 4 * int(1, 90);
  const isGated = int(0, 2) === 0;
  // Gated columns are read by four.
  const unit = isGated && kind === "columns" ? 4 : 1;
  const n = unit * int(1, 70 / unit);
  const gap = isGated ? unit * int(0, 2) : 0;
  const rows = pick([[0, n + gap], [n + gap, 0]]) as [number, number];
  const weights: MatrixForm = kind === "nbits"
    ? {
      kind,
      bits: pick([4, 8]) as 4 | 8,
      blockSize: pick([16, 32, 64, 128]),
      hasZeroPoints: pick([true, false]),
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

function makeTensors(
  { elem, k, n, x, matrixRows, weights, norm, hasBias, hasResidual }: MatvecParams,
  { int, fraction }: Random,
): ReferenceMatvecTensors {
  const floats = (length: number, size = 1) =>
    Float32Array.from({ length }, () => {
      const value = (2 * fraction() - 1) * size;
      return elem === "f16" ? Math.f16round(value) : value;
    });
  const bytes = (length: number) => Uint8Array.from({ length }, () => int(0, 255));
  const blocks = weights.kind === "nbits" ? Math.ceil(k / weights.blockSize) : 0;
  return {
    x: floats(ROOM * x.stride),
    ...weights.kind === "nbits"
      ? {
        weights: bytes(matrixRows * blocks * weights.blockSize * weights.bits / 8),
        scales: floats(matrixRows * blocks, weights.bits === 4 ? 0.02 : 0.001),
        zeroPoints: weights.hasZeroPoints
          ? bytes(matrixRows * Math.ceil(blocks * weights.bits / 8))
          : undefined,
      }
      : { weights: floats(matrixRows * k, 0.1) },
    gamma: norm && floats(k),
    beta: norm?.hasBeta ? floats(k) : undefined,
    bias: hasBias ? floats(matrixRows) : undefined,
    residual: hasResidual ? floats(ROOM * n) : undefined,
  };
}

async function check(
  gpu: GpuContext,
  params: MatvecParams,
  { tensors, numRows }: { readonly tensors: ReferenceMatvecTensors; readonly numRows: number },
): Promise<void> {
  const { elem, n } = params;
  const on = (values: Float32Array | undefined) => values && upload(gpu, values, elem);
  const { weights, zeroPoints } = tensors;
  const inputs = {
    x: on(tensors.x)!,
    weights: weights instanceof Uint8Array ? uploadBytes(gpu, weights) : on(weights)!,
    scales: on(tensors.scales),
    zeroPoints: zeroPoints && uploadBytes(gpu, zeroPoints),
    affine: on(affineOf(tensors)),
    bias: on(tensors.bias),
    residual: on(tensors.residual),
  };
  const want = matvecReference(params, tensors, numRows);
  for (const isFallbackAdapter of [false, true]) {
    const tiling = chooseMatvecTiling({ isFallbackAdapter }, params);
    const out = upload(gpu, new Float32Array(ROOM * n), elem);
    const kernel = new Matvec(gpu, params, tiling);
    const encode = (pass: GPUComputePassEncoder) =>
      kernel.encode(pass, { ...inputs, out }, numRows);
    const got = await runAndRead(gpu, encode, { buffer: out, length: numRows * n, elem });
    assertClose(got, want, TOLERANCE[elem]);
    out.destroy();
  }
  for (const buffer of Object.values(inputs)) buffer?.destroy();
}

for (let seed = 1; seed <= NUM_CASES; seed++) {
  const random = makeRandom(seed);
  const params = makeParams(random);
  const { k, n, elem, weights, gate, norm } = params;
  const what = `${weights.kind} ${n} x ${k}${gate ? ", gated" : ""}, ${norm?.kind ?? "no"} norm`;
  kernelTest(`matvec of random form ${seed}: ${what}, ${elem}`, async (gpu) => {
    const tensors = makeTensors(params, random);
    await check(gpu, params, { tensors, numRows: random.int(1, MAX_ROWS) });
  });
}
