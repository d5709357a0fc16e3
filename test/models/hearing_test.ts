/** Chat models with audio input: requests with sounds, together and alone, and refusals. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { HearthError } from "../../src/base/errors.ts";
import { configureLog } from "../../src/base/log.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Model } from "../../src/models/model.ts";
import type { ChatMessage } from "../../src/models/task.ts";
import { loadTokenizer } from "../../src/models/text/tokenizer.ts";
import { makeWav, readFixture, SPEECH_FILES } from "../fixtures/audio/audio_files.ts";
import { chat } from "../fixtures/engine/chat.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { type OpenModel, openModel, type OpenModelOptions } from "../fixtures/engine/model.ts";
import { filledRowsEncoder } from "../fixtures/models/vision/audio_encoders.ts";
import {
  drawImage,
  HEARING_FAMILIES,
  KEPT_SIZES,
  makeMessages,
  makeSound,
  visionCases,
} from "../fixtures/models/vision/vision_cases.ts";
import {
  makeVisionFolder,
  TINY,
  type VisionFamily,
} from "../fixtures/models/vision/vision_folder.ts";
import goldens from "../fixtures/models/vision/goldens.json" with { type: "json" };

// The reason why a model has no audio input is logged as a warning.
configureLog({ level: "error", format: "text" });

type HearingFamily = typeof HEARING_FAMILIES[number];

const RATE_HZ = 16_000;
/** The error for sounds that are too long. The 24 tokens of the small Gemma 3n are 3.84 s. */
const LONGEST: Readonly<Record<HearingFamily, RegExp>> = {
  gemma3n: /lasts longer than 3\.84 s.*send it in parts/,
  gemma4: /lasts longer than 30 s.*send it in parts/,
};
const QUESTION = "What is said?";

async function withModel(
  family: HearingFamily,
  use: (model: OpenModel) => Promise<void>,
  options: OpenModelOptions = {},
): Promise<void> {
  await using folder = await makeVisionFolder(family);
  await using model = await openModel(folder.path, options);
  await use(model);
}

function hear(file: Uint8Array<ArrayBuffer>, text = QUESTION): ChatMessage {
  const sound = { type: "audio", bytes: file, param: "messages[0].content[0]" } as const;
  return { role: "user", content: [sound, { type: "text", text }] };
}

async function readMetric(model: Model, name: string): Promise<number> {
  const metrics = await model.metrics.getMetricsAsJSON();
  const { values } = metrics.find((metric) => metric.name === name)!;
  return values.reduce((sum, { value }) => sum + value, 0);
}

/** Conversations with one or several sounds, with an image, and with neither. */
function mixedConversations(family: HearingFamily): ChatMessage[][] {
  const [first, second] = [0, 1].map((number) => hear(makeWav(makeSound(number))));
  const image = {
    type: "image",
    bytes: drawImage(0, KEPT_SIZES[family]),
    param: "messages[0].content[0]",
  } as const;
  const parts = (message: ChatMessage) =>
    message.content as Exclude<ChatMessage["content"], string>;
  return [
    [first!],
    [second!],
    [{ role: "user", content: [...parts(second!), image, ...parts(first!)] }],
    [{ role: "user", content: "Tell me a story." }],
    [first!, { role: "assistant", content: "Nothing." }, hear(makeWav(makeSound(1)), "And now?")],
  ];
}

async function assertSameTogether(family: HearingFamily, options: OpenModelOptions): Promise<void> {
  const conversations = mixedConversations(family);
  const answer = async (model: Model, messages: ChatMessage[]) => {
    const { logprobs, usage } = await chat(model, messages, { maxTokens: 12, topLogprobs: 0 });
    const { promptTokens, audioTokens } = usage;
    return { tokens: logprobs[0]!.map(({ token }) => token), promptTokens, audioTokens };
  };
  const alone: Awaited<ReturnType<typeof answer>>[] = [];
  await withModel(family, async (model) => {
    for (const messages of conversations) alone.push(await answer(model, messages));
  }, { ...options, engine: { prefixCache: false } });
  const [first, second, both, none, turns] = alone.map(({ audioTokens }) => audioTokens);
  assert.equal(both, first! + second!);
  assert.equal(turns, first! + second!);
  assert.equal(none, undefined);
  assert.notDeepEqual(alone[0]!.tokens, alone[1]!.tokens, "the sounds make a difference");
  await withModel(family, async (model) => {
    const together = await Promise.all(conversations.map((messages) => answer(model, messages)));
    assert.deepEqual(together, alone);
    assert.equal(await readMetric(model, "hearth_kv_blocks_used"), 0);
  }, { ...options, engine: { prefixCache: true, maxBatchTokens: 7 } });
}

