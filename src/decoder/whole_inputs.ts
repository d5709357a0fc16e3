/**
 * The inputs of a whole decoder graph besides its cache and embeddings.
 *
 * @module
 */
import { Tensor, type ValueInfo } from "../device/ort/ort.ts";
import type { StepBatch } from "./decoder.ts";

/** Tokens `start` to `end` of a step. */
export interface StepTokens {
  readonly batch: StepBatch;
  readonly start: number;
  readonly end: number;
}

/** How each of these inputs is made from the tokens to run. */
export const STEP_INPUTS: ReadonlyMap<string, (tokens: StepTokens, input: ValueInfo) => Tensor> =
  new Map([
    [
      "input_ids",
      ({ batch, start, end }: StepTokens) => int64Rows([batch.tokenIds.subarray(start, end)]),
    ],
    ["position_ids", positionIds],
    ["attention_mask", ({ batch, end }: StepTokens) => {
      const length = batch.positions[end - 1]! + 1;
      return new Tensor("int64", new BigInt64Array(length).fill(1n), [1, length]);
    }],
    // Some exports take the number of last rows to project to the vocabulary.
    ["num_logits_to_keep", () => new Tensor("int64", [1n], [])],
  ] as [string, (tokens: StepTokens, input: ValueInfo) => Tensor][]);

/** Positions: `[1, tokens]`, or `[sections, 1, tokens]` if the graph has a rotary embedding in sections. */
function positionIds({ batch, start, end }: StepTokens, { shape }: ValueInfo): Tensor {
  const { positions, sectionPositions } = batch;
  if (shape.length !== 3) return int64Rows([positions.subarray(start, end)]);
  const sections = typeof shape[0] === "number" ? shape[0] : 3;
  const rows = Array.from(
    { length: sections },
    (_, section) => (sectionPositions?.[section] ?? positions).subarray(start, end),
  );
  return int64Rows(rows, [sections, 1, end - start]);
}

/** Makes an int64 input. @param dims dimensions; if absent, one row with a batch of one. */
function int64Rows(
  rows: readonly Int32Array[],
  dims: readonly number[] = [1, rows[0]!.length],
): Tensor {
  const values = rows.flatMap((row) => Array.from(row, BigInt));
  return new Tensor("int64", BigInt64Array.from(values), dims);
}
