import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { CATALOGUE } from "../../../../src/hub/catalogue.ts";
import { openFolder } from "../../../../src/hub/model_folder.ts";
import {
  type EmbeddingConfig,
  findKnownDefaults,
  readEmbeddingConfig,
} from "../../../../src/models/embedding/embedding_config.ts";

/** The configuration of a folder with these files. */
async function read(files: Readonly<Record<string, unknown>>): Promise<EmbeddingConfig> {
  const path = await Deno.makeTempDir();
  try {
    for (const [name, json] of Object.entries({ "config.json": {}, ...files })) {
      await Deno.mkdir(dirname(join(path, name)), { recursive: true });
      await Deno.writeTextFile(join(path, name), JSON.stringify(json));
    }
    return await readEmbeddingConfig(await openFolder(path), "somebody/something-else");
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}

Deno.test("findKnownDefaults() recognizes families by their names", () => {
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
    assert.equal(findKnownDefaults(name).pooling, pooling, name);
  }
  assert.equal(findKnownDefaults("intfloat/e5-base-v2").query, "query: ");
  assert.equal(findKnownDefaults("intfloat/multilingual-e5-large-instruct").query, undefined);
});

Deno.test("findKnownDefaults() has a query prompt for each model of the catalogue that was trained with one", () => {
  const without = Object.values(CATALOGUE.embedding)
    .filter((id) => findKnownDefaults(id).query === undefined);
  assert.deepEqual(without, ["onnx-community/all-MiniLM-L6-v2-ONNX", "Xenova/bge-m3"]);
});

Deno.test("readEmbeddingConfig() allows shortened vectors only if the folder says so", async () => {
  assert.equal((await read({})).isMatryoshka, false);
  for (const config of [{ is_matryoshka: true }, { matryoshka_dimensions: [64, 128] }]) {
    assert.equal((await read({ "config.json": config })).isMatryoshka, true);
  }
  assert.equal((await read({ "config.json": { is_matryoshka: false } })).isMatryoshka, false);
});

Deno.test("readEmbeddingConfig() reads pooling switches, in the order in which sentence-transformers joins them", async () => {
  const pooling = async (json: object) => (await read({ "1_Pooling/config.json": json })).pooling;
  const both = { pooling_mode_mean_tokens: true, pooling_mode_cls_token: true };
  assert.deepEqual(await pooling(both), ["cls", "mean"]);
  assert.deepEqual(await pooling({ pooling_mode_max_tokens: true }), ["max"]);
  assert.deepEqual(await pooling({ pooling_mode_cls_token: false }), ["mean"]);
});

Deno.test("readEmbeddingConfig() reads pooling names, as sentence-transformers 5.4 and later write them", async () => {
  const pooling = async (words: unknown) =>
    (await read({
      "1_Pooling/config.json": {
        embedding_dimension: 4,
        pooling_mode: words,
        include_prompt: true,
        // A switch next to the name is ignored.
        pooling_mode_cls_token: true,
      },
    })).pooling;
  assert.deepEqual(await pooling("mean"), ["mean"]);
  assert.deepEqual(await pooling("lasttoken"), ["lasttoken"]);
  assert.deepEqual(await pooling("mean_sqrt_len_tokens"), ["mean_sqrt_len"]);
  assert.deepEqual(await pooling("weightedmean"), ["weightedmean"]);
  assert.deepEqual(await pooling(["max", "cls"]), ["max", "cls"]);
  for (const wrong of ["average", ["mean", 1], [], null]) {
    await assert.rejects(
      pooling(wrong),
      /1_Pooling\/config.json: pooling_mode: want one or more of cls, max, mean, .*, saw/,
    );
  }
});

Deno.test("readEmbeddingConfig() excludes prompts from the pooling if the folder says so", async () => {
  const json = { pooling_mode: ["cls", "mean"], include_prompt: false };
  const { pooling, skipsPrompt } = await read({ "1_Pooling/config.json": json });
  assert.deepEqual([pooling, skipsPrompt], [["first", "mean"], true]);
});

Deno.test("readEmbeddingConfig() reads modules.json: the pooling module, and the modules after it", async () => {
  const modules = (...types: readonly string[]) => ({
    "modules.json": ["Transformer", "Pooling", ...types].map((type, i) => ({
      type: `sentence_transformers.base.modules.${type.toLowerCase()}.${type}`,
      path: i === 0 ? "" : `${i}_Own${type}`,
    })),
    "1_OwnPooling/config.json": { pooling_mode_lasttoken: true },
  });
  const plain = await read(modules());
  assert.deepEqual([plain.pooling, plain.isPoolingGiven], [["lasttoken"], true]);
  assert.deepEqual([plain.normalizes, plain.laterLayer], [false, undefined]);
  const full = await read(modules("Dense", "Normalize"));
  assert.deepEqual([full.normalizes, full.laterLayer], [true, "Dense"]);
  const bare = await read({});
  assert.deepEqual([bare.normalizes, bare.isPoolingGiven, bare.laterLayer], [
    ...[true, false, undefined],
  ]);
});

Deno.test("readEmbeddingConfig() reads prompts by purpose, and the default prompt of texts without a purpose", async () => {
  const file = "config_sentence_transformers.json";
  const prompts = { "web_search_query": "Q: ", passage: "P: ", title: "T: " };
  assert.deepEqual(
    (await read({ [file]: { prompts, default_prompt_name: "title" } })).prompts,
    { query: "Q: ", document: "P: ", none: "T: " },
  );
  const { namedPrompts } = await read({ [file]: { prompts: { ...prompts, nothing: null } } });
  assert.deepEqual(Object.fromEntries(namedPrompts), prompts);
  assert.deepEqual(
    (await read({ [file]: { prompts: { title: "T: " }, default_prompt_name: null } })).prompts,
    { query: "", document: "", none: "" },
  );
});

Deno.test("readEmbeddingConfig() names the error in modules.json", async () => {
  await assert.rejects(read({ "modules.json": {} }), /modules.json: want an array of modules/);
  await assert.rejects(read({ "modules.json": [{ path: "" }] }), /modules.json: \[0\].type: want/);
});

Deno.test("readEmbeddingConfig() reads the length to which sentence-transformers truncates vectors", async () => {
  const settings = { "config_sentence_transformers.json": { truncate_dim: 2 } };
  const { dimensions, isMatryoshka } = await read(settings);
  assert.deepEqual([dimensions, isMatryoshka], [2, true]);
});
