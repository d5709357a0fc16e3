import assert from "node:assert/strict";
import type { WhisperConfig } from "../../../../src/models/asr/whisper_config.ts";
import type { TimedTokens } from "../../../../src/models/asr/timed_words.ts";
import type { DecodedWindow } from "../../../../src/models/asr/window_decoder.ts";
import { joinIntoWords } from "../../../../src/models/asr/timed_words.ts";

const TEXTS = [" Yes", ",", " now", " 好", "的", "."];
const CONFIG: WhisperConfig = {
  vocabSize: 200,
  startToken: 51,
  endToken: 50,
  noSpeechToken: undefined,
  transcribeToken: 59,
  translateToken: 58,
  languages: new Map([["en", 52], ["zh", 53]]),
  timestampsStart: 100,
  lastFirstTimestamp: 150,
  suppressedTokens: [],
  maxTokens: 12,
};
const NUM_POSITIONS = 50;
const OFFSET_SECONDS = 30;

/** A window whose token `i` starts at position `begins[i]`. */
function makeWindow(
  tokens: readonly number[],
  begins: readonly number[],
  languageToken: number,
): DecodedWindow {
  const alignment = new Float32Array((tokens.length + 1) * NUM_POSITIONS).fill(-1);
  begins.forEach((begin, row) =>
    alignment.fill(
      5,
      row * NUM_POSITIONS + begin,
      row * NUM_POSITIONS + (begins[row + 1] ?? NUM_POSITIONS),
    )
  );
  const figures = { meanLogprob: -0.1, compressionRatio: 1, noSpeechProbability: 0 };
  return { ...figures, tokens, temperature: 0, languageToken, alignment };
}

/** A piece of the window, between positions. */
function makePiece(tokens: readonly number[], from: number, to: number) {
  const seconds = (position: number) => OFFSET_SECONDS + position * 0.02;
  const span = { startSeconds: seconds(from), endSeconds: seconds(to) };
  return { ...span, tokens, seekFrame: 3000 } satisfies TimedTokens;
}

function read(pieces: readonly TimedTokens[], window: DecodedWindow) {
  const decode = (tokens: number[]) => tokens.map((token) => TEXTS[token]).join("");
  return joinIntoWords(pieces, window, { config: CONFIG, decode, offsetSeconds: OFFSET_SECONDS })
    ?.map((words) =>
      words.map(({ text, startSeconds, endSeconds }) => [
        text,
        Math.round((startSeconds - OFFSET_SECONDS) / 0.02),
        Math.round((endSeconds - OFFSET_SECONDS) / 0.02),
      ])
    );
}

Deno.test("joinIntoWords() finds each segment's tokens in the window, and returns times from the recording's start", () => {
  const first = [100, 0, 1, 106];
  const second = [110, 2, 120];
  // The last sentence is cut off: it belongs to no piece.
  const tokens = [...first, ...second, 130, 0];
  const begins = [0, 0, 4, 6, 6, 10, 20, 20, 30, 40];
  const window = makeWindow(tokens, begins, 52);
  const pieces = [makePiece(first, 0, 6), makePiece(second, 10, 20)];
  assert.deepEqual(read(pieces, window), [[["Yes,", 0, 6]], [["now", 10, 20]]]);
  assert.deepEqual(read([], window), []);
});

Deno.test("joinIntoWords() makes each character a word if the language has no spaces", () => {
  const tokens = [100, 3, 4, 5, 110];
  const begins = [0, 0, 3, 8, 10, 10];
  const words = (languageToken: number) => {
    const window = makeWindow(tokens, begins, languageToken);
    return read([makePiece(tokens, 0, 10)], window);
  };
  assert.deepEqual(words(53), [[["好", 0, 3], ["的.", 3, 10]]]);
  assert.deepEqual(words(52), [[["好的.", 0, 10]]]);
});

Deno.test("joinIntoWords() returns nothing if the window has no alignment", () => {
  const { alignment: _, ...window } = makeWindow([100, 0, 110], [0, 0, 10, 10], 52);
  assert.equal(read([makePiece(window.tokens, 0, 10)], window), undefined);
});
