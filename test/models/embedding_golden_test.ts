/**
 * Real weights, every dtype, both backends: vectors equal those of independent references, in any batch, and reach the
 * retrieval results in the model card.
 */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { cosine, embed, openModel } from "../fixtures/engine/model.ts";
import { computeRecall, readRetrievalSet } from "../fixtures/text/retrieval.ts";
import { Random } from "../unit/engine/random.ts";

interface Golden {
  readonly sentences: readonly {
    readonly text: string;
    readonly ids: readonly number[];
    readonly embedding: readonly number[];
  }[];
}

interface Case {
  readonly model: string;
  readonly dtype: Dtype;
  readonly minCosine: number;
  /** Largest allowed difference of an element if a text runs in another batch. */
  readonly tolerance: number;
}

const CASES: readonly Case[] = [
  { model: "hearth-demo-embed", dtype: "fp32", minCosine: 0.9999, tolerance: 1e-4 },
  { model: "hearth-demo-embed", dtype: "fp16", minCosine: 0.9999, tolerance: 3e-3 },
  // The graph in q8 quantises activations over the whole batch.
  { model: "hearth-demo-embed", dtype: "q8", minCosine: 0.999, tolerance: 2e-2 },
  { model: "embed-m2v", dtype: "fp32", minCosine: 0.9999, tolerance: 1e-4 },
];

async function assertGoldens(backend: Backend, folder: string, golden: Case): Promise<void> {
  const { dtype, minCosine } = golden;
  await using model = await openModel(folder, { backend, dtype });
  const { sentences } = JSON.parse(Deno.readTextFileSync(`${folder}/golden.json`)) as Golden;
  const inputs = [
    sentences.map(({ text }) => text),
    sentences.map(({ ids }) => ids),
  ];
  for (const input of inputs) {
    const { rows, promptTokens } = await embed(model, input);
    assert.equal(promptTokens, sentences.reduce((sum, { ids }) => sum + ids.length, 0));
    sentences.forEach(({ text, embedding }, index) => {
      const seen = cosine(rows[index]!, embedding);
      assert.ok(seen >= minCosine, `${text}: cosine ${seen}`);
      assert.ok(Math.abs(Math.hypot(...rows[index]!) - 1) < 1e-5);
    });
  }
}

/** Texts of 1 to 300 words, in random order. */
function mixedTexts(count: number): string[] {
  const words = readRetrievalSet().passages.flatMap(({ text }) => text.split(" "));
  const random = new Random(8);
  return Array.from({ length: count }, () => {
    const start = random.between(0, 5000);
    return words.slice(start, start + random.between(1, random.chance(0.7) ? 20 : 300)).join(" ");
  });
}

async function assertEqualInAnyBatch(
  backend: Backend,
  folder: string,
  { dtype, tolerance, numTexts }: Case & { readonly numTexts: number },
): Promise<void> {
  const texts = mixedTexts(numTexts);
  const alone: Float32Array[] = [];
  {
    await using model = await openModel(folder, { backend, dtype, maxBatchTokens: 1 });
    for (const text of texts) alone.push((await embed(model, [text])).rows[0]!);
  }
  await using model = await openModel(folder, { backend, dtype, maxBatchTokens: 4096 });
  const { rows: together } = await embed(model, texts);
  const separately = await Promise.all(texts.map((text) => embed(model, [text])));
  texts.forEach((text, index) => {
    for (const rows of [together[index]!, separately[index]!.rows[0]!]) {
      const error = rows.reduce((most, value, column) => {
        return Math.max(most, Math.abs(value - alone[index]![column]!));
      }, 0);
      assert.ok(error <= tolerance, `${text.slice(0, 40)}: off by ${error}`);
    }
  });
}

for (const golden of CASES) {
  const { model, dtype } = golden;
  const folder = findModelFolder(model);
  const name = `${model} ${dtype}`;
  if (folder === undefined) {
    Deno.test.ignore(
      `${name} gives its golden vectors${
        unlessThere(false, `models/${model}`, "a Unigram model's goldens")
      }`,
      () => {},
    );
    continue;
  }
  cpuTest(`${name} gives its golden vectors on the CPU`, async (backend) => {
    await assertGoldens(backend, folder, golden);
  });
  gpuTest(`${name} gives its golden vectors on WebGPU`, async (gpu) => {
    await assertGoldens(await WebGpuBackend.create(gpu), folder, golden);
  });
  cpuTest(
    `${name} gives a text the same vector alone and in any batch on the CPU`,
    async (backend) => {
      await assertEqualInAnyBatch(backend, folder, { ...golden, numTexts: 40 });
    },
  );
  gpuTest(`${name} gives a text the same vector alone and in any batch on WebGPU`, async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    // Few texts, because a software adapter is slow.
    await assertEqualInAnyBatch(backend, folder, { ...golden, numTexts: 8 });
  });
}

Deno.test({
  name: "hearth-demo-embed reaches the recall in its model card",
  fn: async () => {
    const { passages, queries, figures } = readRetrievalSet();
    await using model = await openModel(findModelFolder("hearth-demo-embed")!);
    const passageRows = (await embed(model, passages.map(({ text }) => text))).rows;
    const queryRows = (await embed(model, queries.map(({ text }) => text))).rows;
    const recall = computeRecall(queries, (query) => {
      const row = queryRows[queries.indexOf(query)]!;
      return passages
        .map(({ id }, index) => ({ id, score: cosine(row, passageRows[index]!) }))
        .sort((a, b) => b.score - a.score)
        .map(({ id }) => id);
    });
    assert.ok(Math.abs(recall.at1 - figures.embed.all["recall@1"]) < 1e-3, `${recall.at1}`);
    assert.ok(Math.abs(recall.at5 - figures.embed.all["recall@5"]) < 1e-3, `${recall.at5}`);
  },
});
