import assert from "node:assert/strict";
import {
  findLanguages,
  requireLanguage,
  toLanguageName,
} from "../../../../src/models/asr/recogniser.ts";

function find(path: string, config: Record<string, unknown> = {}): readonly string[] {
  return findLanguages({ path, config, files: new Set() });
}

Deno.test("findLanguages() reads a model's language from its configuration, its name or its type", () => {
  assert.deepEqual(find("/m/x", { language: "it", model_type: "moonshine" }), ["it"]);
  assert.deepEqual(find("/m/wav2vec2-large-xlsr-53-german-ONNX"), ["de"]);
  assert.deepEqual(find("/c/models--onnx-community--moonshine-tiny-ko-ONNX/snapshots/5a"), ["ko"]);
  assert.deepEqual(find("/m/moonshine-base-ONNX", { model_type: "moonshine" }), ["en"]);
  assert.deepEqual(find("/german/wav2vec2-base-960h"), []);
  assert.deepEqual(find("/m/x", { language: "klingon" }), []);
  assert.deepEqual(find("/m/wav2vec2-1fa2de03"), []);
});

Deno.test("requireLanguage() names the supported languages", () => {
  requireLanguage(["en", "fr"], "fr");
  const error = (message: RegExp) => ({ kind: "invalid_value", param: "language", message });
  assert.throws(() => requireLanguage(["en", "fr"], "de"), error(/"de"; it knows en, fr\.$/));
  assert.throws(() => requireLanguage([], "de"), error(/leave out this field\.$/));
});

Deno.test("toLanguageName() is empty if the language is unknown", () => {
  assert.deepEqual([toLanguageName("pt"), toLanguageName(undefined)], ["portuguese", ""]);
});
