import assert from "node:assert/strict";
import { CATALOGUE } from "../../../../src/hub/catalogue.ts";
import { knownDefaults } from "../../../../src/models/embedding/embedding_config.ts";

Deno.test("knownDefaults() tells families apart by their names", () => {
  const poolings = {
    "Xenova/bge-small-en-v1.5": "cls",
    "Xenova/bge-m3": "cls",
    "intfloat/multilingual-e5-small": "mean",
    "Snowflake/snowflake-arctic-embed-m-v2.0": "cls",
    "Alibaba-NLP/gte-modernbert-base": "cls",
    "thenlper/gte-small": "mean",
    "onnx-community/Qwen3-Embedding-0.6B-ONNX": "lasttoken",
    "somebody/something-else": "mean",
  };
  for (const [name, pooling] of Object.entries(poolings)) {
    assert.equal(knownDefaults(name).pooling, pooling, name);
  }
  assert.equal(knownDefaults("intfloat/e5-base-v2").query, "query: ");
  assert.equal(knownDefaults("intfloat/multilingual-e5-large-instruct").query, undefined);
});

Deno.test("knownDefaults() has a query prompt for each model of the catalogue that was trained with one", () => {
  const without = Object.values(CATALOGUE.embedding)
    .filter((id) => knownDefaults(id).query === undefined);
  assert.deepEqual(without, ["onnx-community/all-MiniLM-L6-v2-ONNX", "Xenova/bge-m3"]);
});
