/**
 * Makes random tensors for parameters of `matvec`, and runs the kernel on a device.
 *
 * @module
 */
import { Matvec } from "../../kernels/matmul/matvec.ts";
import type { MatvecParams, MatvecTiling } from "../../kernels/matmul/matvec_params.ts";
import type { ReferenceMatvecTensors } from "./references/matvec_reference.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { makeAffine, runAndRead, upload, uploadBytes } from "./tensors.ts";

/** Capacity of the buffers in rows: a multiple of a tile's 64 rows, and more than 128. */
export const ROOM = 192;

/** Source of random values. */
export interface Draw {
  /** A number with a magnitude of about 1. */
  readonly number: () => number;
  readonly byte: () => number;
}

/** Makes tensors of {@linkcode ROOM} rows, in the sizes and layouts that the parameters require. */
export function drawTensors(params: MatvecParams, { number, byte }: Draw): ReferenceMatvecTensors {
  const { elem, k, n, matrixRows, x, weights, norm, sum, hasBias, hasResidual } = params;
  const floats = (length: number, size = 1) =>
    Float32Array.from({ length }, () => {
      const value = number() * size;
      return elem === "f16" ? Math.f16round(value) : value;
    });
  const bytes = (length: number) => Uint8Array.from({ length }, byte);
  const blocks = weights.kind === "nbits" ? Math.ceil(k / weights.blockSize) : 0;
  return {
    x: floats(ROOM * x.stride),
    ...weights.kind === "nbits"
      ? {
        weights: bytes(matrixRows * blocks * weights.blockSize * weights.bits / 8),
        scales: floats(matrixRows * blocks, weights.bits === 8 ? 0.001 : 0.02),
        zeroPoints: weights.hasFloatZeroPoints
          ? floats(matrixRows * blocks).map((x) => 2 ** (weights.bits - 1) * (1 + x / 4))
          : weights.hasZeroPoints
          ? bytes(matrixRows * Math.ceil(blocks * weights.bits / 8))
          : undefined,
      }
      : { weights: floats(matrixRows * k, 0.1) },
    gamma: norm && floats(k),
    beta: norm?.hasBeta ? floats(k) : undefined,
    bias: hasBias ? floats(matrixRows) : undefined,
    sumGamma: sum && floats(k),
    residual: sum ? floats(ROOM * k) : hasResidual ? floats(ROOM * n) : undefined,
  };
}

/** Output of a run. */
export interface MatvecRun {
  /** `[numRows, n]`. */
  readonly out: Float32Array;
  /** `[numRows, k]`; empty without `params.sum`. */
  readonly sum: Float32Array;
}

/** Options of a run. */
interface MatvecRunOptions {
  readonly numRows: number;
  readonly tiling?: MatvecTiling | undefined;
  /** Whether the kernel has only the programs that `compile()` makes when a model is opened. */
  readonly isNew?: boolean;
}

/** @returns `[numRows, n]`. */
export async function runMatvec(
  gpu: GpuContext,
  params: MatvecParams,
  tensors: ReferenceMatvecTensors,
  options: MatvecRunOptions,
): Promise<Float32Array> {
  return (await runMatvecOfSums(gpu, params, tensors, options)).out;
}

export async function runMatvecOfSums(
  gpu: GpuContext,
  params: MatvecParams,
  tensors: ReferenceMatvecTensors,
  { numRows, tiling, isNew = false }: MatvecRunOptions,
): Promise<MatvecRun> {
  const { elem, k, n } = params;
  const optional = (values: Float32Array | undefined) => values && upload(gpu, values, elem);
  const out = upload(gpu, new Float32Array(ROOM * n), elem);
  const sum = params.sum && upload(gpu, new Float32Array(ROOM * k), elem);
  const { weights, zeroPoints, sumGamma, bias } = tensors;
  const affine = makeAffine(tensors);
  const vectors = [sumGamma, affine, bias].flatMap((values) => values ? [...values] : []);
  const buffers = {
    x: upload(gpu, tensors.x, elem),
    weights: weights instanceof Uint8Array ? uploadBytes(gpu, weights) : upload(gpu, weights, elem),
    scales: optional(tensors.scales),
    zeroPoints: zeroPoints instanceof Float32Array
      ? upload(gpu, zeroPoints, elem)
      : zeroPoints && uploadBytes(gpu, zeroPoints),
    affine: optional(params.sum ? Float32Array.from(vectors) : affine),
    bias: params.sum ? undefined : optional(bias),
    residual: optional(tensors.residual),
    sum,
    out,
  };
  const kernel = new Matvec(gpu, params, tiling);
  if (isNew) kernel.compile(ROOM);
  const encode = (pass: GPUComputePassEncoder) => kernel.encode(pass, buffers, numRows);
  const result = {
    out: await runAndRead(gpu, encode, { buffer: out, length: numRows * n, elem }),
    sum: sum
      ? await runAndRead(gpu, () => {}, { buffer: sum, length: numRows * k, elem })
      : new Float32Array(),
  };
  for (const buffer of Object.values(buffers)) buffer?.destroy();
  return result;
}
