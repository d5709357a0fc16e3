/** Batches of texts on several threads. */
import assert from "node:assert/strict";
import { HearthError } from "../../src/errors.ts";
import { configureLog } from "../../src/log.ts";
import type { Model } from "../../src/models/model.ts";
import type { TaskEvent } from "../../src/models/task.ts";
import { findModelFolder } from "../fixtures/goldens.ts";
import { embed, openModel } from "../fixtures/model.ts";
import { makeTinyEncoder, tokenVector } from "../fixtures/tiny_encoder.ts";

const DEMO = findModelFolder("hearth-demo-embed")!;

// One test fails a run on purpose.
configureLog({ level: "error", format: "text" });

/** Texts of 5 to 300 tokens. */
function tokenLists(count: number): number[][] {
  return Array.from(
    { length: count },
    (_, i) => Array.from({ length: 5 + i * 37 % 296 }, (_, t) => 10 + (i * 31 + t * 17) % 2000),
  );
}

async function numThreads(model: Model): Promise<number> {
  const metrics = await model.metrics.getMetricsAsJSON();
  const gauge = metrics.find(({ name }) => name === "hearth_text_threads")!;
  return gauge.values[0]!.value as number;
}

/** Has more batches wait than run at once, and waits until the model runs on two threads. */
async function growToTwo(model: Model): Promise<void> {
  await embed(model, tokenLists(40));
  const deadlineMs = performance.now() + 60_000;
  while (await numThreads(model) < 2) {
    assert.ok(performance.now() < deadlineMs, "no second thread");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** What a thread leaves behind when it is ended is the runtime's. */
const LOOSE = { sanitizeOps: false, sanitizeResources: false };

Deno.test({
  name: "EmbeddingModel gives the same vectors on one thread and on several",
  ...LOOSE,
  fn: async () => {
    const inputs = tokenLists(60);
    await using alone = await openModel(DEMO);
    const { rows: expected } = await embed(alone, inputs);
    assert.equal(await numThreads(alone), 1);
    await using model = await openModel(DEMO, { cpuThreads: 2, maxBatchTokens: 512 });
    await growToTwo(model);
    const answers = await Promise.all([
      embed(model, inputs),
      ...inputs.slice(0, 30).map((input) => embed(model, [input])),
    ]);
    const assertSame = (row: Float32Array, index: number) =>
      row.forEach((value, at) => assert.ok(Math.abs(value - expected[index]![at]!) < 1e-4));
    answers[0]!.rows.forEach(assertSame);
    answers.slice(1).forEach(({ rows }, index) => assertSame(rows[0]!, index));
  },
});

Deno.test({
  name: "EmbeddingModel: a run that fails in a lane ends its own requests, and others go on",
  ...LOOSE,
  fn: async () => {
    await using tiny = await makeTinyEncoder({ numRows: 2500 });
    await using model = await openModel(tiny.folder, { cpuThreads: 2, maxBatchTokens: 128 });
    await growToTwo(model);
    // Each fills a batch; the first runs in this thread, the second in the lane.
    const [good, bad] = [20, 2600].map((id) => embed(model, [Array(200).fill(id)]));
    assert.equal((await good!).rows.length, 1);
    await assert.rejects(
      bad!,
      (error) => error instanceof HearthError && error.kind === "inference_failed",
    );
    assert.equal(await numThreads(model), 2);
    const { rows } = await embed(model, [[15]]);
    assert.ok(Math.abs(rows[0]![0]! / rows[0]![1]! - meanRatio([2, 15, 3])) < 1e-4);
  },
});

function meanRatio(ids: readonly number[]): number {
  const [a, b] = [0, 1].map((at) => ids.reduce((sum, id) => sum + tokenVector(id)[at]!, 0));
  return a! / b!;
}

Deno.test({
  name: "EmbeddingModel.start() can be ended while its texts run on several threads",
  ...LOOSE,
  fn: async () => {
    await using model = await openModel(DEMO, { cpuThreads: 2, maxBatchTokens: 512 });
    await growToTwo(model);
    const heard: TaskEvent[] = [];
    const task = { type: "embed", requestId: "ended", inputs: tokenLists(100) } as const;
    const end = model.start(task, (event) => Promise.resolve(void heard.push(event)));
    await new Promise((resolve) => setTimeout(resolve, 50));
    end();
    assert.equal((await embed(model, tokenLists(3))).rows.length, 3);
    assert.deepEqual(heard, []);
  },
});

Deno.test({
  name: "EmbeddingModel: what a lost thread was to run runs in others",
  ...LOOSE,
  fn: async () => {
    await using model = await openModel(DEMO, { cpuThreads: 2, maxBatchTokens: 512 });
    const { Worker } = globalThis;
    const lanes: Worker[] = [];
    globalThis.Worker = class extends Worker {
      constructor(...args: ConstructorParameters<typeof Worker>) {
        super(...args);
        lanes.push(this);
      }
    };
    try {
      await growToTwo(model);
      const answer = embed(model, tokenLists(100));
      await new Promise((resolve) => setTimeout(resolve, 100));
      lanes[0]!.dispatchEvent(
        new ErrorEvent("error", { message: "out of memory", cancelable: true }),
      );
      // Before another can have started in its place.
      assert.equal(await numThreads(model), 1);
      const { rows } = await answer;
      assert.equal(rows.length, 100);
      for (const row of rows) assert.ok(Math.abs(Math.hypot(...row) - 1) < 1e-5);
    } finally {
      globalThis.Worker = Worker;
    }
  },
});
