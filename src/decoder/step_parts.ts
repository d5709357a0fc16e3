/**
 * A step divided by how its rows are computed.
 *
 * @module
 */
import type { Lowering } from "../program/program.ts";
import type { StepBatch } from "./decoder.ts";

/** Sequences that lie side by side in a step, and the lowering that runs them. */
export interface StepPart {
  readonly lowering: Lowering;
  readonly batch: StepBatch;
}

/**
 * Divides a step: tokens that follow the last one chosen run as few rows, prompts as many. So what a row's result is does
 * not depend on the rows that share its step. Decoding sequences are the oldest ones, hence there are two parts at most,
 * unless prompts of older sequences are still being computed.
 *
 * @param rule.maxFewRows most decoding sequences that run as few rows; more run as many do, with the prompts.
 * @param rule.isExact whether both lowerings compute a row alike: then one pass over the weights is enough.
 * @param rule.isApart whether a row is computed by the rows beside it: then each sequence is a part of its own.
 */
export function divideStep(
  batch: StepBatch,
  { maxFewRows, isExact = false, isApart = false }: {
    readonly maxFewRows: number;
    readonly isExact?: boolean | undefined;
    readonly isApart?: boolean | undefined;
  },
): StepPart[] {
  const { sequences } = batch;
  if (isApart && sequences.length > 1) {
    return sequences.flatMap((_, i) => divideStep(sliceStep(batch, i, i + 1), { maxFewRows }));
  }
  const numDecoding = sequences.filter(({ isDecoding }) => isDecoding).length;
  const hasFew = numDecoding > 0 && numDecoding <= maxFewRows;
  if (!hasFew) return [{ lowering: "many", batch }];
  if (numDecoding === sequences.length) return [{ lowering: "few", batch }];
  if (isExact) return [{ lowering: "many", batch }];
  const parts: StepPart[] = [];
  for (let first = 0; first < sequences.length;) {
    const isFew = sequences[first]!.isDecoding === true;
    let end = first + 1;
    while (end < sequences.length && (sequences[end]!.isDecoding === true) === isFew) end++;
    parts.push({ lowering: isFew ? "few" : "many", batch: sliceStep(batch, first, end) });
    first = end;
  }
  return parts;
}

/** The sequences `first` to `end` of a step, as a step. */
function sliceStep(batch: StepBatch, first: number, end: number): StepBatch {
  const { queryStarts, maxBlocksPerSequence } = batch;
  const [from, to] = [queryStarts[first]!, queryStarts[end]!];
  const sliceTokens = (values: Int32Array) => values.subarray(from, to);
  const sliceTables = (tables: Int32Array) =>
    tables.subarray(first * maxBlocksPerSequence, end * maxBlocksPerSequence);
  const sections = batch.sectionPositions;
  return {
    sequences: batch.sequences.slice(first, end),
    numTokens: to - from,
    tokenIds: sliceTokens(batch.tokenIds),
    positions: sliceTokens(batch.positions),
    anglePositions: batch.anglePositions && sliceTokens(batch.anglePositions),
    completionPositions: batch.completionPositions && sliceTokens(batch.completionPositions),
    sectionPositions: sections && [
      sliceTokens(sections[0]),
      sliceTokens(sections[1]),
      sliceTokens(sections[2]),
    ],
    embeddings: batch.embeddings
      ?.filter(({ firstToken }) => firstToken >= from && firstToken < to)
      .map((span) => ({ ...span, firstToken: span.firstToken - from })),
    queryStarts: queryStarts.subarray(first, end + 1).map((start) => start - from),
    kvLengths: batch.kvLengths.subarray(first, end),
    blockTables: sliceTables(batch.blockTables),
    windowTables: batch.windowTables?.map(sliceTables),
    maxBlocksPerSequence,
    stateSlots: batch.stateSlots?.subarray(first, end),
    // They are made once, before the first part.
    stateCopies: first === 0 ? batch.stateCopies : undefined,
  };
}
