/**
 * Embedding and reranking with a decoder, on random weights: rows equal those of the uncut graph in ONNX Runtime, in
 * any batch and with any shared prefix.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { StartupError } from "../../src/base/errors.ts";
import { EncoderTokenizer } from "../../src/models/embedding/encoder_tokenizer.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import type { Model } from "../../src/models/model.ts";
import { makeYesNoFormat } from "../../src/models/embedding/rerank.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { embed, openModel, rerank } from "../fixtures/engine/model.ts";
import { makeTinyDecoder, type TinyDecoder } from "../fixtures/models/tiny_decoder.ts";
import { WholeGraph } from "../unit/graph/whole_graph.ts";

const EMBED_TOKENIZER = findModelFolder("hearth-demo-embed")!;
const QWEN = fileURLToPath(new URL("../../../shared/tokenizers/qwen3", import.meta.url));
const hasQwen = existsSync(QWEN);

/** The built-in chat model's tokenizer with one more token, since the answer "yes" must be a single token. */
const CHAT_TOKENIZER = findModelFolder("hearth-demo-chat")!;
const CHAT_VOCAB = 2048;

async function writeYesTokenizer(folder: string): Promise<void> {
  const tokenizer = JSON.parse(await Deno.readTextFile(`${CHAT_TOKENIZER}/tokenizer.json`));
  const [token] = tokenizer.added_tokens;
  const yes = { ...token, id: CHAT_VOCAB, content: "yes", special: false };
  tokenizer.added_tokens.push(yes);
  await Deno.writeTextFile(`${folder}/tokenizer.json`, JSON.stringify(tokenizer));
  await Deno.copyFile(
    `${CHAT_TOKENIZER}/tokenizer_config.json`,
    `${folder}/tokenizer_config.json`,
  );
}

const LAST_TOKEN = { "1_Pooling/config.json": { pooling_mode_lasttoken: true } };
const TEXTS = [
  "How do I boil an egg?",
  "egg",
  "The capital of Portugal is Lisbon.",
  "Put the egg into boiling water. After about six minutes the yolk is soft.",
];

function makeEmbedder(): Promise<TinyDecoder> {
  return makeTinyDecoder({
    tokenizer: EMBED_TOKENIZER,
    vocabSize: 2800,
    givesHidden: true,
    contextLength: 64,
    files: LAST_TOKEN,
  });
}

async function makeReranker(files?: Readonly<Record<string, unknown>>): Promise<TinyDecoder> {
  const tokenizer = await Deno.makeTempDir({ prefix: "hearth-tokenizer-" });
  await writeYesTokenizer(tokenizer);
  const tiny = await makeTinyDecoder({
    tokenizer,
    vocabSize: CHAT_VOCAB + 1,
    givesHidden: false,
    contextLength: 512,
    ...files && { files },
  });
  return {
    ...tiny,
    [Symbol.asyncDispose]: async () => {
      await tiny[Symbol.asyncDispose]();
      await Deno.remove(tokenizer, { recursive: true });
    },
  };
}

async function figure(model: Model, name: string): Promise<number> {
  const metric = (await model.metrics.getMetricsAsJSON()).find((one) => one.name === name)!;
  return metric.values[0]!.value as number;
}

/** The last row of the uncut graph, normalised to length 1. */
async function wholeVector(tiny: TinyDecoder, ids: readonly number[]): Promise<number[]> {
  await using whole = await WholeGraph.open(tiny.graph);
  const row = (await whole.run([ids], tiny.output)).at(-1)!;
  const length = Math.hypot(...row);
  return [...row].map((value) => value / length);
}

async function assertEmbeds(backend: Backend): Promise<void> {
  await using tiny = await makeEmbedder();
  await using model = await openModel(tiny.folder, { backend });
  const { rows } = await embed(model, TEXTS);
  const again = await embed(model, TEXTS);
  const tokenizer = await EncoderTokenizer.load(await openFolder(tiny.folder));
  for (const [index, text] of TEXTS.entries()) {
    const { ids } = tokenizer.frame(tokenizer.encode(text));
    const expected = await wholeVector(tiny, ids);
    for (const row of [rows[index]!, again.rows[index]!]) {
      expected.forEach((value, element) => {
        assert.ok(Math.abs(row[element]! - value) < 1e-4, `${text}: ${row[element]} ≠ ${value}`);
      });
    }
  }
}

