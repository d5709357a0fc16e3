/** Vision models: requests with images, together and alone, and their cleanup. */
import assert from "node:assert/strict";
import type { EngineSettings } from "../../src/base/config.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { HearthError } from "../../src/base/errors.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { ImagePreprocessor } from "../../src/models/images/image_preprocessor.ts";
import type { Model } from "../../src/models/model.ts";
import type { ChatMessage, TaskEvent } from "../../src/models/task.ts";
import { loadVision } from "../../src/models/vision/vision.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { gatherRequests } from "../fixtures/engine/count_calls.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { calmPace } from "../fixtures/engine/hurried_pace.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { type OpenModel, openModel, type OpenModelOptions } from "../fixtures/engine/model.ts";
import { drawImage, MAIN_FAMILIES } from "../fixtures/models/vision/vision_cases.ts";
import { makeVisionFolder, type VisionFamily } from "../fixtures/models/vision/vision_folder.ts";

const SIZE = [84, 56] as const;
const QUESTION = "What colors are there?";

async function withModel(
  family: VisionFamily,
  options: OpenModelOptions,
  use: (model: OpenModel) => Promise<void>,
): Promise<void> {
  await using folder = await makeVisionFolder(family);
  await using model = await openModel(folder.path, options);
  await use(model);
}

async function readMetric(model: Model, name: string): Promise<number> {
  const metrics = await model.metrics.getMetricsAsJSON();
  const { values } = metrics.find((metric) => metric.name === name)!;
  return values.reduce((sum, { value }) => sum + value, 0);
}

function show(number: number, text = QUESTION): ChatMessage {
  return imageMessage(drawImage(number, SIZE), text);
}

/** Conversations with one or two images, some of them equal, and some without images. */
function mixedConversations(): ChatMessage[][] {
  const two = (a: number, b: number): ChatMessage => {
    const [first, second] = [show(a), show(b, "And this one?")];
    return { role: "user", content: [...first.content, ...second.content] as [] };
  };
  return [
    [show(0)],
    [show(1)],
    [two(0, 1)],
    [{ role: "user", content: QUESTION }],
    [two(1, 0)],
    [show(2), { role: "assistant", content: "Red." }, show(0, "And here?")],
    [{ role: "user", content: "Tell me a story about a fox." }],
    [show(2)],
  ];
}

async function assertSameTogether(
  family: VisionFamily,
  options: OpenModelOptions,
  engines: readonly Partial<EngineSettings>[],
  numConversations = 8,
): Promise<void> {
  const conversations = (mixedConversations()).slice(0, numConversations);
  // Values to compare: tokens and usage.
  const answer = async (model: Model, messages: ChatMessage[]) => {
    const { logprobs, usage } = await chat(model, messages, { maxTokens: 100, topLogprobs: 0 });
    return { tokens: logprobs[0]!.map(({ token }) => token), usage };
  };
  const alone: Awaited<ReturnType<typeof answer>>[] = [];
  await withModel(family, { ...options, engine: { prefixCache: false } }, async (model) => {
    for (const messages of conversations) alone.push(await answer(model, messages));
  });
  for (const engine of engines) {
    await withModel(family, { ...options, engine }, async (model) => {
      // Texts arrive sooner than images, which must be decoded first.
      using _gathered = gatherRequests(conversations.length);
      using _pace = engine.kvCacheMb === undefined ? undefined : calmPace();
      const together = await Promise.all(
        conversations.map((messages) => answer(model, messages)),
      );
      together.forEach(({ tokens, usage }, i) => {
        assert.deepEqual(tokens, alone[i]!.tokens, `${i} with ${JSON.stringify(engine)}`);
        assert.equal(usage.promptTokens, alone[i]!.usage.promptTokens);
      });
      const numPreemptions = await readMetric(model, "hearth_preemptions_total");
      assert.equal(numPreemptions > 0, engine.kvCacheMb !== undefined, "preemptions");
      assert.equal(await readMetric(model, "hearth_kv_blocks_used"), 0);
    });
  }
}

/** 512 bytes per token: room for the longest conversation, too little for all. */
const SMALL_POOL = { kvCacheMb: 224 * 512 / 2 ** 20 };

const IN_SMALL_CHUNKS = { prefixCache: true, maxBatchTokens: 7, ...SMALL_POOL };

for (const family of MAIN_FAMILIES) {
  const engines = family === "qwen2_5_vl"
    ? [
      { prefixCache: true },
      { prefixCache: true, maxBatchTokens: 7 },
      { prefixCache: false, ...SMALL_POOL, maxBatchTokens: 16 },
    ]
    : [IN_SMALL_CHUNKS];
  Deno.test(`VisionModel gives 8 concurrent requests the same tokens as each alone, in chunks and with preemption, ${family}`, () =>
    assertSameTogether(family, { backend: new CpuBackend() }, engines));
}

