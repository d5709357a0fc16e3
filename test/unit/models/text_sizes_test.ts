import assert from "node:assert/strict";
import { readContextLength, readVocabSize } from "../../../src/models/folder/text_sizes.ts";

function folder(config: Record<string, unknown>) {
  return { path: "/models/x", config, files: new Set<string>() };
}

Deno.test("readContextLength() reads the config's own length, or its text model's", () => {
  assert.equal(readContextLength(folder({ max_position_embeddings: 512 })), 512);
  assert.equal(readContextLength(folder({ model_type: "gpt2", n_positions: 64 })), 64);
  assert.equal(readContextLength(folder({ text_config: { max_position_embeddings: 96 } })), 96);
});

Deno.test("readContextLength() knows what transformers leaves out because it is the default of the type", () => {
  assert.equal(readContextLength(folder({ model_type: "qwen2" })), 32_768);
  const nested = { model_type: "gemma3", text_config: { model_type: "gemma3_text" } };
  assert.equal(readContextLength(folder(nested)), 131_072);
});

Deno.test("readContextLength() and readVocabSize() refuse a config that does not say", () => {
  assert.throws(() => readContextLength(folder({ model_type: "new" })), {
    name: "StartupError",
    message: /\/models\/x\/config\.json gives no max_position_embeddings or n_positions/,
  });
  assert.throws(() => readVocabSize(folder({ vocab_size: "many" })), { message: /vocab_size/ });
});
