/** Batches on several cores: the same vectors as on one, and what goes wrong in one thread stays with its requests. */
import assert from "node:assert/strict";
import { configureLog } from "../../src/log.ts";
import type { Model } from "../../src/models/model.ts";
import { cosine, embed, openModel } from "../fixtures/model.ts";
import { makeTinyEncoder, tokenVector } from "../fixtures/tiny_encoder.ts";

// One test fails runs on purpose.
configureLog({ level: "error", format: "text" });

const hasCores = navigator.hardwareConcurrency > 1;

async function numLanes(model: Model): Promise<number> {
  const metrics = await model.metrics.getMetricsAsJSON();
  return metrics.find(({ name }) => name === "hearth_text_lanes")!.values[0]!.value as number;
}

/** Keeps a model busy until it has taken a second core. */
async function growTo(model: Model, wanted: number): Promise<void> {
  while (await numLanes(model) < wanted) await embed(model, Array(500).fill("an egg"));
}

Deno.test({
  name: "EncoderLanes takes another core when batches wait, and gives each text its own vector",
  ignore: !hasCores,
  fn: async () => {
    await using tiny = await makeTinyEncoder();
    await using model = await openModel(tiny.folder, { maxBatchTokens: 256 });
    assert.equal(await numLanes(model), 1);
    await growTo(model, 2);
    const inputs = Array.from({ length: 2000 }, (_, index) => [5 + index % 2700]);
    const { rows } = await embed(model, inputs);
    inputs.forEach(([id], index) => {
      const expected = [2, id!, 3].map(tokenVector)
        .reduce((sum, vector) => sum.map((value, element) => value + vector[element]!));
      assert.ok(cosine(rows[index]!, expected) > 0.99999, `${index}`);
    });
  },
});

Deno.test({
  name:
    "EncoderLanes: a batch that fails on another core ends its requests, and the next are answered",
  ignore: !hasCores,
  fn: async () => {
    await using tiny = await makeTinyEncoder({ numRows: 1000 });
    await using model = await openModel(tiny.folder, { maxBatchTokens: 256 });
    await growTo(model, 2);
    for (let round = 0; round < 3; round++) {
      const bad = embed(model, Array(300).fill([2000]));
      await assert.rejects(bad, { kind: "inference_failed" });
      const { rows } = await embed(model, Array(300).fill([15]));
      for (const row of rows) assert.ok(cosine(row, rows[0]!) > 0.99999);
    }
  },
});

Deno.test({
  name: "EncoderLanes ends the thread that is just starting when the model is disposed of",
  ignore: !hasCores,
  fn: async () => {
    await using tiny = await makeTinyEncoder();
    await using model = await openModel(tiny.folder, { maxBatchTokens: 256 });
    await embed(model, Array(500).fill("an egg"));
  },
});
