import assert from "node:assert/strict";
import { toPhonemes } from "../../../../src/models/tts/tts_phonemes.ts";

Deno.test("toPhonemes() says an A among letters as a letter, and as an article elsewhere", async () => {
  const letter = "\u02c8e\u026a";
  assert.equal(await toPhonemes("A M", "en-US"), `${letter} \u02c8\u025bm`);
  assert.equal(await toPhonemes("L A.", "en-US"), `\u02c8\u025bl ${letter}.`);
  assert.equal(await toPhonemes("A dog", "en-US"), await toPhonemes("a dog", "en-US"));
});
