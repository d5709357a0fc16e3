/**
 * Joins the weights of a mixture of experts: the matrices of single experts become one constant, and each gate matrix is
 * joined with the matrix of the values that the gate multiplies.
 *
 * @module
 */
import { storedBytes, type StoredTensor } from "../file/stored_tensor.ts";
import { Refusal } from "../refusal.ts";
import type { ExpertWeights } from "./mixture.ts";

/** Transposes `[experts, k, outputs]` to `[experts, outputs, k]`, one expert after the other when it is read. */
export function transposeExperts(tensor: StoredTensor): StoredTensor {
  const { name, dtype, shape } = tensor;
  const [experts, k, outputs] = shape as [number, number, number];
  const length = storedBytes(tensor) / experts;
  const matrices = Array.from({ length: experts }, (_, e): StoredTensor => ({
    ...{ name: `${name} of expert ${e}`, dtype, shape: [k, outputs] },
    data: {
      kind: "rows",
      numRows: 1,
      parts: [{ source: tensor, from: e * length, length }],
      length,
    },
  }));
  const transposed = matrices.map(transposeMatrix);
  return { ...stackExperts(transposed, [outputs, k]), name: `${name}, transposed` };
}

/** Transposes `[k, outputs]` to `[outputs, k]` when it is read. */
export function transposeMatrix(matrix: StoredTensor): StoredTensor {
  const { name, dtype, shape } = matrix;
  const [k, outputs] = shape as [number, number];
  const length = storedBytes(matrix);
  const Elements = length === k * outputs * 4 ? Uint32Array : Uint16Array;
  return {
    ...{ name, dtype, shape: [outputs, k] },
    data: {
      kind: "computed",
      sources: [matrix],
      length,
      compute: ([bytes], into) => {
        // Neither range has to begin at a multiple of the element size.
        const from = new Elements(bytes!.slice().buffer);
        const transposed = new Elements(from.length);
        for (let i = 0; i < k; i++) {
          for (let n = 0, at = i; n < outputs; n++, at += k) {
            transposed[at] = from[i * outputs + n]!;
          }
        }
        into.set(new Uint8Array(transposed.buffer));
      },
    },
  };
}

/**
 * Stacks constants of single experts to `[experts, …shape]`.
 *
 * @throws {Refusal} when their layouts differ.
 */
export function stackExperts(
  tensors: readonly StoredTensor[],
  shape: readonly number[],
): StoredTensor {
  const [first] = tensors as [StoredTensor];
  const other = tensors.find(({ dtype, shape }) =>
    dtype !== first.dtype || shape.join() !== first.shape.join()
  );
  if (other !== undefined) {
    throw new Refusal(`The experts' constants "${first.name}" and "${other.name}" differ.`);
  }
  const lengths = tensors.map(storedBytes);
  return {
    name: `${first.name} and those of ${tensors.length - 1} more experts`,
    dtype: first.dtype,
    shape: [tensors.length, ...shape],
    data: {
      kind: "rows",
      numRows: 1,
      parts: tensors.map((source, i) => ({ source, from: 0, length: lengths[i]! })),
      length: lengths.reduce((sum, length) => sum + length, 0),
    },
  };
}

/**
 * The rows of `gate`, then those of `up`, for each expert.
 *
 * @throws {Refusal} when their layouts differ.
 */
export function joinHalves<T extends ExpertWeights>(gate: T, up: T): T {
  const join = (key: "weights" | "scales" | "zeroPoints" | "bias") => {
    const [one, two] = [gate[key], up[key]];
    if (one === undefined && two === undefined) return undefined;
    if (one?.dtype !== two?.dtype || one?.shape.join() !== two?.shape.join()) {
      throw new Refusal(`The experts' constants "${one?.name}" and "${two?.name}" differ.`);
    }
    return joinExperts([one!, two!]);
  };
  return {
    ...gate,
    weights: join("weights")!,
    scales: join("scales"),
    zeroPoints: join("zeroPoints"),
    bias: join("bias"),
  };
}

/** Constants `[experts, …]` joined along their second axis; read where they are needed. */
function joinExperts(tensors: readonly StoredTensor[]): StoredTensor {
  const [{ dtype, shape }] = tensors as [StoredTensor];
  const [numRows] = shape as [number];
  const lengths = tensors.map(storedBytes);
  return {
    name: tensors.map(({ name }) => name).join(", "),
    dtype,
    shape: [numRows, tensors.reduce((sum, each) => sum + each.shape[1]!, 0), ...shape.slice(2)],
    data: {
      kind: "rows",
      numRows,
      parts: tensors.map((source, i) => ({ source, from: 0, length: lengths[i]! / numRows })),
      length: lengths.reduce((sum, length) => sum + length, 0),
    },
  };
}