Deno.test("a decoder embeds like its uncut graph, on the CPU", async () => {
  await assertEmbeds(new CpuBackend());
});

gpuTest("a decoder embeds like its uncut graph, on WebGPU", async (gpu) => {
  await assertEmbeds(await WebGpuBackend.create(gpu));
});

Deno.test("a decoder embeds more texts than fit in one step, in their order, and can be cancelled", async () => {
  await using tiny = await makeEmbedder();
  await using model = await openModel(tiny.folder);
  const inputs = Array.from({ length: 200 }, (_, index) => TEXTS[index % TEXTS.length]!);
  const { rows, promptTokens } = await embed(model, inputs);
  const { rows: alone, promptTokens: tokensOfFew } = await embed(model, TEXTS);
  assert.equal(promptTokens, tokensOfFew * 50);
  rows.forEach((row, index) => {
    const expected = alone[index % TEXTS.length]!;
    assert.ok(row.every((value, element) => Math.abs(value - expected[element]!) < 1e-4));
  });

  const heard: unknown[] = [];
  const end = model.start(
    { type: "embed", requestId: "test", inputs: Array(5000).fill("egg") },
    (event) => Promise.resolve(void heard.push(event)),
  );
  await embed(model, ["egg"]);
  end();
  await embed(model, ["egg"]);
  assert.equal(await figure(model, "hearth_sequences_running"), 0);
  assert.equal(await figure(model, "hearth_sequences_waiting"), 0);
  assert.deepEqual(heard, []);
});

Deno.test("a decoder refuses a text longer than its context, and names both lengths", async () => {
  await using tiny = await makeEmbedder();
  await using model = await openModel(tiny.folder);
  assert.equal(model.contextLength, 63);
  await assert.rejects(embed(model, ["egg", "egg ".repeat(70)]), {
    kind: "context_length_exceeded",
    message: /input\[1\] has 72 tokens, and the model takes at most 63/,
  });
  const { promptTokens } = await embed(model, ["egg ".repeat(70)], { truncation: "model" });
  assert.equal(promptTokens, 63);
});

Deno.test("a decoder without logits is refused as a language model", async () => {
  await using made = await makeEmbedder();
  await assert.rejects(
    openModel(made.folder, { kind: "text" }),
    (error) =>
      error instanceof StartupError &&
      /model\.onnx gives last_hidden_state and no logits.*exclude_lm_head/s.test(error.message),
  );
});

Deno.test("a decoder is refused for embedding if its pooling is not the last token's", async () => {
  await using tiny = await makeTinyDecoder({
    tokenizer: EMBED_TOKENIZER,
    vocabSize: 2800,
    givesHidden: true,
    contextLength: 64,
    files: { "1_Pooling/config.json": { pooling_mode_mean_tokens: true } },
  });
  await assert.rejects(openModel(tiny.folder), (error: Error) => {
    return error instanceof StartupError && /wants mean pooling/.test(error.message);
  });
});

const QUERY = "what is the capital of Portugal?";
const DOCUMENTS = [
  "The capital of Portugal is Lisbon.",
  "Rinse the rice, add twice as much water!",
  "  A text that begins with spaces\nand goes on in a second line.\n",
];

/** The whole prompt in the format of the model's authors. */
function makePrompt(query: string, document: string): string {
  return "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query " +
    'and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n' +
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that " +
    `answer the query\n<Query>: ${query}\n<Document>: ${document}<|im_end|>\n` +
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";
}

async function assertReranks(backend: Backend): Promise<void> {
  await using tiny = await makeReranker();
  await using model = await openModel(tiny.folder, { backend, kind: "rerank" });
  const { scores, promptTokens } = await rerank(model, QUERY, DOCUMENTS);
  const tokenizer = await EncoderTokenizer.load(await openFolder(tiny.folder));
  const [no, yes] = makeYesNoFormat(tokenizer).columns;
  let numTokens = 0;
  await using whole = await WholeGraph.open(tiny.graph);
  for (const [index, document] of DOCUMENTS.entries()) {
    const ids = tokenizer.encode(makePrompt(QUERY, document));
    numTokens += ids.length;
    const logits = (await whole.run([ids])).at(-1)!;
    const expected = 1 / (1 + Math.exp(logits[no]! - logits[yes]!));
    assert.ok(Math.abs(scores[index]! - expected) < 1e-4, `${scores[index]} ≠ ${expected}`);
  }
  assert.equal(promptTokens, numTokens);
  const told = await rerank(model, QUERY, DOCUMENTS, { instruction: "find the worst" });
  const [document] = DOCUMENTS;
  const ids = tokenizer.encode(
    makePrompt(QUERY, document!).replace(/(?<=<Instruct>: ).*/, "find the worst"),
  );
  const logits = (await whole.run([ids])).at(-1)!;
  assert.ok(Math.abs(told.logits[0]! - (logits[yes]! - logits[no]!)) < 1e-3);
  // All except the first found the system prompt and the query in the cache.
  assert.ok(await figure(model, "hearth_prefix_hit_tokens_total") >= 2 * 64);
}

