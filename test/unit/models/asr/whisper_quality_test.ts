/** Attempts at a window, their quality and their temperatures. */
import assert from "node:assert/strict";
import type { WhisperConfig } from "../../../../src/models/asr/whisper_config.ts";
import {
  findLanguageToken,
  getLanguageName,
  makePrompt,
  toLanguages,
} from "../../../../src/models/asr/whisper_config.ts";
import { computeCompressionRatio } from "../../../../src/models/asr/recogniser.ts";
import {
  type Attempt,
  decodeWithFallback,
  isGoodEnough,
  listTemperatures,
} from "../../../../src/models/asr/window_decoder.ts";

const CONFIG: WhisperConfig = {
  vocabSize: 200,
  startToken: 51,
  endToken: 50,
  noSpeechToken: 60,
  transcribeToken: 59,
  translateToken: 58,
  languages: new Map([["en", 52], ["tl", 53]]),
  timestampsStart: 100,
  lastFirstTimestamp: 150,
  suppressedTokens: [],
  maxTokens: 12,
};

Deno.test("makePrompt() names the task: transcribe or translate to English", () => {
  const { startToken } = CONFIG;
  assert.deepEqual(makePrompt(CONFIG, { languageToken: 55 }), [startToken, 55, 59]);
  assert.deepEqual(makePrompt(CONFIG, { languageToken: 55, translates: true }), [
    startToken,
    55,
    58,
  ]);
});

/** Decodes a window with given attempts. @returns also the options of each. */
async function decode(
  attempts: readonly Attempt[],
  { temperature = 0, getText = (tokens: readonly number[]) => tokens.join(" ") } = {},
) {
  const asked: { temperature: number; seed: number }[] = [];
  const window = await decodeWithFallback((sampling) => {
    asked.push(sampling);
    return Promise.resolve(attempts[asked.length - 1]!);
  }, { temperature, seed: 7, noSpeechProbability: 0, getText });
  return { window, asked };
}

const LIKELY = { tokens: [100, 1, 2, 3, 110], meanLogprob: -0.1 };
const UNLIKELY = { tokens: [100, 1], meanLogprob: -1.2 };

Deno.test("decodeWithFallback() ends with the first good attempt", async () => {
  const { window, asked } = await decode([LIKELY, UNLIKELY]);
  assert.deepEqual(asked, [{ temperature: 0, seed: 7 }]);
  assert.deepEqual(window.tokens, LIKELY.tokens);
  assert.deepEqual([window.temperature, window.meanLogprob], [0, -0.1]);
});

Deno.test("decodeWithFallback() retries unlikely text, at a higher temperature and with another seed", async () => {
  const last = { tokens: [100, 2], meanLogprob: -1.3 };
  const { window, asked } = await decode([UNLIKELY, UNLIKELY, last], { temperature: 0.6 });
  assert.deepEqual(asked.map(({ temperature }) => temperature.toFixed(1)), ["0.6", "0.8", "1.0"]);
  assert.equal(new Set(asked.map(({ seed }) => seed)).size, 3);
  assert.deepEqual(asked, (await decode([UNLIKELY, UNLIKELY, last], { temperature: 0.6 })).asked);
  // The last attempt is used, even if it is bad.
  assert.deepEqual(window.tokens, last.tokens);
  assert.equal(window.temperature, 1);
});

Deno.test("decodeWithFallback() retries repetitive text", async () => {
  const getText = (tokens: readonly number[]) => " and then".repeat(tokens[0]!);
  const attempts = [{ ...LIKELY, tokens: [50] }, { ...LIKELY, tokens: [1] }];
  const { window } = await decode(attempts, { getText });
  assert.deepEqual(window.tokens, [1]);
  assert.ok(window.compressionRatio < 2);
});

Deno.test("isGoodEnough() accepts unlikely text of a window that is probably silent", () => {
  const silence = { meanLogprob: -2, compressionRatio: 5, noSpeechProbability: 0.7 };
  assert.ok(isGoodEnough(silence));
  assert.ok(!isGoodEnough({ ...silence, noSpeechProbability: 0.5 }));
  assert.ok(!isGoodEnough({ meanLogprob: -0.1, compressionRatio: 2.5, noSpeechProbability: 0.9 }));
});

Deno.test("listTemperatures() rises to 1 in steps of 0.2", () => {
  const shown = (first: number) => listTemperatures(first).map((each) => Number(each.toFixed(2)));
  assert.deepEqual(shown(0), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(shown(0.5), [0.5, 0.7, 0.9]);
  assert.deepEqual(shown(1), [1]);
  assert.deepEqual(shown(1.5), [1.5]);
});

Deno.test("computeCompressionRatio() is high for repetition and low for speech", () => {
  assert.ok(computeCompressionRatio("thank you ".repeat(30)) > 10);
  assert.ok(computeCompressionRatio("Ask Michael to feed the horse.") < 1);
  assert.equal(computeCompressionRatio(""), 0);
});

Deno.test("findLanguageToken() maps the API's language codes to Whisper's tokens, and toLanguages() lists the codes", () => {
  assert.equal(findLanguageToken(CONFIG, "en"), 52);
  assert.equal(findLanguageToken(CONFIG, "fil"), 53);
  assert.deepEqual(toLanguages(CONFIG), ["en", "fil"]);
  const english = { ...CONFIG, languages: new Map(), transcribeToken: undefined };
  assert.equal(findLanguageToken(english, "en"), undefined);
  assert.deepEqual(toLanguages(english), ["en"]);
  assert.equal(getLanguageName(CONFIG, 53), "filipino");
  assert.equal(getLanguageName(english, undefined), "english");
});
