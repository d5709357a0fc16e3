import assert from "node:assert/strict";
import { toPhonemes } from "../../../../src/models/tts/non_autoregressive.ts";

Deno.test("toPhonemes() speaks an A among letters as a letter, and otherwise as an article", async () => {
  const letter = "\u02c8e\u026a";
  assert.equal(await toPhonemes("A M", "en-US"), `${letter} \u02c8\u025bm`);
  assert.equal(await toPhonemes("L A.", "en-US"), `\u02c8\u025bl ${letter}.`);
  assert.equal(await toPhonemes("A dog", "en-US"), await toPhonemes("a dog", "en-US"));
});

Deno.test("toPhonemes() skips unknown scripts, and does not spell their letters", async () => {
  const scripts = ["你好世界", "コーヒー", "Привет мир", "שלום", "مرحبا", "नमस्ते", "한국어", "٣"];
  for (const text of scripts) assert.equal(await toPhonemes(text, "en-US"), "", text);
  assert.equal(await toPhonemes("你好。", "en-US"), "");
  assert.equal(await toPhonemes("Say 你好 twice", "en-US"), await toPhonemes("Say twice", "en-US"));
  const kept = { "naïve": "naɪˈiːv", "Łódź": "lˈɑːdz", "π": "pˈaɪ", "½": "ɐ hˈæf" };
  for (const [text, sounds] of Object.entries(kept)) {
    assert.equal(await toPhonemes(text, "en-US"), sounds);
  }
});
