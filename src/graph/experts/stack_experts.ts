/**
 * Stacks single experts' matrices to one constant, and transposes matrices.
 *
 * @module
 */
import { storedBytes, type StoredTensor } from "../file/stored_tensor.ts";
import { Refusal } from "../refusal.ts";

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
