/**
 * Word times from the alignment of their tokens, by dynamic time warping: each token takes consecutive frames, in order.
 * Pure.
 *
 * @see `add_word_timestamps` in openai/whisper's `timing.py`
 * @see H. Sakoe, S. Chiba: Dynamic Programming Algorithm Optimization for Spoken Word Recognition, 1978
 * @module
 */
import type { TranscriptWord } from "../task.ts";

/** A word, with the punctuation that belongs to it. */
export interface WordGroup {
  /** As it is written, with what spaces there are around it. */
  readonly text: string;
  readonly numTokens: number;
}

/** A segment of a window and its words. */
export interface WordSegment {
  /** From the window's beginning. */
  readonly startSeconds: number;
  readonly endSeconds: number;
  /** Index of its first text token among those of the window. */
  readonly firstToken: number;
  readonly words: readonly WordGroup[];
}

/** The alignment of a window's tokens. */
export interface WindowAlignment {
  /** f32 `[tokens + 1, positions]`: how much each token, and the end after the last, is aligned with each position. */
  readonly values: Float32Array;
  /** At least one. */
  readonly numFrames: number;
  readonly frameSeconds: number;
}

/** Punctuation at which a speaker may pause. */
const PAUSE = /[\p{Po}\p{Pd}]["'\p{Pe}\p{Pf}]*\s*$/u;
/** Upper bound of the usual word duration. */
const LONGEST_USUAL_SECONDS = 0.7;

/**
 * Times the words of a window's segments, in seconds from its beginning.
 *
 * @returns the words of each segment: in order, not overlapping, within it.
 */
export function timeWords(
  segments: readonly WordSegment[],
  alignment: WindowAlignment,
): TranscriptWord[][] {
  const spans = segments.map((segment) => {
    const begins = beginsOf(segment, alignment);
    let first = 0;
    return segment.words.map(({ numTokens }) => {
      const start = begins[first]!;
      first += numTokens;
      return { start, end: begins[first]! };
    });
  });
  const longest = 2 * usualSeconds(spans.flat());
  return segments.map(({ startSeconds, endSeconds, words }, index) => {
    const within = (seconds: number) => Math.min(Math.max(seconds, startSeconds), endSeconds);
    return words.map(({ text }, position) => {
      const span = spans[index]![position]!;
      const [start, end] = [within(span.start), within(span.end)];
      // A pause is assigned to one of the adjacent words.
      const isBefore = position === words.length - 1 || PAUSE.test(text);
      const isAfter = position === 0 || PAUSE.test(words[position - 1]!.text);
      return {
        text: text.trim(),
        startSeconds: isAfter && !isBefore ? Math.max(start, end - longest) : start,
        endSeconds: isBefore ? Math.min(end, start + longest) : end,
      };
    });
  });
}

/** The median of the words' durations. */
function usualSeconds(spans: readonly { readonly start: number; readonly end: number }[]): number {
  const durations = spans.map(({ start, end }) => end - start).filter((seconds) => seconds > 0)
    .sort((a, b) => a - b);
  return Math.min(durations[Math.floor(durations.length / 2)] ?? 0, LONGEST_USUAL_SECONDS);
}

/** When each of a segment's tokens begins, and after them the end of the last; they share what the segment has. */
function beginsOf(
  { startSeconds, endSeconds, firstToken, words }: WordSegment,
  { values, numFrames, frameSeconds }: WindowAlignment,
): number[] {
  const from = Math.min(Math.round(startSeconds / frameSeconds), numFrames - 1);
  // The position after the segment is its end.
  const to = Math.min(Math.max(from, Math.round(endSeconds / frameSeconds)) + 1, numFrames);
  const numRows = words.reduce((sum, { numTokens }) => sum + numTokens, 1);
  const numColumns = to - from;
  const own = new Float32Array(numRows * numColumns);
  for (let row = 0; row < numRows; row++) {
    const at = (firstToken + row) * numFrames;
    own.set(values.subarray(at + from, at + to), row * numColumns);
  }
  return warpRows({ values: own, numRows, numColumns })
    .map((column) => (from + column) * frameSeconds);
}

/** Alignment scores of tokens and frames. */
interface Affinity {
  /** f32 `[numRows, numColumns]`, higher where a row belongs to a column. */
  readonly values: Float32Array;
  readonly numRows: number;
  readonly numColumns: number;
}

const BOTH = 0;
const NEXT_ROW = 1;
const NEXT_COLUMN = 2;

/**
 * The path from the first row and column to the last of both, by one row, one column or both at a time, whose values
 * have the largest sum.
 *
 * @returns the column in which each row begins, never falling; the first is 0.
 *
 * @example
 * ```ts
 * import { warpRows } from "./timed_words.ts";
 * const values = Float32Array.of(1, 1, 0, 0, 0, 1);
 * warpRows({ values, numRows: 2, numColumns: 3 }); // [0, 2]
 * ```
 */
export function warpRows({ values, numRows, numColumns }: Affinity): number[] {
  const steps = new Uint8Array(numRows * numColumns);
  let above = new Float64Array(numColumns);
  let own = new Float64Array(numColumns);
  for (let row = 0; row < numRows; row++) {
    for (let column = 0; column < numColumns; column++) {
      const position = row * numColumns + column;
      const fromBoth = row > 0 && column > 0 ? above[column - 1]! : -Infinity;
      const fromRow = row > 0 ? above[column]! : -Infinity;
      const fromColumn = column > 0 ? own[column - 1]! : -Infinity;
      const best = Math.max(fromBoth, fromRow, fromColumn);
      steps[position] = best === fromColumn ? NEXT_COLUMN : best === fromBoth ? BOTH : NEXT_ROW;
      own[column] = values[position]! + (position === 0 ? 0 : best);
    }
    [above, own] = [own, above];
  }
  const begins = Array<number>(numRows).fill(0);
  for (let row = numRows - 1, column = numColumns - 1; row > 0;) {
    const step = steps[row * numColumns + column];
    if (step !== NEXT_COLUMN) begins[row--] = column;
    if (step !== NEXT_ROW) column--;
  }
  return begins;
}
