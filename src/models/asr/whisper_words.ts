/**
 * The words of a Whisper window.
 *
 * @module
 */
import type { TranscriptWord } from "../task.ts";
import { timeWords } from "./timed_words.ts";
import { hasSpaces, TIMESTAMP_SECONDS, type WhisperConfig } from "./whisper_config.ts";
import type { TimedTokens } from "./whisper_sequential.ts";
import type { DecodedWindow } from "./window_decoder.ts";
import { groupWords } from "./word_groups.ts";

/** Options of a window's words. */
export interface WordOptions {
  readonly config: WhisperConfig;
  /** The text of tokens that are text. */
  readonly decode: (tokens: number[]) => string;
  /** Start of the window in the recording. */
  readonly offsetSeconds: number;
}

/** The words of each piece of a window, in seconds of the recording; `undefined` if word times are not wanted. */
export function wordsOfPieces(
  pieces: readonly TimedTokens[],
  { alignment: values, languageToken, tokens }: DecodedWindow,
  { config, decode, offsetSeconds }: WordOptions,
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