for (const family of HEARING_FAMILIES) {
  Deno.test(`VisionModel gives concurrent requests with sounds the same tokens as each alone, ${family}`, () =>
    assertSameTogether(family, {}));

  Deno.test(`VisionModel neither encodes nor computes a sound again in a second turn, ${family}`, () =>
    withModel(family, async (model) => {
      assert.equal(model.takesAudio, true);
      const first = [hear(makeWav(makeSound(0)))];
      const { texts: [reply], usage } = await chat(model, first, { maxTokens: 4 });
      const second = await chat(model, [
        ...first,
        { role: "assistant", content: reply! },
        { role: "user", content: "Are you sure?" },
      ], { maxTokens: 4 });
      assert.equal(await readMetric(model, "hearth_audio_encoder_runs_total"), 1);
      assert.equal(await readMetric(model, "hearth_sounds_total"), 2);
      const numFull = Math.floor(usage.promptTokens / 16) * 16;
      assert.ok(second.usage.cachedTokens >= numFull, `${second.usage.cachedTokens} of ${numFull}`);
      // A sound of the same length: the cache must not return the first one.
      const other = await chat(model, [hear(makeWav(makeSound(0).reverse()))], { maxTokens: 4 });
      assert.equal(other.usage.promptTokens, usage.promptTokens);
      assert.equal(await readMetric(model, "hearth_audio_encoder_runs_total"), 2);
      assert.ok(other.usage.cachedTokens < 16, `${other.usage.cachedTokens}`);
    }));

  Deno.test(`VisionModel refuses sounds that are too long, too short or broken, ${family}`, () =>
    withModel(family, async (model) => {
      const refusals: readonly (readonly [Uint8Array<ArrayBuffer>, RegExp])[] = [
        [makeWav(new Float32Array(31 * RATE_HZ)), LONGEST[family]],
        [
          makeWav(new Float32Array(80)),
          /lasts 0\.005 s, but this model takes only sounds of at least 0\.0/,
        ],
        [
          new TextEncoder().encode("This is no sound at all."),
          /not supported audio; one of WAV, .* is expected/,
        ],
        [new Uint8Array(), /The audio file is empty/],
      ];
      for (const [file, says] of refusals) {
        await assert.rejects(chat(model, [hear(file)]), (error: HearthError) => {
          assert.deepEqual([error.kind, error.param], ["invalid_media", "messages[0].content[0]"]);
          assert.match(error.message, says);
          return true;
        });
      }
      // A shorter sound is accepted after the refusals.
      const { usage } = await chat(model, [hear(makeWav(new Float32Array(3 * RATE_HZ)))], {
        maxTokens: 1,
      });
      assert.ok(usage.audioTokens! > 20);
    }));
}

Deno.test("VisionModel hears every format that speech recognition reads, at the same length", () =>
  withModel("gemma4", async (model) => {
    const seconds = new Set<number>();
    for (const name of SPEECH_FILES) {
      const { usage } = await chat(model, [hear(readFixture(name))], { maxTokens: 1 });
      // 25 tokens per second; codecs pad some hundredths of a second.
      seconds.add(Math.round(usage.audioTokens! / 25));
    }
    assert.ok(SPEECH_FILES.length > 15);
    assert.equal(seconds.size, 1, [...seconds].join());
  }));

gpuTest(
  "VisionModel gives concurrent requests with sounds the same tokens as each alone, on WebGPU",
  async (gpu) => await assertSameTogether("gemma4", { backend: await WebGpuBackend.create(gpu) }),
);

Deno.test("loadVision() reads settings from processor_config.json alone, as transformers 5 saves them", async () => {
  await using folder = await makeVisionFolder("gemma3n");
  const read = async (name: string) => JSON.parse(await Deno.readTextFile(join(folder.path, name)));
  const settings = await read("preprocessor_config.json");
  const processor = await read("processor_config.json");
  const { feature_extractor_type: _, ...image_processor } = settings;
  await Deno.remove(join(folder.path, "preprocessor_config.json"));
  await Deno.writeTextFile(
    join(folder.path, "processor_config.json"),
    JSON.stringify({ ...processor, image_processor, feature_extractor: settings }),
  );
  await using model = await openModel(folder.path);
  const seen = visionCases("gemma3n").find(({ name }) => name === "an image and a sound")!;
  const { logprobs, usage } = await chat(model, makeMessages(seen, KEPT_SIZES.gemma3n), {
    maxTokens: 16,
    topLogprobs: 0,
  });
  const { prompt, completion } = goldens.gemma3n["an image and a sound"];
  const { tokenTexts } = await loadTokenizer(await openFolder(folder.path));
  assert.equal(usage.promptTokens, prompt.length);
  assert.deepEqual(
    logprobs[0]!.map(({ token }) => token),
    completion.map((id) => tokenTexts.of(id).token),
  );
});

/** Changes that remove audio input from a folder. */
const FAULTS: readonly {
  readonly what: string;
  readonly family: VisionFamily;
  readonly make: (folder: string) => Promise<void>;
}[] = [
  {
    what: "no settings of a feature extractor",
    family: "gemma4",
    make: async (folder) => {
      const path = join(folder, "processor_config.json");
      const { feature_extractor: _, ...rest } = JSON.parse(await Deno.readTextFile(path));
      await Deno.writeTextFile(path, JSON.stringify(rest));
    },
  },
  {
    what: "an audio encoder with fewer rows than the prompt has tokens",
    family: "gemma3n",
    make: (folder) =>
      Deno.writeFile(
        join(folder, "onnx/audio_encoder.onnx"),
        filledRowsEncoder(TINY, { numRows: 9 }),
      ),
  },
  {
    what: "no audio encoder",
    family: "gemma3n",
    make: (folder) => Deno.remove(join(folder, "onnx/audio_encoder.onnx")),
  },
];

for (const { what, family, make } of FAULTS) {
  Deno.test(`loadVision() serves a folder with ${what} without audio input`, async () => {
    await using folder = await makeVisionFolder(family);
    await make(folder.path);
    await using model = await openModel(folder.path);
    assert.equal(model.takesAudio, false);
    const { texts } = await chat(model, [{ role: "user", content: "Hello" }], { maxTokens: 3 });
    assert.equal(texts.length, 1);
  });
}
