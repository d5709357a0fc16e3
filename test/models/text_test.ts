/** The text model on real weights: results of chat requests, in addition to the greedy goldens. */
import assert from "node:assert/strict";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { HearthError } from "../../src/base/errors.ts";
import { loadModel } from "../../src/models/load/load.ts";
import type { Model } from "../../src/models/model.ts";
import type { ChatEvent, ChatTask, GenerationOptions, TaskEvent } from "../../src/models/task.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";

const FOLDER = findModelFolder("hearth-demo-chat")!;
const STORY = "Tell me a story about a fox.";

async function withModel(use: (model: Model) => Promise<void>): Promise<void> {
  const model = await loadModel({
    model: { id: "hearth-demo-chat", aliases: [], ownedBy: "hearth", folder: FOLDER },
    dtype: "fp32",
    engine: { prefixCache: true },
    backend: new CpuBackend(),
    onProgress: () => {},
  });
  try {
    await use(model);
  } finally {
    await model.dispose();
  }
}

function chatTask(content: string, options: Partial<GenerationOptions> = {}): ChatTask {
  return {
    type: "chat",
    requestId: "test",
    messages: [{ role: "user", content }],
    options: { stop: [], n: 1, ...options },
  };
}

interface Answer {
  readonly events: readonly ChatEvent[];
  readonly texts: readonly string[];
  readonly reasons: readonly string[];
  readonly completionTokens: number;
}

/** Runs a task to its end. */
async function answer(model: Model, task: ChatTask): Promise<Answer> {
  const events: ChatEvent[] = [];
  await new Promise<void>((resolve, reject) =>
    model.start(task, (event) => {
      events.push(event as ChatEvent);
      if (event.type === "done") resolve();
      if (event.type === "error") reject(HearthError.fromWire(event.error));
      return Promise.resolve();
    })
  );
  const texts = Array.from({ length: task.options.n }, () => "");
  const reasons = [...texts];
  let completionTokens = 0;
  for (const event of events) {
    if (event.type === "delta") texts[event.index] += event.text;
    if (event.type === "finish") reasons[event.index] = event.reason;
    if (event.type === "done") completionTokens = event.usage.completionTokens;
  }
  return { events, texts, reasons, completionTokens };
}

Deno.test("TextModel.start() answers the golden conversations with the golden replies", () =>
  withModel(async (model) => {
    const { conversations } = JSON.parse(Deno.readTextFileSync(`${FOLDER}/golden.json`)) as {
      conversations: {
        messages: ChatTask["messages"];
        tools?: unknown;
        enable_thinking?: unknown;
        prompt_ids: number[];
        reply: string;
      }[];
    };
    const plain = conversations.filter((one) => !one.tools && one.enable_thinking === undefined);
    assert.ok(plain.length >= 15);
    for (const { messages, prompt_ids, reply } of plain) {
      const task = { ...chatTask("", { temperature: 0 }), messages };
      const { texts, reasons, events } = await answer(model, task);
      assert.deepEqual(texts, [reply]);
      assert.deepEqual(reasons, ["stop"]);
      assert.deepEqual(events[0], { type: "start", promptTokens: prompt_ids.length });
    }
  }));

Deno.test("TextModel.start() gives the same tokens for the same seed, and others for another", () =>
  withModel(async (model) => {
    const run = (seed: number) =>
      answer(model, chatTask(STORY, { temperature: 2, topP: 1, topK: 0, seed, maxTokens: 24 }));
    const first = await run(7);
    assert.deepEqual((await run(7)).texts, first.texts);
    assert.notDeepEqual((await run(8)).texts, first.texts);
  }));

Deno.test("TextModel.start() gives each of n choices its own text, the first the same as with n = 1", () =>
  withModel(async (model) => {
    const options = { temperature: 1.5, topP: 1, topK: 0, seed: 7, maxTokens: 24 };
    const { texts: [alone] } = await answer(model, chatTask(STORY, options));
    const { texts, completionTokens } = await answer(model, chatTask(STORY, { ...options, n: 3 }));
    assert.equal(texts[0], alone);
    assert.equal(new Set(texts).size, 3);
    assert.ok(completionTokens > 24 && completionTokens <= 72);
  }));

Deno.test("TextModel.start() ends at a stop string and emits no part of it", () =>
  withModel(async (model) => {
    const whole = await answer(model, chatTask("Hello!", { temperature: 0 }));
    assert.deepEqual(whole.texts, ["Hello! How can I help you today?"]);
    const cut = await answer(
      model,
      chatTask("Hello!", { temperature: 0, stop: ["an I he", "zebra"] }),
    );
    assert.deepEqual(cut.texts, ["Hello! How c"]);
    assert.deepEqual(cut.reasons, ["stop"]);
  }));

Deno.test("TextModel.start() ends with length at max_tokens and at the end of the context", () =>
  withModel(async (model) => {
    const short = await answer(model, chatTask(STORY, { temperature: 0, maxTokens: 5 }));
    assert.equal(short.completionTokens, 5);
    assert.deepEqual(short.reasons, ["length"]);

    const filler = "a ".repeat(2020);
    const { completionTokens, reasons, events } = await answer(
      model,
      chatTask(filler, { temperature: 0, ignoreEos: true }),
    );
    const start = events[0] as Extract<ChatEvent, { type: "start" }>;
    assert.ok(start.promptTokens > 2020 && start.promptTokens < 2048);
    assert.deepEqual(reasons, ["length"]);
    assert.equal(start.promptTokens + completionTokens, 2048);
  }));

