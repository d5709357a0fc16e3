/**
 * Choices determined by a seed, for tests of random cases.
 *
 * @module
 */

export interface Random {
  /** A number from 0 inclusive to 1 exclusive. */
  readonly fraction: () => number;
  /** An integer from `least` to `most`, both included. */
  readonly int: (least: number, most: number) => number;
  readonly pick: <const T>(choices: readonly T[]) => T;
}

/** Makes a linear congruential generator, which gives the same choices for the same seed. */
export function makeRandom(seed: number): Random {
  let state = Math.imul(seed, 2654435761) >>> 0;
  const fraction = () => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) / 2 ** 24;
  };
  const int = (least: number, most: number) =>
    least + Math.floor(fraction() * (Math.floor(most) - least + 1));
  return { fraction, int, pick: (choices) => choices[int(0, choices.length - 1)]! };
}
