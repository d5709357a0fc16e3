/**
 * Finds the words of a Whisper window and their times, by dynamic time warping over the alignment of tokens with audio:
 * each token gets consecutive frames, in order. Pure.
 *
 * @see `add_word_timestamps` in openai/whisper's `timing.py`
 * @see H. Sakoe, S. Chiba: Dynamic Programming Algorithm Optimization for Spoken Word Recognition, 1978
 * @module
 */
import type { TranscriptWord } from "../task.ts";
import { giveFrames } from "./frame_tokens.ts";
import { hasSpaces, TIMESTAMP_SECONDS, type WhisperConfig } from "./whisper_config.ts";
import type { DecodedWindow } from "./window_decoder.ts";

/** A segment of a transcript, as tokens. */
export interface TimedTokens {
  readonly startSeconds: number;
  readonly endSeconds: number;
  /** Text tokens with the timestamp tokens around them. Their times count from the beginning of the window. */
  readonly tokens: readonly number[];
  /** First frame of the window. */
  readonly seekFrame: number;
}

/**
 * Finds the words of each segment of a window, with times in seconds of the recording.
 *
 * @returns `undefined` if the window has no alignment, because word times are not wanted.
 * @param options.decode decodes tokens to text.
 * @param options.offsetSeconds start of the window in the recording.
 */
export function joinIntoWords(
  groups: readonly TimedTokens[],
  { alignment: values, languageToken, tokens }: DecodedWindow,
  { config, decode, offsetSeconds }: Pick<WordDivision, "decode"> & {
    readonly config: WhisperConfig;
    readonly offsetSeconds: number;
  },
): TranscriptWord[][] | undefined {
  if (values === undefined) return undefined;
  const reading = { decode, hasSpaces: hasSpaces(config, languageToken) };
  const isText = (token: number) => token < config.endToken;
  let numBefore = 0;
  const segments = groups.map(({ tokens, startSeconds, endSeconds }) => {
    const firstToken = numBefore + Math.max(0, tokens.findIndex(isText));
    numBefore += tokens.length;
    return {
      startSeconds: startSeconds - offsetSeconds,
      endSeconds: endSeconds - offsetSeconds,
      firstToken,
      words: groupWords(tokens.filter(isText), reading),
    };
  });
  const numFrames = values.length / (tokens.length + 1);
  return timeWords(segments, { values, numFrames, frameSeconds: TIMESTAMP_SECONDS })
    .map((words) =>
      words.map(({ text, startSeconds, endSeconds }) => ({
        text,
        startSeconds: offsetSeconds + startSeconds,
        endSeconds: offsetSeconds + endSeconds,
      }))
    );
}

interface WordDivision {
  /** Decodes tokens to text; incomplete characters become U+FFFD. */
  readonly decode: (tokens: number[]) => string;
  /** Whether the language puts spaces between words; if not, each character counts as a word. */
  readonly hasSpaces: boolean;
}

