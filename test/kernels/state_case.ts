/**
 * Steps of sequences with states, for the tests of recurrences.
 *
 * @module
 */
import type { SavedState, StateStep } from "../../kernels/states/state_step.ts";

/**
 * Numbers of tokens, by step and sequence: four steps of six sequences in shuffled slots, with prompts, chunks that
 * continue, single tokens, and a sequence that begins late. The last two sequences continue from states that were
 * saved in the middle and at the end of other sequences' rows.
 */
export const LENGTHS = [
  [7, 1, 40, 0, 0, 0],
  [1, 3, 25, 2, 0, 0],
  [2, 1, 1, 1, 3, 1],
  [0, 0, 0, 0, 1, 5],
] as const;
const SLOTS = [3, 0, 4, 1, 6, 5];
/** States to save, by step and sequence. Their slots are those of the last two sequences. */
const SAVED: readonly Readonly<Record<number, SavedState>>[] = [
  { 2: { numTokens: 17, slot: 6 } },
  { 1: { numTokens: 3, slot: 5 } },
];

/** Number of slots; one of them is unused. */
export const NUM_SLOTS = 7;
export const MAX_TOKENS = 64;

/** The steps, without the sequences that have no token. */
export function makeSteps(): (StateStep & { readonly numTokens: number })[] {
  const done = [0, 0, 0, 0, 17, 4];
  return LENGTHS.map((lengths, i) => {
    const taking = SLOTS.map((_, s) => s).filter((s) => lengths[s]! > 0);
    const queryStarts = Int32Array.from([0, ...taking.map((s) => lengths[s]!)]);
    for (let s = 0; s < taking.length; s++) queryStarts[s + 1]! += queryStarts[s]!;
    const positions = taking.flatMap((s) =>
      Array.from({ length: lengths[s]! }, (_, i) => done[s]! + i)
    );
    for (const s of taking) done[s]! += lengths[s]!;
    return {
      sequences: taking.map((s) => ({ savedState: SAVED[i]?.[s] })),
      numTokens: positions.length,
      positions: Int32Array.from(positions),
      queryStarts,
      stateSlots: Int32Array.from(taking, (s) => SLOTS[s]!),
    };
  });
}