gpuTest(
  "VisionModel gives 4 concurrent requests the same tokens as each alone, in chunks and with preemption, on WebGPU",
  async (gpu) =>
    await assertSameTogether("qwen2_5_vl", { backend: await WebGpuBackend.create(gpu) }, [
      { prefixCache: true, maxBatchTokens: 24, ...SMALL_POOL },
    ], 4),
);

for (const family of MAIN_FAMILIES) {
  Deno.test(`VisionModel neither encodes nor computes an image again in a second turn, ${family}`, () =>
    withModel(family, {}, async (model) => {
      const first = [show(0)];
      const { texts: [reply], usage } = await chat(model, first, { maxTokens: 4 });
      assert.equal(await readMetric(model, "hearth_vision_encoder_runs_total"), 1);
      const second = await chat(model, [
        ...first,
        { role: "assistant", content: reply! },
        { role: "user", content: "Are you sure?" },
      ], { maxTokens: 4 });
      assert.equal(await readMetric(model, "hearth_vision_encoder_runs_total"), 1);
      const numFull = Math.floor(usage.promptTokens / 16) * 16;
      assert.ok(second.usage.cachedTokens >= numFull, `${second.usage.cachedTokens} of ${numFull}`);
      // Equal tokens with another image: the cache must not be used.
      const other = await chat(model, [show(1)], { maxTokens: 4 });
      assert.equal(await readMetric(model, "hearth_vision_encoder_runs_total"), 2);
      assert.equal(other.usage.promptTokens, usage.promptTokens);
      assert.ok(other.usage.cachedTokens < usage.promptTokens / 2);
    }));
}

Deno.test("VisionModel encodes an image once for all choices of a request, and for concurrent requests", () =>
  withModel("idefics3", { engine: { prefixCache: false } }, async (model) => {
    const { texts, usage } = await chat(model, [show(0)], {
      n: 3,
      temperature: 1.5,
      seed: 3,
      maxTokens: 6,
    });
    assert.equal(new Set(texts).size, 3);
    assert.equal(usage.completionTokens, 18);
    await Promise.all([0, 1, 1, 1].map(async (number) => await chat(model, [show(number)])));
    assert.equal(await readMetric(model, "hearth_vision_encoder_runs_total"), 2);
    assert.equal(await readMetric(model, "hearth_images_total"), 5);
    const metrics = await model.metrics.getMetricsAsJSON();
    const { values } = metrics.find(({ name }) => name === "hearth_image_prepare_seconds")!;
    const count = values.find((value) =>
      (value as { metricName?: string }).metricName === "hearth_image_prepare_seconds_count"
    );
    assert.equal(count!.value, 2);
  }));

/** Loads a model that keeps the rows of one image at a time. */
async function withForgetfulModel(
  engine: EngineSettings,
  use: (model: Model) => Promise<void>,
): Promise<void> {
  await using folder = await makeVisionFolder("qwen2_5_vl");
  const model = await loadVision({
    ...makeContext(await openFolder(folder.path), {
      backend: new CpuBackend(),
      dtype: "fp32",
      engine,
    }),
    kind: "vision",
    maxEncodedBytes: 0,
  });
  try {
    await use(model);
  } finally {
    await model.dispose();
  }
}

Deno.test("VisionModel does not encode an image again if all its tokens are in the prefix cache", () =>
  withForgetfulModel({ prefixCache: true }, async (model) => {
    const first = [show(0)];
    const { texts: [reply] } = await chat(model, first, { maxTokens: 4 });
    await chat(model, [show(1)], { maxTokens: 4 });
    assert.equal(await readMetric(model, "hearth_vision_encoder_runs_total"), 2);
    const { usage } = await chat(model, [
      ...first,
      { role: "assistant", content: reply! },
      { role: "user", content: "Are you sure?" },
    ]);
    assert.ok(usage.cachedTokens >= 16);
    assert.equal(await readMetric(model, "hearth_vision_encoder_runs_total"), 2);
  }));

Deno.test("VisionModel encodes images again whose rows it could not keep", async () => {
  const conversation = (mixedConversations())[2]!;
  const options = { maxTokens: 12, topLogprobs: 0 };
  let wanted: readonly string[] = [];
  await withModel("qwen2_5_vl", { engine: { prefixCache: false } }, async (model) => {
    const { logprobs: [chosen] } = await chat(model, conversation, options);
    wanted = chosen!.map(({ token }) => token);
  });
  await withForgetfulModel({ prefixCache: false, maxBatchTokens: 5 }, async (model) => {
    const answers = await Promise.all([1, 2].map(() => chat(model, conversation, options)));
    for (const { logprobs: [chosen] } of answers) {
      assert.deepEqual(chosen!.map(({ token }) => token), wanted);
    }
    assert.ok(await readMetric(model, "hearth_vision_encoder_runs_total") > 2);
  });
});