Deno.test({
  name: "a language model reranks like its uncut graph, and computes the query once, on the CPU",
  fn: () => assertReranks(new CpuBackend()),
});

gpuTest("a language model reranks like its uncut graph, on WebGPU", async (gpu) => {
  await assertReranks(await WebGpuBackend.create(gpu));
});

Deno.test("a language model reranks by the tokens that sentence-transformers' LogitScore names", async () => {
  const scored = (config: unknown) => ({
    "modules.json": [
      { path: "", type: "sentence_transformers.base.modules.transformer.Transformer" },
      {
        path: "1_LogitScore",
        type: "sentence_transformers.cross_encoder.modules.logit_score.LogitScore",
      },
    ],
    "1_LogitScore/config.json": config,
  });
  const [document] = DOCUMENTS;
  for (const ids of [{ true_token_id: 40, false_token_id: 50 }, { true_token_id: 60 }]) {
    await using tiny = await makeReranker(scored(ids));
    await using model = await openModel(tiny.folder);
    assert.equal(model.kind, "rerank");
    const tokenizer = await EncoderTokenizer.load(await openFolder(tiny.folder));
    await using whole = await WholeGraph.open(tiny.graph);
    const row = (await whole.run([tokenizer.encode(makePrompt(QUERY, document!))])).at(-1)!;
    const { true_token_id: yes, false_token_id: no } = ids;
    const wanted = row[yes]! - (no === undefined ? 0 : row[no]!);
    const { logits } = await rerank(model, QUERY, [document!]);
    assert.ok(Math.abs(logits[0]! - wanted) < 1e-3, `${logits[0]} ≠ ${wanted}`);
  }
  for (
    const [config, message] of [
      [{ true_token_id: "yes" }, /1_LogitScore\/config.json: true_token_id: want a token id/],
      [{ true_token_id: 1e6 }, /scores by the token 1000000 .* gives logits of 2049 tokens/],
    ] as const
  ) {
    await using tiny = await makeReranker(scored(config));
    await assert.rejects(openModel(tiny.folder), { name: "StartupError", message });
  }
});

Deno.test({
  name: "makeYesNoFormat() joins query and document to the same tokens as the whole prompt" +
    unlessThere(hasQwen, "tokenizers/qwen3", "the tokenizer of Qwen3-Reranker"),
  ignore: !hasQwen,
  fn: async () => {
    const folder = {
      path: QWEN,
      files: new Set(["tokenizer.json", "tokenizer_config.json"]),
      config: {},
    };
    const tokenizer = await EncoderTokenizer.load(folder);
    const form = makeYesNoFormat(tokenizer);
    for (const query of ["what", "what?", "why!?", "a b…", "5", "日本の首都は？"]) {
      for (
        const document of ["text", "5 eggs", "(in brackets)", "“quoted”", "東京", "…", "a\n\nb"]
      ) {
        const { ids } = form.frame(form.encodeQuery(query), form.encodeDocument(document));
        assert.deepEqual(
          ids,
          tokenizer.encode(makePrompt(query, document)),
          `${query} ${document}`,
        );
      }
    }
  },
});

Deno.test("a language model of another family is refused as a reranker", async () => {
  await using tiny = await makeTinyDecoder({
    tokenizer: EMBED_TOKENIZER,
    vocabSize: 2800,
    givesHidden: false,
    contextLength: 64,
  });
  await assert.rejects(openModel(tiny.folder, { kind: "rerank" }), (error: Error) => {
    return error instanceof StartupError && /Qwen3-Reranker/.test(error.message);
  });
});
