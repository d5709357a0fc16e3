/**
 * Choices that a seed decides, for tests of random cases.
 *
 * @module
 */

export interface Random {
  /** From 0 to 1, which it does not reach. */
  readonly fraction: () => number;
  /** From `least` to `most`. */
  readonly int: (least: number, most: number) => number;
  readonly pick: <const T>(choices: readonly T[]) => T;
}

/** A linear congruential generator's choices, the same for a seed. */
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
