/**
 * Decodes a recogniser's frames to the characters of a line: the likeliest class of each frame, repetitions of one
 * class as one, blanks left out (best path decoding, A. Graves et al. 2006). Pure.
 *
 * @module
 */

/** A character and its likelihood. */
export interface LineCharacter {
  /** Its class. */
  readonly id: number;
  /** Probability in the frame where it begins. */
  readonly probability: number;
  /** Likeliest classes there, most likely first; as many as wanted. */
  readonly top: readonly { readonly id: number; readonly probability: number }[];
}

/**
 * @param frames f32 `[frames, classes]`, probabilities.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const frames = Float32Array.of(0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1);
 * const read = readCtcLine(frames, { numClasses: 3, blank: 0, numTop: 0 });
 * assert.deepEqual(read.map(({ id }) => id), [1, 1, 2]);
 * ```
 */
export function readCtcLine(frames: Float32Array, options: {
  readonly numClasses: number;
  readonly blank: number;
  /** Likeliest classes to report. */
  readonly numTop: number;
}): LineCharacter[] {
  const { numClasses, blank, numTop } = options;
  const characters: LineCharacter[] = [];
  let last = blank;
  for (let start = 0; start < frames.length; start += numClasses) {
    const classes = frames.subarray(start, start + numClasses);
    const id = likeliest(classes);
    if (id !== blank && id !== last) {
      characters.push({ id, probability: classes[id]!, top: topOf(classes, numTop) });
    }
    last = id;
  }
  return characters;
}

/** The mean probability of the characters; 0 without any. */
export function confidenceOf(characters: readonly LineCharacter[]): number {
  const sum = characters.reduce((total, { probability }) => total + probability, 0);
  return characters.length === 0 ? 0 : sum / characters.length;
}

function likeliest(classes: Float32Array): number {
  let best = 0;
  for (let id = 1; id < classes.length; id++) if (classes[id]! > classes[best]!) best = id;
  return best;
}

function topOf(classes: Float32Array, count: number): LineCharacter["top"] {
  if (count === 0) return [];
  return [...classes].map((probability, id) => ({ id, probability }))
    .sort((a, b) => b.probability - a.probability)
    .slice(0, count);
}
