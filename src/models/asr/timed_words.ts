/**
 * Word times from the alignment of their tokens. Pure.
 *
 * @see `add_word_timestamps` in openai/whisper's `timing.py`
 * @module
 */
import type { TranscriptWord } from "../task.ts";
import { warpRows } from "./time_warp.ts";
import type { WordGroup } from "./word_groups.ts";

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
