/**
 * Matrices of single experts as one constant, and matrices that are stored the other way round.
 *
 * @module
 */
import { storedBytes, type StoredTensor } from "../file/stored_tensor.ts";
import { Refusal } from "../refusal.ts";

/** `[experts, k, outputs]` as `[experts, outputs, k]`, computed one expert after the other when it is read. */
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

/** `[k, outputs]` as `[outputs, k]`, computed when it is read. */
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
        // Neither has to begin where its elements could.
        const from = new Elements(bytes!.slice().buffer);
        const turned = new Elements(from.length);
        for (let i = 0; i < k; i++) {
          for (let n = 0, at = i; n < outputs; n++, at += k) turned[at] = from[i * outputs + n]!;
        }
        into.set(new Uint8Array(turned.buffer));
      },
    },
  };
}

/** Constants of single experts, one after the other: `[experts, …shape]`. @throws {Refusal} where they differ in form. */
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
