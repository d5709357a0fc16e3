/** Results of embed tasks, in addition to the goldens. */
import assert from "node:assert/strict";
import { type HearthError, StartupError } from "../../src/base/errors.ts";
import { configureLog } from "../../src/base/log.ts";
import type { Model } from "../../src/models/model.ts";
import type { EmbedTask, TaskEvent } from "../../src/models/task.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { readStoredBytes } from "../../src/graph/file/stored_range.ts";
import { makeNode, type Tensor } from "../../src/graph/file/proto.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { makeValueInfo, writeModel } from "../../src/graph/file/proto_codec.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { readTokenizer } from "../../src/models/text/tokenizer_files.ts";
import { trimAllArenas, trimOwnArena } from "../../src/base/memory.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { cosine, embed, openModel } from "../fixtures/engine/model.ts";
import { makeTinyEncoder, tokenVector, WIDTH } from "../fixtures/models/tiny_encoder.ts";

const DEMO = findModelFolder("hearth-demo-embed")!;
const LONG = "egg ".repeat(600);

// One test makes a run fail intentionally.
configureLog({ level: "error", format: "text" });

function mean(ids: readonly number[]): number[] {
  const vectors = ids.map(tokenVector);
  return Array.from(
    { length: WIDTH },
    (_, element) => vectors.reduce((sum, vector) => sum + vector[element]!, 0) / ids.length,
  );
}

function assertClose(actual: ArrayLike<number>, expected: readonly number[]): void {
  assert.equal(actual.length, expected.length);
  expected.forEach((value, element) => {
    assert.ok(Math.abs(actual[element]! - value) < 1e-5, `${Array.from(actual)} ≠ ${expected}`);
  });
}

/** A value of a model's metrics. */
async function figure(model: Model, name: string): Promise<number> {
  const metric = (await model.metrics.getMetricsAsJSON()).find((one) => one.name === name)!;
  return metric.values[0]!.value as number;
}

Deno.test("EmbeddingModel reads the output last_hidden_state or token_embeddings", async () => {
  for (const output of ["last_hidden_state", "token_embeddings"]) {
    await using tiny = await makeTinyEncoder({ output });
    await using model = await openModel(tiny.folder);
    const [row] = (await embed(model, [[15, 16]])).rows;
    assert.ok(cosine(row!, mean([2, 15, 16, 3])) > 0.99999);
  }
});

Deno.test("EmbeddingModel uses a graph's sentence_embedding unchanged", async () => {
  const modules = [{ type: "Transformer", path: "" }, { type: "Dense", path: "2_Dense" }];
  const files = { "modules.json": modules };
  await using tiny = await makeTinyEncoder({ poolsItself: true, files });
  await using model = await openModel(tiny.folder);
  const { rows } = await embed(model, [[15], [16, 17]]);
  for (const row of rows) assertClose(row, tokenVector(2));
});

