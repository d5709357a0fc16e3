/**
 * `matvec` on the CPU.
 *
 * @module
 */
import { activate } from "./activate.ts";
import {
  checkMatvec,
  type MatvecParams,
  type NormParams,
} from "../../../kernels/matmul/matvec_params.ts";

/** The kernel's tensors: float32, except packed levels and zero points. */
export interface ReferenceMatvecTensors {
  readonly x: Float32Array;
  readonly weights: Float32Array | Uint8Array;
  readonly scales?: Float32Array | undefined;
  readonly zeroPoints?: Uint8Array | Float32Array | undefined;
  readonly gamma?: Float32Array | undefined;
  readonly beta?: Float32Array | undefined;
  /** Only with `params.sum`. */
  readonly sumGamma?: Float32Array | undefined;
  readonly bias?: Float32Array | undefined;
  readonly residual?: Float32Array | undefined;
}

/** Normalises a row: `(row - mean) / sqrt(variance + epsilon) * gamma + beta`, with a mean of 0 for "rms". */
export function normalizeRow(
  row: Float32Array,
  { kind, epsilon }: NormParams,
  { gamma, beta }: { gamma?: Float32Array | undefined; beta?: Float32Array | undefined },
): Float64Array {
  const values = Float64Array.from(row);
  const mean = kind === "layer" ? values.reduce((sum, x) => sum + x, 0) / row.length : 0;
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / row.length;
  const factor = 1 / Math.sqrt(variance + epsilon);
  return values.map((x, i) => (x - mean) * factor * (gamma?.[i] ?? 1) + (beta?.[i] ?? 0));
}

/** See {@linkcode Matvec}; sums are float64. @returns `[numRows, n]`; `params.out` has no effect. */
export function matvecReference(
  params: MatvecParams,
  tensors: ReferenceMatvecTensors,
  numRows: number,
): Float32Array {
  checkMatvec(params);
  const { k, n, norm, sum: summed, gate, activation, scale, softcap } = params;
  const matrix = unpackMatrix(params, tensors);
  const out = new Float32Array(numRows * n);
  for (let row = 0; row < numRows; row++) {
    const values = matvecRow(params, tensors, row);
    const input = norm ? normalizeRow(values, norm, tensors) : values;
    const product = (output: number) => {
      let sum = tensors.bias?.[output] ?? 0;
      for (let i = 0; i < k; i++) sum += matrix[output * k + i]! * input[i]!;
      return sum;
    };
    for (let i = 0; i < n; i++) {
      let value = activate(activation, product(i + (gate?.gateRow ?? 0)));
      if (gate) value *= product(i + gate.upRow);
      value *= scale;
      if (softcap > 0) value = softcap * Math.tanh(value / softcap);
      const residual = summed ? undefined : tensors.residual;
      out[row * n + i] = value + (residual?.[row * n + i] ?? 0);
    }
  }
  return out;
}

/** Computes a row before its norm: a row of `x` or, with `params.sum`, the sum. */
export function matvecRow(
  { k, x, sum }: MatvecParams,
  tensors: Pick<ReferenceMatvecTensors, "x" | "sumGamma" | "residual">,
  row: number,
): Float32Array {
  const at = row * x.stride + x.offset;
  const values = tensors.x.subarray(at, at + k);
  if (sum === undefined) return values;
  const norm = { kind: "rms", epsilon: sum.epsilon, hasBeta: false } as const;
  return Float32Array.from(
    normalizeRow(values, norm, { gamma: tensors.sumGamma }),
    (value, i) => value + tensors.residual![row * k + i]!,
  );
}

/** Unpacks a matrix of any storage format to `[outputs, k]`. */
function unpackMatrix(
  { k, matrixRows, weights: form }: MatvecParams,
  { weights, scales, zeroPoints }: ReferenceMatvecTensors,
): ArrayLike<number> {
  if (form.kind === "rows") return weights;
  if (form.kind === "columns") {
    return Float32Array.from(
      { length: matrixRows * k },
      (_, i) => weights[(i % k) * matrixRows + Math.floor(i / k)]!,
    );
  }
  const { bits, blockSize } = form;
  const perByte = 8 / bits;
  const blocks = Math.ceil(k / blockSize);
  const levelAt = (bytes: Uint8Array, rowBytes: number, row: number, i: number) => {
    const byte = bytes[row * rowBytes + Math.floor(i / perByte)]!;
    return (byte >> (i % perByte * bits)) & (2 ** bits - 1);
  };
  return Float32Array.from({ length: matrixRows * k }, (_, at) => {
    const [row, i] = [Math.floor(at / k), at % k];
    const block = Math.floor(i / blockSize);
    const level = levelAt(weights as Uint8Array, blocks * blockSize / perByte, row, i);
    const zero = zeroPoints instanceof Float32Array
      ? zeroPoints[row * blocks + block]!
      : zeroPoints
      ? levelAt(zeroPoints, Math.ceil(blocks / perByte), row, block)
      : 2 ** (bits - 1);
    return (level - zero) * scales![row * blocks + block]!;
  });
}
