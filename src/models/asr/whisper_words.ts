/**
 * The words of a Whisper window. Pure.
 *
 * @module
 */
import type { TranscriptWord } from "../task.ts";
import { timeWords, type WordGroup } from "./timed_words.ts";
import { hasSpaces, TIMESTAMP_SECONDS, type WhisperConfig } from "./whisper_config.ts";
import type { TimedTokens } from "./whisper_sequential.ts";
import type { DecodedWindow } from "./window_decoder.ts";

/**
 * The words of each piece of a window, in seconds of the recording; `undefined` if word times are not wanted.
 *
 * @param options.decode the text of tokens that are text.
 * @param options.offsetSeconds start of the window in the recording.
 */
export function wordsOfPieces(
  pieces: readonly TimedTokens[],
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
  const segments = pieces.map(({ tokens, startSeconds, endSeconds }) => {
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

/** How tokens are read. */
export interface WordDivision {
  /** The text of tokens; incomplete characters are U+FFFD. */
  readonly decode: (tokens: number[]) => string;
  /** Whether the language puts spaces between its words; else each character stands for itself. */
  readonly hasSpaces: boolean;
}

const BROKEN = "\uFFFD";
/** A character has at most four bytes, so at most four tokens. */
const MOST_TOKENS_OF_PIECE = 4;
const IS_PUNCTUATION = /^[\s\p{P}]*$/u;
/** Opening punctuation, or punctuation before a word. */
const OPENS = /^(\s*[\p{Ps}\p{Pi}¿¡]|\s+["'\p{Pd}])/u;

/** All tokens, in words one after the other. */
export function groupWords(tokens: readonly number[], reading: WordDivision): WordGroup[] {
  const pieces = readPieces(tokens, reading.decode);
  const words: WordGroup[][] = [];
  let isOpen = false;
  for (const [index, piece] of pieces.entries()) {
    const text = index === 0 ? ` ${piece.text}` : piece.text;
    const isPunctuation = IS_PUNCTUATION.test(text);
    const opens = isPunctuation && OPENS.test(text);
    const begins = !reading.hasSpaces || /^\s/.test(text);
    if (words.length > 0 && (isOpen || !begins || (isPunctuation && !opens))) {
      words.at(-1)!.push(piece);
    } else words.push([piece]);
    isOpen = opens;
  }
  return words.map((word) => ({
    text: word.map(({ text }) => text).join(""),
    numTokens: word.reduce((sum, { numTokens }) => sum + numTokens, 0),
  }));
}

/** Groups of the fewest tokens that form whole characters. */
function readPieces(tokens: readonly number[], decode: WordDivision["decode"]): WordGroup[] {
  const pieces: WordGroup[] = [];
  for (let first = 0, end = 1; end <= tokens.length; end++) {
    const text = decode(tokens.slice(first, end));
    const isCut = text.endsWith(BROKEN) && end - first < MOST_TOKENS_OF_PIECE;
    if (isCut && end < tokens.length) continue;
    pieces.push({ text, numTokens: end - first });
    first = end;
  }
  return pieces;
}
