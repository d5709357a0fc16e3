/**
 * When words are spoken, by where their tokens lie. Pure.
 *
 * @see `add_word_timestamps` in openai/whisper's `timing.py`
 * @module
 */
import type { TranscriptWord } from "../task.ts";
import type { WordGroup } from "./word_groups.ts";

/** A segment of a window and its words. */
export interface WordSegment {
  readonly startSeconds: number;
  readonly endSeconds: number;
  readonly words: readonly WordGroup[];
}

/** Where a speaker may pause. */
const PAUSE = /[\p{Po}\p{Pd}]["'\p{Pe}\p{Pf}]*\s*$/u;
/** No word is usually longer. */
const LONGEST_USUAL_SECONDS = 0.7;

/**
 * Times the words of a window's segments.
 *
 * @param segments in order, their tokens the first of the window's.
 * @param begins seconds at which each token of the window's text begins, and after them the end of the last.
 * @returns the words of each segment: in order, apart, and within it.
 */
export function timeWords(
  segments: readonly WordSegment[],
  begins: readonly number[],
): TranscriptWord[][] {
  let first = 0;
  const spans = segments.map(({ words }) =>
    words.map(({ numTokens }) => {
      const start = begins[first]!;
      first += numTokens;
      return { start, end: begins[first]! };
    })
  );
  const longest = 2 * usualSeconds(spans.flat());
  return segments.map(({ startSeconds, endSeconds, words }, index) => {
    const within = (seconds: number) => Math.min(Math.max(seconds, startSeconds), endSeconds);
    return words.map(({ text }, place) => {
      const span = spans[index]![place]!;
      const [start, end] = [within(span.start), within(span.end)];
      // A pause falls to one of the words beside it.
      const isBefore = place === words.length - 1 || PAUSE.test(text);
      const isAfter = place === 0 || PAUSE.test(words[place - 1]!.text);
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
