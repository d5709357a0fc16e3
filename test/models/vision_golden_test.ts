/**
 * Vision models compared with transformers.js on its own runtime: the same prompts, pixels, features and greedy tokens.
 */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { configureLog } from "../../src/base/log.ts";
import { decodeImage } from "../../src/media/image.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadTokenizer } from "../../src/models/text/tokenizer.ts";
import { findMediaToken } from "../../src/models/media_encoder.ts";
import { VisionProcessor } from "../../src/models/images/vision_processor.ts";
import type { AudioPart, ImagePart } from "../../src/models/task.ts";
import { SoundProcessor } from "../../src/models/vision/sound_processor.ts";
import { VisionPrompt } from "../../src/models/vision/vision_prompt.ts";
import { chat } from "../fixtures/engine/chat.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { openModel } from "../fixtures/engine/model.ts";
import {
  HEARING_FAMILIES,
  KEPT_SIZES,
  makeMessages,
  visionCases,
} from "../fixtures/models/vision/vision_cases.ts";
import {
  makeVisionFolder,
  VISION_FAMILIES,
  type VisionFamily,
} from "../fixtures/models/vision/vision_folder.ts";
import goldens from "../fixtures/models/vision/goldens.json" with { type: "json" };

// Hides the warnings about uncut decoders, which are intended here.
configureLog({ level: "error", format: "text" });

interface Golden {
  readonly prompt: readonly number[];
  readonly completion: readonly number[];
  /** Absent without images. */
  readonly pixels?: Sample;
  /** Samples of each sound's features; absent without sounds. */
  readonly features?: readonly Sample[];
}

/** Some elements of a tensor. */
interface Sample {
  readonly dims: readonly number[];
  readonly values: readonly number[];
}

const GOLDENS: Readonly<Record<VisionFamily, Readonly<Record<string, Golden>>>> = goldens;

/** Compares a tensor with its elements in the goldens. */
function assertSampled(
  data: ArrayLike<number>,
  { dims, values }: Sample,
  tolerance: number,
): void {
  assert.equal(data.length, dims.reduce((product, size) => product * size, 1));
  values.forEach((wanted, i) => {
    const value = data[Math.floor(i * data.length / values.length)]!;
    assert.ok(Math.abs(value - wanted) < tolerance, `element ${i}: ${value}, ${wanted}`);
  });
}

async function assertSameTokens(
  family: VisionFamily,
  backend: Backend,
  cases = visionCases(family),
): Promise<void> {
  await using folder = await makeVisionFolder(family);
  const { tokenTexts } = await loadTokenizer(await openFolder(folder.path));
  await using model = await openModel(folder.path, { backend });
  for (const one of cases) {
    const { prompt, completion } = GOLDENS[family][one.name]!;
    const { logprobs: [chosen], usage } = await chat(
      model,
      makeMessages(one, KEPT_SIZES[family]),
      { maxTokens: completion.length, topLogprobs: 0 },
    );
    const wanted = completion.map((id) => tokenTexts.of(id).token);
    assert.deepEqual(chosen!.map(({ token }) => token), wanted, `${family}, ${one.name}`);
    assert.equal(usage.promptTokens, prompt.length);
  }
}

for (const family of VISION_FAMILIES) {
  Deno.test(`VisionPrompt.build() and the processors give the prompt, pixels and features of transformers.js, ${family}`, async () => {
    await using folder = await makeVisionFolder(family);
    const opened = await openFolder(folder.path);
    const tokenizer = await loadTokenizer(opened);
    const processor = await VisionProcessor.load(folder.path);
    const { placeholder } = processor;
    const image = { placeholder, tokenId: findMediaToken(opened.config, "image") };
    const hears = HEARING_FAMILIES.some((name) => name === family);
    const sounds = hears ? await SoundProcessor.open(opened) : undefined;
    const audio = sounds &&
      { placeholder: sounds.placeholder, tokenId: findMediaToken(opened.config, "audio") };
    const prompt = new VisionPrompt({
      tokenizer,
      media: audio === undefined ? { image } : { image, audio },
    });
    for (const one of visionCases(family)) {
      const golden = GOLDENS[family][one.name]!;
      const messages = makeMessages(one, KEPT_SIZES[family]);
      const parts = messages.flatMap(({ content }) =>
        typeof content === "string" ? [] : content.filter(({ type }) => type !== "text")
      ) as readonly (AudioPart | ImagePart)[];
      const prepared = await Promise.all(parts.map(async ({ type, bytes }) => ({
        medium: type,
        ...type === "audio"
          ? await sounds!.prepare(bytes, new AbortController().signal)
          : await processor.prepare(await decodeImage(bytes)),
      })));
      const media = prepared.map(({ medium, text }, i) => ({
        medium,
        key: String(i),
        text,
        source: { rows: () => Promise.reject() },
      }));
      const { promptTokens } = prompt.build(messages, { media });
      assert.deepEqual([...promptTokens], golden.prompt);
      const pixels = prepared.flatMap(({ tensors }) => [
        ...(tensors["pixel_values"]?.data ?? []) as Float32Array,
      ]);
      assertSampled(pixels, golden.pixels ?? { dims: [0], values: [] }, 1e-3);
      const features = prepared.filter(({ medium }) => medium === "audio")
        .map(({ tensors }) => tensors["input_features"]!.data as Float32Array);
      assert.equal(features.length, golden.features?.length ?? 0);
      features.forEach((data, i) => assertSampled(data, golden.features![i]!, 2e-3));
    }
  });

  Deno.test(`VisionModel returns the greedy tokens of transformers.js on the CPU, ${family}`, () =>
    assertSameTokens(family, new CpuBackend()));

  gpuTest(
    `VisionModel returns the greedy tokens of transformers.js on WebGPU, ${family}`,
    async (gpu) => {
      // The last case covers what matters here: the device's storage of rows and states of several images or turns.
      await assertSameTokens(
        family,
        await WebGpuBackend.create(gpu),
        visionCases(family).slice(-1),
      );
    },
  );
}
