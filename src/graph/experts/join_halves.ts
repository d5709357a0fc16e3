/**
 * Joins the matrices of gates with those of the values they multiply, to one matrix for each expert.
 *
 * @module
 */
import { storedBytes } from "../file/stored_tensor.ts";
import type { StoredTensor } from "../file/stored_tensor.ts";
import { Refusal } from "../refusal.ts";
import type { ExpertWeights } from "./mixture.ts";

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