Deno.test("EmbeddingModel uses the folder's pooling if a graph that pools also outputs its tokens' rows", async () => {
  const folder = await Deno.makeTempDir();
  try {
    for await (const { name, isFile } of Deno.readDir(DEMO)) {
      if (isFile) await Deno.copyFile(`${DEMO}/${name}`, `${folder}/${name}`);
    }
    for (const name of ["1_Pooling", "onnx"]) await Deno.mkdir(`${folder}/${name}`);
    await Deno.copyFile(`${DEMO}/1_Pooling/config.json`, `${folder}/1_Pooling/config.json`);
    await using files = new FolderFiles(`${DEMO}/onnx`);
    const { graph, ...model } = await readModel(files, "model.onnx");
    const initializers = await Promise.all(
      graph.initializers.map(async (tensor): Promise<Tensor> => {
        return { ...tensor, data: { kind: "memory", bytes: await readStoredBytes(tensor, files) } };
      }),
    );
    // The graph's own pooling includes padding, so that its use would show.
    const pools = makeNode("ReduceMean", ["last_hidden_state"], ["sentence_embedding"], {
      attributes: { axes: [1], keepdims: 0 },
    });
    const pooled = makeValueInfo("sentence_embedding", "float32", ["batch_size", 128]);
    await Deno.writeFile(
      `${folder}/onnx/model.onnx`,
      writeModel({
        ...model,
        graph: {
          ...graph,
          initializers,
          nodes: [...graph.nodes, pools],
          outputs: [...graph.outputs, pooled],
        },
      }),
    );
    const inputs = ["an egg", "The capital of Portugal is Lisbon, and it lies by the sea."];
    await using own = await openModel(DEMO);
    await using pooling = await openModel(folder);
    const { rows } = await embed(pooling, inputs);
    const { rows: expected } = await embed(own, inputs);
    rows.forEach((row, index) => assertClose(row, [...expected[index]!]));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("EmbeddingModel supplies token types and positions if the graph has such inputs", async () => {
  await using tiny = await makeTinyEncoder({ extraInputs: ["token_type_ids", "position_ids"] });
  await using model = await openModel(tiny.folder);
  const ids = [2, 15, 16, 3];
  const [row] = (await embed(model, [ids, Array(9).fill(20)])).rows;
  const averagePosition = 1.5;
  assert.ok(cosine(row!, mean(ids).map((value) => value + averagePosition)) > 0.99999);
});

Deno.test("EmbeddingModel refuses folders that it would compute incorrectly", async () => {
  const dense = [{ type: "sentence_transformers.models.Dense", path: "2_Dense" }];
  const cases = [
    [{ extraInputs: ["task_id"] }, /has unknown inputs: task_id/],
    [{ output: "logits" }, /no output last_hidden_state or .*; it has logits/],
    [{ files: { "modules.json": dense } }, /names a layer Dense after pooling/],
    [
      { files: { "1_Pooling/config.json": { pooling_mode: "median" } } },
      /pooling_mode: want one or more of cls, .*, saw "median"/,
    ],
    [
      {
        poolsItself: true,
        output: "rows",
        files: {
          "1_Pooling/config.json": { pooling_mode: "mean", include_prompt: false },
          "config_sentence_transformers.json": { prompts: { query: "query: " } },
        },
      },
      /include_prompt: false.*Wanted: a graph with an output last_hidden_state/,
    ],
  ] as const;
  for (const [options, message] of cases) {
    await using tiny = await makeTinyEncoder(options);
    await assert.rejects(
      openModel(tiny.folder),
      (error: Error) => error instanceof StartupError && message.test(error.message),
    );
  }
});

Deno.test("EmbeddingModel embeds texts with a graph that also accepts images and sounds (EmbeddingGemma 2)", async () => {
  await using tiny = await makeTinyEncoder({
    mediaInputs: ["image_features", "video_features", "audio_features"],
    files: {
      "config.json": {
        model_type: "embedding_gemma2",
        architectures: ["EmbeddingGemma2Model"],
        image_token_id: 900,
        audio_token_id: 901,
      },
    },
  });
  await using model = await openModel(tiny.folder);
  const [row] = (await embed(model, [[15, 16]])).rows;
  assert.ok(cosine(row!, mean([2, 15, 16, 3])) > 0.99999);
  await assert.rejects(embed(model, [[15], [15, 901]]), {
    kind: "invalid_value",
    param: "input[1]",
    message: /want text, saw the token 901, which stands for media/,
  });
});

Deno.test("EmbeddingModel excludes the tokens of a prompt from each pooling (include_prompt: false)", async () => {
  const prompt = "the dog: ";
  const text = "a cat on the moon";
  const modes = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"];
  await using tiny = await makeTinyEncoder({
    files: {
      "modules.json": [
        { type: "sentence_transformers.base.modules.transformer.Transformer", path: "" },
        {
          type: "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
          path: "1_Pooling",
        },
      ],
      "1_Pooling/config.json": { pooling_mode: modes, include_prompt: false },
      "config_sentence_transformers.json": {
        model_type: "SentenceTransformer",
        prompts: { query: prompt, document: "" },
      },
    },
  });
  await using model = await openModel(tiny.folder);
  const tokenizer = (await readTokenizer(await openFolder(tiny.folder))).tokenizer;
  // Sentence-transformers' length of the prompt: all its tokens except the last special one.
  const numPrompt = tokenizer.encodeWhole(prompt).length - 1;
  const all = tokenizer.encodeWhole(prompt + text).map((id) => tokenVector(id));
  const kept = all.slice(numPrompt);
  const sum = (weight: (index: number) => number) =>
    Array.from(
      { length: WIDTH },
      (_, element) =>
        kept.reduce((total, vector, index) => total + vector[element]! * weight(index), 0),
    );
  const positions = kept.reduce((total, _, index) => total + numPrompt + index + 1, 0);
  const expected = [
    kept[0]!,
    kept[0]!.map((_, element) => Math.max(...kept.map((vector) => vector[element]!))),
    sum(() => 1 / kept.length),
    sum(() => 1 / Math.sqrt(kept.length)),
    sum((index) => (numPrompt + index + 1) / positions),
    kept.at(-1)!,
  ].flat();
  // With a longer text in the batch, so that this one is padded.
  const { rows } = await embed(model, [text, text.repeat(3)], { inputType: "query" });
  assertClose(rows[0]!, expected);
  const plain = (await embed(model, [text], { inputType: "document" })).rows[0]!;
  assertClose(plain.subarray(0, WIDTH), tokenVector(2));
  // Cut at the beginning: by one token of the prompt, and by more than the prompt.
  const readEnd = async (truncation: number) =>
    (await embed(model, [text], { inputType: "query", truncation, keepsEnd: true })).rows[0]!;
  assertClose((await readEnd(all.length - 1)).subarray(0, 4 * WIDTH), expected.slice(0, 4 * WIDTH));
  const whole = tokenizer.encodeWhole(text);
  const end = [whole[0]!, ...whole.slice(-4)];
  assertClose((await readEnd(end.length)).subarray(2 * WIDTH, 3 * WIDTH), mean(end));
});

Deno.test("EmbeddingModel normalises if modules.json says so, or without that file", async () => {
  const transformer = { type: "Transformer", path: "" };
  const normalize = { type: "sentence_transformers.models.Normalize", path: "2" };
  for (const modules of [undefined, [transformer, normalize], [transformer]]) {
    await using tiny = await makeTinyEncoder(modules && { files: { "modules.json": modules } });
    await using model = await openModel(tiny.folder);
    const [row] = (await embed(model, [[15, 16]])).rows;
    const expected = mean([2, 15, 16, 3]);
    const length = modules?.length === 1 ? 1 : Math.hypot(...expected);
    assertClose(row!, expected.map((value) => value / length));
  }
});

Deno.test("EmbeddingModel accepts token ids with and without special tokens", async () => {
  await using model = await openModel(DEMO);
  const plain = [1195, 417, 23, 1779, 303, 876, 61];
  const { rows, promptTokens } = await embed(model, ["How do I boil an egg?", plain, [
    2,
    ...plain,
    3,
  ]]);
  assert.equal(promptTokens, 27);
  for (const row of rows) assertClose(row, [...rows[0]!]);
  await assert.rejects(embed(model, ["a", [15, 2800]]), {
    kind: "invalid_value",
    param: "input[1][1]",
    message: /^input\[1\]\[1\]: want a token id from 0 to 2799, saw 2800\./,
  });
});

Deno.test("EmbeddingModel refuses a text that is too long, and names both lengths, or truncates it on request", async () => {
  await using model = await openModel(DEMO);
  await assert.rejects(embed(model, ["a", LONG]), {
    kind: "context_length_exceeded",
    param: "input[1]",
    message: /^input\[1\] has 602 tokens, and the model takes at most 512/,
  });
  const whole = await embed(model, ["egg ".repeat(510)]);
  assert.equal(whole.promptTokens, 512);
  const cut = await embed(model, [LONG], { truncation: "model" });
  assert.equal(cut.promptTokens, 512);
  assertClose(cut.rows[0]!, [...whole.rows[0]!]);
  const short = await embed(model, [LONG, "egg"], { truncation: 4 });
  assert.equal(short.promptTokens, 4 + 3);
  assertClose(short.rows[0]!, [...(await embed(model, ["egg egg"])).rows[0]!]);
  await assert.rejects(embed(model, [LONG], { truncation: 2 }), { kind: "invalid_value" });
});

Deno.test("EmbeddingModel puts the prompt of the input type before texts", async () => {
  const prompts = { query: "find: ", passage: "read: ", none: "egg: " };
  const files = {
    "config_sentence_transformers.json": { prompts, default_prompt_name: "none" },
  };
  await using tiny = await makeTinyEncoder({ files });
  await using model = await openModel(tiny.folder);
  await using plain = await makeTinyEncoder();
  await using bare = await openModel(plain.folder);
  const types = [["query", "find: "], ["document", "read: "], [undefined, "egg: "]] as const;
  for (const [inputType, prompt] of types) {
    const { rows } = await embed(model, ["the dog"], { inputType });
    assertClose(rows[0]!, [...(await embed(bare, [`${prompt}the dog`])).rows[0]!]);
  }
  const { rows } = await embed(bare, ["the dog"], { inputType: "query" });
  assertClose(rows[0]!, [...(await embed(bare, ["the dog"])).rows[0]!]);
});

Deno.test("EmbeddingModel knows the settings that exports of well-known models lack", async () => {
  await using tiny = await makeTinyEncoder();
  await using bge = await openModel(tiny.folder, { id: "Xenova/bge-small-en-v1.5" });
  const [first] = (await embed(bge, [[15, 16]])).rows;
  assert.ok(cosine(first!, tokenVector(2)) > 0.99999);
  await using nomic = await openModel(tiny.folder, { id: "nomic-ai/nomic-embed-text-v1.5" });
  const query = await embed(nomic, ["the dog"], { inputType: "query" });
  const spelled = await embed(nomic, ["search_query: the dog"]);
  assertClose(query.rows[0]!, [...spelled.rows[0]!]);
});

Deno.test("EmbeddingModel shortens vectors if the model was trained for it, and normalises them", async () => {
  const config = { model_type: "bert", architectures: ["BertModel"], matryoshka_dimensions: [2] };
  await using tiny = await makeTinyEncoder({ files: { "config.json": config } });
  await using model = await openModel(tiny.folder);
  const { rows: [whole] } = await embed(model, [[15]]);
  const { rows: [short], dimensions } = await embed(model, [[15]], { dimensions: 2 });
  assert.equal(dimensions, 2);
  const length = Math.hypot(whole![0]!, whole![1]!);
  assertClose(short!, [whole![0]! / length, whole![1]! / length]);
  assert.equal((await embed(model, [[15]], { dimensions: WIDTH })).dimensions, WIDTH);
  await assert.rejects(embed(model, [[15]], { dimensions: WIDTH + 1 }), { param: "dimensions" });

  await using fixed = await openModel(DEMO);
  await assert.rejects(embed(fixed, ["a"], { dimensions: 64 }), {
    kind: "invalid_value",
    message: /want 128, since this model's vectors cannot be shortened, saw 64/,
  });
});

Deno.test({
  name: "EmbeddingModel refuses a text without a token" +
    unlessThere(
      findModelFolder("embed-m2v") !== undefined,
      "models/embed-m2v",
      "a tokenizer that sets no special tokens",
    ),
  ignore: findModelFolder("embed-m2v") === undefined,
  fn: async () => {
    await using model = await openModel(findModelFolder("embed-m2v")!);
    await assert.rejects(embed(model, ["a", "   "]), {
      kind: "invalid_value",
      param: "input[1]",
    });
    assert.equal((await embed(model, ["a"])).promptTokens, 1);
  },
});

Deno.test("EmbeddingModel answers 10,000 inputs in their order", async () => {
  await using tiny = await makeTinyEncoder();
  await using model = await openModel(tiny.folder);
  const inputs = Array.from(
    { length: 10_000 },
    (_, index) => Array(1 + index % 37).fill(index % 2800),
  );
  const { rows } = await embed(model, inputs);
  for (const index of [0, 1, 36, 37, 2799, 2800, 5000, 9999]) {
    const expected = mean([2, ...inputs[index]!, 3]);
    assert.ok(cosine(rows[index]!, expected) > 0.9999, `${index}`);
  }
});

Deno.test("EmbeddingModel.start() can be cancelled: texts that have not run are dropped, and other requests continue", async () => {
  await using model = await openModel(DEMO, { maxBatchTokens: 64 });
  const heard: TaskEvent[] = [];
  const task: EmbedTask = { type: "embed", requestId: "test", inputs: Array(2000).fill("an egg") };
  const end = model.start(task, (event) => Promise.resolve(void heard.push(event)));
  await embed(model, ["first"]);
  end();
  const numTokens = await figure(model, "hearth_batch_tokens_total");
  assert.ok(numTokens < 2000);
  await embed(model, ["second"]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(await figure(model, "hearth_batch_tokens_total") <= numTokens + 64);
  assert.equal(await figure(model, "hearth_texts_waiting"), 0);
  assert.deepEqual(heard, []);
});

Deno.test("EmbeddingModel: a failing run ends its own requests, and the next is answered", async () => {
  await using tiny = await makeTinyEncoder({ numRows: 1000 });
  await using model = await openModel(tiny.folder);
  await assert.rejects(embed(model, [[15], [2000]]), { kind: "inference_failed" });
  assert.ok(cosine((await embed(model, [[15]])).rows[0]!, mean([2, 15, 3])) > 0.9999);
});

Deno.test("EmbeddingModel.start() refuses tasks of other kinds", async () => {
  await using model = await openModel(DEMO);
  const task = { type: "rerank", requestId: "test", query: "a", documents: ["b"] } as const;
  assert.throws(() => model.start(task, () => Promise.resolve()), (error: HearthError) => {
    return error.kind === "unsupported_by_model";
  });
});

Deno.test("EmbeddingModel returns the memory of its largest batch", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  const MIB = 2 ** 20;
  await using model = await openModel(DEMO, { maxBatchTokens: 16_384 });
  const texts = Array.from({ length: 32 }, () => Array<number>(510).fill(100));
  await embed(model, [texts[0]!]);
  const before = Deno.memoryUsage().rss;
  // The attention weights of this batch alone need 128 MiB.
  await embed(model, texts);
  trimOwnArena();
  const stays = () => (Deno.memoryUsage().rss - before) / MIB;
  for (let tries = 0; stays() > 64 && tries < 50; tries++) {
    await trimAllArenas();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(stays() <= 64, `${stays().toFixed(0)} MiB stay`);
});