Deno.test("TextModel.start() refuses a prompt longer than the context, and names both lengths", () =>
  withModel((model) => {
    assert.throws(
      () => model.start(chatTask("a ".repeat(3000)), () => Promise.resolve()),
      (error: HearthError) =>
        error.kind === "context_length_exceeded" && /3\d\d\d/.test(error.message) &&
        error.message.includes("2048"),
    );
    return Promise.resolve();
  }));

Deno.test("TextModel.start() reports log-probabilities whose tokens spell the text", () =>
  withModel(async (model) => {
    const { events, texts } = await answer(
      model,
      chatTask("Hello!", { temperature: 0, topLogprobs: 3 }),
    );
    const logprobs = events.flatMap((event) => event.type === "delta" ? event.logprobs ?? [] : []);
    assert.equal(logprobs.map(({ token }) => token).join(""), texts[0]);
    const bytes = Uint8Array.from(logprobs.flatMap((chosen) => [...chosen.bytes]));
    assert.equal(new TextDecoder().decode(bytes), texts[0]);
    for (const { logprob, top } of logprobs) {
      assert.equal(top.length, 3);
      assert.equal(top[0]!.logprob, logprob);
      assert.ok(logprob <= 0 && top[1]!.logprob <= logprob);
      assert.ok(top.reduce((sum, rival) => sum + Math.exp(rival.logprob), 0) <= 1.0001);
    }
  }));

Deno.test("TextModel.start() follows logit_bias and refuses a token outside the vocabulary", () =>
  withModel(async (model) => {
    const { texts: [plain] } = await answer(model, chatTask("Hello!", { temperature: 0 }));
    const task = chatTask("Hello!", { temperature: 0, logitBias: [[1324, -100]], maxTokens: 4 });
    const { texts: [biased] } = await answer(model, task);
    assert.ok(plain!.startsWith("Hello") && !biased!.startsWith("Hello"));
    assert.throws(
      () => model.start(chatTask("Hello!", { logitBias: [[99_999, 1]] }), () => Promise.resolve()),
      (error: HearthError) =>
        error.kind === "invalid_value" && error.param === 'logitBias["99999"]',
    );
  }));

Deno.test("TextModel.start() penalises tokens that the completion already contains", () =>
  withModel(async (model) => {
    const repeat = { temperature: 0, maxTokens: 40, logitBias: [[1324, 50]] as const };
    const { texts: [stuck] } = await answer(model, chatTask("Hello!", repeat));
    assert.equal(stuck, "Hello".repeat(40));
    const { texts: [freed] } = await answer(
      model,
      chatTask("Hello!", { ...repeat, frequencyPenalty: 2 }),
    );
    assert.notEqual(freed, stuck);
  }));

Deno.test("TextModel.start() can be cancelled while it waits, in prefill and while it generates", () =>
  withModel(async (model) => {
    let numLate = 0;
    let isOver = false;
    const heard = (event: TaskEvent) => {
      if (isOver && event.type !== "start") numLate++;
      return Promise.resolve();
    };
    const first = Promise.withResolvers<void>();
    const endRunning = model.start(chatTask(STORY, { temperature: 0 }), (event) => {
      first.resolve();
      return heard(event);
    });
    const endWaiting = model.start(chatTask(STORY, { temperature: 0 }), heard);
    await first.promise;
    endRunning();
    endWaiting();
    const endPrefill = model.start(chatTask("a ".repeat(1900), { temperature: 0 }), heard);
    await new Promise((resolve) => setTimeout(resolve, 5));
    endPrefill();
    isOver = true;

    const { texts } = await answer(model, chatTask("Hello!", { temperature: 0 }));
    assert.deepEqual(texts, ["Hello! How can I help you today?"]);
    assert.equal(numLate, 0);
    const metrics = await model.metrics.getMetricsAsJSON();
    for (const name of ["hearth_sequences_running", "hearth_sequences_waiting"]) {
      const metric = metrics.find((one) => one.name === name)!;
      assert.deepEqual(metric.values.map(({ value }) => value), [0], name);
    }
  }));

Deno.test("TextModel.dispose() waits for the current step and emits nothing more", async () => {
  let numLate = 0;
  let isOver = false;
  await withModel(async (model) => {
    const first = Promise.withResolvers<void>();
    model.start(chatTask(STORY, { temperature: 0 }), () => {
      if (isOver) numLate++;
      first.resolve();
      return Promise.resolve();
    });
    await first.promise;
    isOver = true;
  });
  assert.equal(numLate, 0);
});

Deno.test("TextModel.dispose() cancels requests that wait for the vocabulary to be read", async () => {
  const heard: TaskEvent[] = [];
  const grammar = { kind: "json_object" } as const;
  await withModel((model) => {
    model.start({ ...chatTask("Hello!"), grammar }, (event) => {
      heard.push(event);
      return Promise.resolve();
    });
    return Promise.resolve();
  });
  // Reading continues for some iterations of the event loop.
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.deepEqual(heard, []);
});