Deno.test("VisionModel emits text as it is generated", () =>
  withModel("llava_qwen2", {}, async (model) => {
    const { numDeltas, usage } = await chat(model, [show(0)], { maxTokens: 12 });
    assert.equal(usage.completionTokens, 12);
    assert.ok(numDeltas > 6);
  }));

Deno.test("VisionModel names the part that is not an image", () =>
  withModel("qwen2_5_vl", {}, async (model) => {
    const good = drawImage(0, SIZE);
    for (const bytes of [new Uint8Array(), new TextEncoder().encode("hello"), good.slice(0, 60)]) {
      const content = [
        { type: "image", bytes: good, param: "messages[0].content[0]" },
        { type: "image", bytes, param: "messages[0].content[1]" },
      ] as const;
      await assert.rejects(
        chat(model, [{ role: "user", content }]),
        (error: HearthError) =>
          error.kind === "invalid_media" && error.param === "messages[0].content[1]" &&
          error.message.startsWith("messages[0].content[1]: "),
      );
    }
    // The model refuses images with an aspect ratio above 200.
    await assert.rejects(
      chat(model, [imageMessage(drawImage(0, [4000, 2]), QUESTION)]),
      (error: HearthError) => error.kind === "invalid_media" && error.message.includes("4000 × 2"),
    );
  }));

Deno.test("VisionModel refuses images that the context has no room for, and names both lengths", () =>
  withModel("qwen2_5_vl", {}, async (model) => {
    await assert.rejects(
      chat(model, [imageMessage(drawImage(0, [28 * 30, 28 * 20]), QUESTION)]),
      (error: HearthError) =>
        error.kind === "context_length_exceeded" && error.message.includes("616") &&
        error.message.includes("512"),
    );
  }));

Deno.test("VisionModel refuses texts that look like image placeholders", () =>
  withModel("idefics3", {}, async (model) => {
    const messages = [show(0), { role: "user", content: "What does <image> mean?" } as const];
    await assert.rejects(
      chat(model, messages),
      (error: HearthError) =>
        error.kind === "invalid_value" && error.param === "messages[1].content" &&
        error.message.includes('"<image>"'),
    );
  }));

Deno.test("VisionModel frees everything of requests that end while their images are read", () =>
  withModel("qwen2_5_vl", {}, async (model) => {
    const heard: TaskEvent[] = [];
    const image = drawImage(3, [4000, 3000]);
    const start = (bytes: Uint8Array<ArrayBuffer>) =>
      model.start({
        type: "chat",
        requestId: "test",
        messages: [imageMessage(bytes, QUESTION)],
        options: { stop: [], n: 1 },
      }, (event) => {
        heard.push(event);
        return Promise.resolve();
      });
    // Different bytes each, so that each must be read.
    const ends = Array.from({ length: 6 }, (_, i) => {
      const bytes = new Uint8Array(image.length + i);
      bytes.set(image);
      return start(bytes);
    });
    for (const [i, end] of ends.entries()) {
      if (i > 2) await new Promise((resolve) => setTimeout(resolve, 10 * i));
      end();
    }
    const { usage } = await chat(model, [show(0)], { maxTokens: 3 });
    assert.equal(usage.completionTokens, 3);
    assert.deepEqual(heard, []);
    for (const name of ["hearth_sequences_running", "hearth_sequences_waiting"]) {
      assert.equal(await readMetric(model, name), 0);
    }
    assert.equal(await readMetric(model, "hearth_vision_encoder_runs_total"), 1);
  }));

Deno.test("VisionModel.dispose() emits nothing for images that are in the queue", async () => {
  let numHeard = 0;
  const calls: Promise<unknown>[] = [];
  const areQueued = Promise.withResolvers<void>();
  const { call } = ImagePreprocessor.prototype;
  await withModel("qwen2_5_vl", {}, async (model) => {
    ImagePreprocessor.prototype.call = function (...args) {
      const result = call.apply(this, args);
      if (calls.push(result) === 20) areQueued.resolve();
      return result as never;
    };
    const image = drawImage(3, [800, 600]);
    for (let i = 0; i < 20; i++) {
      const bytes = new Uint8Array(image.length + i);
      bytes.set(image);
      model.start({
        type: "chat",
        requestId: "test",
        messages: [imageMessage(bytes, QUESTION)],
        options: { stop: [], n: 1 },
      }, () => {
        numHeard++;
        return Promise.resolve();
      });
    }
    await areQueued.promise;
  }).finally(() => ImagePreprocessor.prototype.call = call);
  const results = await Promise.allSettled(calls);
  assert.equal(results.at(-1)!.status, "rejected", "the last image was in the queue");
  // An error would be emitted before the next turn of the event loop.
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.equal(numHeard, 0);
});
