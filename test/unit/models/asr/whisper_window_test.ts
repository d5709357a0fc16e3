/** Attempts at a window, their figures and their temperatures. */
import assert from "node:assert/strict";
import type { WhisperConfig } from "../../../../src/models/asr/whisper_config.ts";
import {
  languageNameOf,
  languagesOf,
  languageTokenOf,
  promptOf,
} from "../../../../src/models/asr/whisper_config.ts";
import {
  compressionRatioOf,
  isGoodEnough,
  temperaturesFrom,
} from "../../../../src/models/asr/whisper_quality.ts";
import { WindowAttempts } from "../../../../src/models/asr/whisper_window.ts";

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

function attemptsAt(temperatures: readonly number[]): WindowAttempts {
  return new WindowAttempts({
    row: { samples: new Float32Array(0), recording: 0, contentFrames: 0 },
    languageToken: 52,
    temperatures,
    seed: 7,
    textOf: (tokens) => tokens.map((token) => String.fromCharCode(97 + token % 26)).join(""),
  }, CONFIG);
}

function pushAll(attempts: WindowAttempts, tokens: readonly number[], logprob = -0.1) {
  let outcome: ReturnType<WindowAttempts["push"]> = "next";
  for (const tokenId of tokens) {
    assert.equal(outcome, "next");
    outcome = attempts.push({ tokenId, logprob, top: [] });
  }
  return outcome;
}

Deno.test("promptOf() names the task: to write what is spoken, or English", () => {
  const { startToken } = CONFIG;
  assert.deepEqual(promptOf(CONFIG, { languageToken: 55 }), [startToken, 55, 59]);
  assert.deepEqual(promptOf(CONFIG, { languageToken: 55, translates: true }), [startToken, 55, 58]);
});

Deno.test("WindowAttempts ends with the first good attempt", () => {
  const attempts = attemptsAt([0, 0.5]);
  assert.deepEqual(attempts.prompt, [51, 52, 59]);
  const window = pushAll(attempts, [100, 1, 2, 3, 110, 50]);
  assert.ok(typeof window === "object");
  assert.deepEqual(window.tokens, [100, 1, 2, 3, 110]);
  assert.equal(window.temperature, 0);
  assert.ok(Math.abs(window.meanLogprob + 0.1) < 1e-9);
});

Deno.test("WindowAttempts tries again, hotter and with other randomness, what is unlikely", () => {
  const attempts = attemptsAt([0, 0.4, 0.8]);
  const first = attempts.sampling;
  assert.equal(pushAll(attempts, [100, 1, 50], -1.2), "again");
  const second = attempts.sampling;
  assert.deepEqual([first.temperature, second.temperature], [0, 0.4]);
  assert.notEqual(first.seed, second.seed);
  assert.equal(attempts.rule.allowsText, false);
  assert.equal(pushAll(attempts, [100, 1, 50], -1.2), "again");
  // The last attempt stands, however bad.
  const window = pushAll(attempts, [100, 2, 50], -1.2);
  assert.ok(typeof window === "object" && window.temperature === 0.8);
  assert.deepEqual(window.tokens, [100, 2]);
});

Deno.test("WindowAttempts cuts and tries again what repeats itself", () => {
  const loop = [100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
  assert.equal(pushAll(attemptsAt([0]), loop.slice(0, 11)), "next");
  const cut = pushAll(attemptsAt([0]), loop);
  assert.ok(typeof cut === "object" && cut.tokens.length === CONFIG.maxTokens);
  const long = { ...CONFIG, maxTokens: 224 };
  const attempts = new WindowAttempts({
    row: { samples: new Float32Array(0), recording: 0, contentFrames: 0 },
    languageToken: 52,
    temperatures: [0, 0.2],
    seed: 7,
    textOf: () => " and then".repeat(50),
  }, long);
  assert.equal(pushAll(attempts, [100, 1, 50]), "again");
});

Deno.test("isGoodEnough() takes silence for what it is", () => {
  const silence = { meanLogprob: -2, compressionRatio: 5, noSpeechProbability: 0.7 };
  assert.ok(isGoodEnough(silence));
  assert.ok(!isGoodEnough({ ...silence, noSpeechProbability: 0.5 }));
  assert.ok(!isGoodEnough({ meanLogprob: -0.1, compressionRatio: 2.5, noSpeechProbability: 0.9 }));
});

Deno.test("temperaturesFrom() rises to 1 in steps of 0.2", () => {
  const shown = (first: number) => temperaturesFrom(first).map((each) => Number(each.toFixed(2)));
  assert.deepEqual(shown(0), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(shown(0.5), [0.5, 0.7, 0.9]);
  assert.deepEqual(shown(1), [1]);
  assert.deepEqual(shown(1.5), [1.5]);
});

Deno.test("compressionRatioOf() is high for repetition and low for speech", () => {
  assert.ok(compressionRatioOf("thank you ".repeat(30)) > 10);
  assert.ok(compressionRatioOf("Ask Michael to feed the horse.") < 1);
  assert.equal(compressionRatioOf(""), 0);
});

Deno.test("languageTokenOf() maps the API's codes, which languagesOf() names, to Whisper's", () => {
  assert.equal(languageTokenOf(CONFIG, "en"), 52);
  assert.equal(languageTokenOf(CONFIG, "fil"), 53);
  assert.deepEqual(languagesOf(CONFIG), ["en", "fil"]);
  const english = { ...CONFIG, languages: new Map(), transcribeToken: undefined };
  assert.equal(languageTokenOf(english, "en"), undefined);
  assert.deepEqual(languagesOf(english), ["en"]);
  assert.equal(languageNameOf(CONFIG, 53), "filipino");
  assert.equal(languageNameOf(english, undefined), "english");
});
