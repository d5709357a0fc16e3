import assert from "node:assert/strict";
import { join } from "node:path";
import { readMaxTokens } from "../../../../src/models/embedding/text_model.ts";
import { openFolder } from "../../../../src/hub/model_folder.ts";

/** The limit of a folder with these files. */
async function getLimit(files: Readonly<Record<string, unknown>>): Promise<number | undefined> {
  const path = await Deno.makeTempDir({ prefix: "hearth-limits-" });
  try {
    for (const [name, json] of Object.entries(files)) {
      await Deno.writeTextFile(join(path, name), JSON.stringify(json));
    }
    return await readMaxTokens(await openFolder(path));
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}

Deno.test("readMaxTokens() returns the smallest limit in a folder's files, but prefers max_seq_length to the tokenizer's", async () => {
  const config = { model_type: "bert", max_position_embeddings: 512 };
  const bare = { "config.json": config };
  assert.equal(await getLimit(bare), 512);
  const sentence = { ...bare, "sentence_bert_config.json": { max_seq_length: 256 } };
  assert.equal(await getLimit(sentence), 256);
  assert.equal(
    await getLimit({ ...bare, "tokenizer_config.json": { model_max_length: 128 } }),
    128,
  );
  // As in sentence-transformers, `max_seq_length` replaces the tokenizer's limit.
  assert.equal(
    await getLimit({ ...sentence, "tokenizer_config.json": { model_max_length: 128 } }),
    256,
  );
});

Deno.test("readMaxTokens() subtracts the padding offset of positions in some models", async () => {
  const roberta = { model_type: "xlm-roberta", max_position_embeddings: 514, pad_token_id: 1 };
  assert.equal(await getLimit({ "config.json": roberta }), 512);
});

Deno.test("readMaxTokens() treats a tokenizer's huge number as no limit", async () => {
  const files = {
    "config.json": { model_type: "model2vec" },
    "tokenizer_config.json": { model_max_length: 1e30 },
  };
  assert.equal(await getLimit(files), undefined);
});
