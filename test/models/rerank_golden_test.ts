/** Real weights, both dtypes, both backends: scores equal those of an independent reference. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { cosine, embed, openModel, rerank } from "../fixtures/engine/model.ts";
import { computeRecall, readRetrievalSet } from "../fixtures/text/retrieval.ts";

interface Golden {
  readonly queries: readonly {
    readonly query: string;
    readonly documents: readonly {
      readonly text: string;
      readonly ids: readonly number[];
      readonly score: number;
    }[];
  }[];
}

const FOLDER = findModelFolder("hearth-demo-rerank")!;
const { queries: QUERIES } = JSON.parse(
  Deno.readTextFileSync(`${FOLDER}/golden.json`),
) as Golden;

function readOrder(scores: ArrayLike<number>): number[] {
  return Array.from(scores, (_, index) => index).sort((a, b) => scores[b]! - scores[a]!);
}

async function assertGoldens(backend: Backend, dtype: Dtype): Promise<void> {
  await using model = await openModel(FOLDER, { backend, dtype });
  for (const { query, documents } of QUERIES) {
    const { scores, promptTokens } = await rerank(model, query, documents.map(({ text }) => text));
    assert.equal(promptTokens, documents.reduce((sum, { ids }) => sum + ids.length, 0));
    documents.forEach(({ text, score }, index) => {
      const error = Math.abs(scores[index]! - score);
      assert.ok(error <= 1e-3, `${query} / ${text}: off by ${error}`);
    });
    // Some scores are closer than half precision can distinguish.
    if (dtype === "fp16") continue;
    assert.deepEqual(readOrder(scores), readOrder(documents.map(({ score }) => score)));
  }
}

for (const dtype of ["fp32", "fp16"] as const) {
  cpuTest(`hearth-demo-rerank ${dtype} returns its golden scores on the CPU`, async (backend) => {
    await assertGoldens(backend, dtype);
  });
  gpuTest(`hearth-demo-rerank ${dtype} returns its golden scores on WebGPU`, async (gpu) => {
    await assertGoldens(await WebGpuBackend.create(gpu), dtype);
  });
}

Deno.test("hearth-demo-rerank gives a document the same score alone and in any batch", async () => {
  const [{ query, documents }] = QUERIES as [Golden["queries"][number]];
  const texts = documents.map(({ text }) => text);
  await using alone = await openModel(FOLDER, { maxBatchTokens: 1 });
  await using batched = await openModel(FOLDER, { maxBatchTokens: 4096 });
  const { scores } = await rerank(batched, query, texts);
  for (const [index, text] of texts.entries()) {
    const [score] = (await rerank(alone, query, [text])).scores;
    assert.ok(Math.abs(score! - scores[index]!) < 1e-4);
  }
});

Deno.test({
  name:
    "hearth-demo-rerank reaches the recall in its model card for the embedder's best 20 passages",
  fn: async () => {
    const { passages, queries, figures } = readRetrievalSet();
    await using embedder = await openModel(findModelFolder("hearth-demo-embed")!);
    await using reranker = await openModel(FOLDER);
    const passageRows = (await embed(embedder, passages.map(({ text }) => text))).rows;
    const queryRows = (await embed(embedder, queries.map(({ text }) => text))).rows;
    const ranked = new Map<unknown, string[]>();
    for (const [index, query] of queries.entries()) {
      const similar = passageRows.map((row) => cosine(queryRows[index]!, row));
      const best = readOrder(similar).slice(0, 20).map((position) => passages[position]!);
      const { scores } = await rerank(reranker, query.text, best.map(({ text }) => text));
      ranked.set(query, readOrder(scores).map((position) => best[position]!.id));
    }
    const recall = computeRecall(queries, (query) => ranked.get(query)!);
    const card = figures.embed_top20_reranked.all;
    assert.ok(Math.abs(recall.at1 - card["recall@1"]) < 5e-3, `${recall.at1}`);
    assert.ok(Math.abs(recall.at5 - card["recall@5"]) < 5e-3, `${recall.at5}`);
  },
});
