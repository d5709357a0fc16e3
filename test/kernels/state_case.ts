/**
 * Steps of sequences with states, for the tests of recurrences.
 *
 * @module
 */
import type { StateStep } from "../../kernels/states/state_step.ts";

/** Three steps of four sequences in shuffled slots: prompts, chunks that go on, single tokens, and one that begins late. */
export const LENGTHS = [[7, 1, 40, 0], [1, 3, 25, 2], [2, 1, 1, 1]] as const;
const SLOTS = [3, 0, 4, 1];

/** Slots there are; one of them is nobody's. */
export const NUM_SLOTS = 5;
export const MAX_TOKENS = 64;

/** The steps, their sequences that have no token left out. */
export function makeSteps(): (StateStep & { readonly numTokens: number })[] {
  const done = SLOTS.map(() => 0);
  return LENGTHS.map((lengths) => {
    const taking = SLOTS.map((_, s) => s).filter((s) => lengths[s]! > 0);
    const queryStarts = Int32Array.from([0, ...taking.map((s) => lengths[s]!)]);
    for (let s = 0; s < taking.length; s++) queryStarts[s + 1]! += queryStarts[s]!;
    const positions = taking.flatMap((s) =>
      Array.from({ length: lengths[s]! }, (_, i) => done[s]! + i)
    );
    for (const s of taking) done[s]! += lengths[s]!;
    return {
      sequences: taking,
      numTokens: positions.length,
      positions: Int32Array.from(positions),
      queryStarts,
      stateSlots: Int32Array.from(taking, (s) => SLOTS[s]!),
    };
  });
}