const BROKEN = "\uFFFD";
/** A character has at most four bytes, so at most four tokens. */
const MAX_TOKENS_PER_CHARACTER = 4;
const IS_PUNCTUATION = /^[\s\p{P}]*$/u;
/** Opening punctuation, or other punctuation that precedes a word. */
const OPENS = /^(\s*[\p{Ps}\p{Pi}¿¡]|\s+["'\p{Pd}])/u;

/** Divides all tokens into consecutive words. */
export function groupWords(tokens: readonly number[], reading: WordDivision): WordGroup[] {
  const groups = readWordGroups(tokens, reading.decode);
  const words: WordGroup[][] = [];
  let isOpen = false;
  for (const [index, group] of groups.entries()) {
    const text = index === 0 ? ` ${group.text}` : group.text;
    const isPunctuation = IS_PUNCTUATION.test(text);
    const opens = isPunctuation && OPENS.test(text);
    const begins = !reading.hasSpaces || /^\s/.test(text);
    if (words.length > 0 && (isOpen || !begins || (isPunctuation && !opens))) {
      words.at(-1)!.push(group);
    } else words.push([group]);
    isOpen = opens;
  }
  return words.map((word) => ({
    text: word.map(({ text }) => text).join(""),
    numTokens: word.reduce((sum, { numTokens }) => sum + numTokens, 0),
  }));
}

/** Divides tokens into the smallest groups that decode to whole characters. */
function readWordGroups(tokens: readonly number[], decode: WordDivision["decode"]): WordGroup[] {
  const groups: WordGroup[] = [];
  for (let first = 0, end = 1; end <= tokens.length; end++) {
    const text = decode(tokens.slice(first, end));
    const isCut = text.endsWith(BROKEN) && end - first < MAX_TOKENS_PER_CHARACTER;
    if (isCut && end < tokens.length) continue;
    groups.push({ text, numTokens: end - first });
    first = end;
  }
  return groups;
}

/** A word, with the punctuation that belongs to it. */
interface WordGroup {
  /** The word's text, with the spaces around it. */
  readonly text: string;
  readonly numTokens: number;
}

export interface WordSegment {
  /** Seconds from the window's beginning. */
  readonly startSeconds: number;
  readonly endSeconds: number;
  /** Index of the segment's first text token among the tokens of the window. */
  readonly firstToken: number;
  readonly words: readonly WordGroup[];
}

interface WindowAlignment {
  /** f32 `[tokens + 1, frames]`: the alignment of each token, and of the end token after the last, with each frame. */
  readonly values: Float32Array;
  /** Number of frames, at least 1. */
  readonly numFrames: number;
  readonly frameSeconds: number;
}

/** Punctuation at which a speaker may pause. */
const PAUSE = /[\p{Po}\p{Pd}]["'\p{Pe}\p{Pf}]*\s*$/u;
/** Upper bound for the usual duration of a word. */
const LONGEST_USUAL_SECONDS = 0.7;

/**
 * Finds the times of the words in a window's segments, in seconds from the beginning of the window.
 *
 * @returns the words of each segment: in order, without overlap, within the segment.
 */
export function timeWords(
  segments: readonly WordSegment[],
  alignment: WindowAlignment,
): TranscriptWord[][] {
  const spans = segments.map((segment) => {
    const begins = findBeginnings(segment, alignment);
    let first = 0;
    return segment.words.map(({ numTokens }) => {
      const start = begins[first]!;
      first += numTokens;
      return { start, end: begins[first]! };
    });
  });
  const longest = 2 * computeUsualSeconds(spans.flat());
  return segments.map((segment, index) => {
    const { startSeconds, endSeconds, words } = segment;
    const within = (seconds: number) => Math.min(Math.max(seconds, startSeconds), endSeconds);
    const given = giveFrames(
      spans[index]!.map(({ start, end }) => ({ start: within(start), end: within(end) })),
      { start: startSeconds, end: endSeconds, frameLength: alignment.frameSeconds },
    );
    return words.map(({ text }, position) => {
      const { start, end } = given[position]!;
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

/** Computes the median duration of words, with an upper bound. */
function computeUsualSeconds(
  spans: readonly { readonly start: number; readonly end: number }[],
): number {
  const durations = spans.map(({ start, end }) => end - start).filter((seconds) => seconds > 0)
    .sort((a, b) => a - b);
  return Math.min(durations[Math.floor(durations.length / 2)] ?? 0, LONGEST_USUAL_SECONDS);
}

/**
 * Finds the times at which the tokens of a segment begin, followed by the end of the last token. The tokens divide the
 * segment's frames among them.
 */
function findBeginnings(
  { startSeconds, endSeconds, firstToken, words }: WordSegment,
  { values, numFrames, frameSeconds }: WindowAlignment,
): number[] {
  const from = Math.min(Math.round(startSeconds / frameSeconds), numFrames - 1);
  // One frame more, so that the end token has a frame: the end of the last word.
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

const BOTH = 0;
const NEXT_ROW = 1;
const NEXT_COLUMN = 2;

/**
 * Finds the path with the largest sum of values from the first row and column to the last. Each step advances by one
 * row, one column, or both.
 *
 * @returns the column in which each row begins, in non-decreasing order; the first is 0.
 * @example
 * ```ts
 * import { warpRows } from "./timed_words.ts";
 * const values = Float32Array.of(1, 1, 0, 0, 0, 1);
 * warpRows({ values, numRows: 2, numColumns: 3 }); // [0, 2]
 * ```
 */
export function warpRows({ values, numRows, numColumns }: {
  /** f32 `[numRows, numColumns]`, higher where row and column belong together. */
  readonly values: Float32Array;
  readonly numRows: number;
  readonly numColumns: number;
}): number[] {
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
