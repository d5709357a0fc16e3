/** Exports of model2vec: a text's vector is the mean of its tokens' rows, without unknown ones. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { Backend } from "../../src/device/backend.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { GraphBuilder } from "../fixtures/graphs/graph_builder.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { embed, openModel } from "../fixtures/engine/model.ts";
import { buildModel, constant } from "../fixtures/graphs/onnx_builder.ts";
import { tokenVector, WIDTH } from "../fixtures/models/tiny_encoder.ts";
import { tokenizerJson } from "../fixtures/text/tokenizer_json.ts";

const WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "dog", "saw", "a", "cat"];

/** The mean of the rows between two offsets, like PyTorch's EmbeddingBag. */
function bagGraph(): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const rows = Float32Array.from(WORDS.flatMap((_, id) => tokenVector(id)));
  const table = graph.constant(constant("table", [WORDS.length, WIDTH], rows));
  const vectors = graph.add("Gather", [table, "input_ids"]);
  const numTokens = graph.add("Squeeze", [graph.add("Shape", ["input_ids"]), graph.ints([0])]);
  const zero = graph.constant(constant("zero", [], BigInt64Array.of(0n)));
  const one = graph.constant(constant("one", [], BigInt64Array.of(1n)));
  const positions = graph.add("Range", [zero, numTokens, one]);
  const row = graph.add("Unsqueeze", [positions, graph.ints([0])]);
  const starts = graph.add("Unsqueeze", ["offsets", graph.ints([1])]);
  const begun = graph.add("GreaterOrEqual", [row, starts]);
  // 1 for a text that has begun, minus 1 if the next text has begun too: a token belongs to the last of them.
  const counts = graph.add("Cast", [begun], { attributes: { to: 1 } });
  const later = graph.add("Slice", [
    counts,
    graph.ints([1]),
    graph.ints([2 ** 31 - 1]),
    graph.ints([0]),
  ]);
  const padding = graph.constant(constant("padding", [4], BigInt64Array.of(0n, 0n, 1n, 0n)));
  const next = graph.add("Pad", [later, padding]);
  const members = graph.add("Sub", [counts, next]);
  const sums = graph.add("MatMul", [members, vectors]);
  const sizes = graph.add("ReduceSum", [members, graph.ints([1])], {
    attributes: { keepdims: 1 },
  });
  graph.add("Div", [sums, sizes], { outputs: ["embeddings"] });
  return buildModel({
    nodes: graph.nodes,
    initializers: graph.initializers,
    inputs: [["input_ids", "int64", ["num_tokens"]], ["offsets", "int64", ["batch_size"]]],
    outputs: [["embeddings", "float32", ["batch_size", WIDTH]]],
    opset: 14,
  });
}

/** The folder that model2vec's export writes; potion's also has a `modules.json`. */
async function makeFolder(folder: string, files: Record<string, unknown> = {}): Promise<void> {
  const vocab = Object.fromEntries(WORDS.map((word, id) => [word, id]));
  const all = {
    "config.json": {
      model_type: "model2vec",
      architectures: ["StaticModel"],
      tokenizer_name: "baai/bge-base-en-v1.5",
      seq_length: 1_000_000,
      hidden_dim: WIDTH,
      normalize: false,
    },
    "tokenizer.json": tokenizerJson(WORDS.slice(0, 4), {
      pre_tokenizer: { type: "Whitespace" },
      post_processor: {
        type: "BertProcessing",
        sep: ["[SEP]", 3],
        cls: ["[CLS]", 2],
      },
      decoder: { type: "WordPiece", prefix: "##", cleanup: true },
      model: {
        type: "WordPiece",
        vocab,
        unk_token: "[UNK]",
        continuing_subword_prefix: "##",
        max_input_chars_per_word: 100,
      },
    }),
    "tokenizer_config.json": { model_max_length: 6, pad_token: "[PAD]" },
    ...files,
  };
  for (const [name, json] of Object.entries(all)) {
    await Deno.writeTextFile(join(folder, name), JSON.stringify(json));
  }
  await Deno.mkdir(join(folder, "onnx"));
  await Deno.writeFile(join(folder, "onnx/model.onnx"), bagGraph());
}

function mean(...words: readonly string[]): number[] {
  const vectors = words.map((word) => tokenVector(WORDS.indexOf(word)));
  return Array.from(
    { length: WIDTH },
    (_, element) => vectors.reduce((sum, vector) => sum + vector[element]!, 0) / words.length,
  );
}

function assertClose(actual: ArrayLike<number>, expected: readonly number[]): void {
  assert.equal(actual.length, expected.length);
  expected.forEach((value, element) => assert.ok(Math.abs(actual[element]! - value) < 1e-5));
}

async function assertMeans(backend: Backend): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await makeFolder(folder);
    await using model = await openModel(folder, { backend });
    assert.equal(model.kind, "embedding");
    const long = "a cat saw the dog the dog saw a cat";
    const { rows, promptTokens } = await embed(model, [
      "the dog",
      "the unknown cat !",
      long,
      [WORDS.indexOf("saw")],
    ]);
    assertClose(rows[0]!, mean("the", "dog"));
    assertClose(rows[1]!, mean("the", "cat"));
    assertClose(rows[2]!, mean(...long.split(" ")));
    assertClose(rows[3]!, mean("saw"));
    assert.equal(promptTokens, 2 + 2 + 10 + 1);
    await assert.rejects(embed(model, ["the dog", "nothing known"]), {
      kind: "invalid_value",
      param: "input[1]",
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

cpuTest("an export of model2vec gives the mean of each text's known tokens", assertMeans);
gpuTest(
  "an export of model2vec gives the mean of each text's known tokens on WebGPU",
  async (gpu) => {
    await assertMeans(await WebGpuBackend.create(gpu));
  },
);

Deno.test("the vectors of potion's folders are normalised, as modules.json declares", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await makeFolder(folder, {
      "modules.json": [
        { path: ".", type: "sentence_transformers.models.StaticEmbedding" },
        { path: "1_Normalize", type: "sentence_transformers.models.Normalize" },
      ],
    });
    await using model = await openModel(folder);
    const { rows } = await embed(model, ["the dog"]);
    const expected = mean("the", "dog");
    const length = Math.hypot(...expected);
    assertClose(rows[0]!, expected.map((value) => value / length));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
