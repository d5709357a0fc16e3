/**
 * A step of rows that each have blocks of their own, dealt out by slot. Pure.
 *
 * @module
 */
import { GREEDY, type StepBatch } from "../../decoder/decoder.ts";

/** A row's share of a step. */
export interface DecoderRow {
  /** Where its keys and values are. */
  readonly slot: number;
  readonly tokens: readonly number[];
  /** Place of the first of them in the row. */
  readonly position: number;
}

/** A row's token is chosen by whoever runs the step; it only has to be asked for. */
const SAMPLE = { params: GREEDY, tokenIndex: 0, topLogprobs: 0 } as const;

/** @param options.isAsked whether what follows each row's last token is asked for. */
export function stepOfRows(
  rows: readonly DecoderRow[],
  blocksPerRow: number,
  { isAsked = true }: { readonly isAsked?: boolean } = {},
): StepBatch {
  const starts = [0];
  for (const { tokens } of rows) starts.push(starts.at(-1)! + tokens.length);
  const sample = isAsked ? SAMPLE : undefined;
  return {
    sequences: rows.map(({ slot }) => ({ sequenceId: slot, sample })),
    numTokens: starts.at(-1)!,
    tokenIds: Int32Array.from(rows.flatMap(({ tokens }) => tokens)),
    positions: Int32Array.from(
      rows.flatMap(({ tokens, position }) => tokens.map((_, i) => position + i)),
    ),
    queryStarts: Int32Array.from(starts),
    kvLengths: Int32Array.from(rows, ({ tokens, position }) => position + tokens.length),
    blockTables: Int32Array.from(
      { length: rows.length * blocksPerRow },
      (_, i) => rows[Math.floor(i / blocksPerRow)]!.slot * blocksPerRow + i % blocksPerRow,
    ),
    maxBlocksPerSequence: blocksPerRow,
  };
}
