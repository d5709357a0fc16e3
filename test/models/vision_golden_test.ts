/** Vision models beside transformers.js on its own runtime: the same prompts, pixels and greedy tokens. */
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
import { VisionPrompt } from "../../src/models/vision/vision_prompt.ts";
import { chat } from "../fixtures/engine/chat.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { openModel } from "../fixtures/engine/model.ts";
import { KEPT_SIZES, makeMessages, visionCases } from "../fixtures/models/vision/vision_cases.ts";
import {
  makeVisionFolder,
  VISION_FAMILIES,
  type VisionFamily,
} from "../fixtures/models/vision/vision_folder.ts";
import goldens from "../fixtures/models/vision/goldens.json" with { type: "json" };

// That decoders run uncut is meant.
configureLog({ level: "error", format: "text" });

interface Golden {
  readonly prompt: readonly number[];
  readonly completion: readonly number[];
  readonly pixels: { readonly dims: readonly number[]; readonly values: readonly number[] };
}

const GOLDENS: Readonly<Record<VisionFamily, Readonly<Record<string, Golden>>>> = goldens;

/** The elements that the goldens hold of a tensor. */
function sample(data: ArrayLike<number>, count: number): number[] {
  return Array.from({ length: count }, (_, i) => data[Math.floor(i * data.length / count)]!);
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
  Deno.test(`VisionPrompt.build() makes the prompt and VisionProcessor the pixels of transformers.js, ${family}`, async () => {
    await using folder = await makeVisionFolder(family);
    const opened = await openFolder(folder.path);
    const tokenizer = await loadTokenizer(opened);
    const processor = await VisionProcessor.load(folder.path);
    const { placeholder } = processor;
    const imageTokenId = findMediaToken(opened.config, "image");
    const prompt = new VisionPrompt({ tokenizer, placeholder, imageTokenId });
    for (const one of visionCases(family)) {
      const golden = GOLDENS[family][one.name]!;
      const messages = makeMessages(one, KEPT_SIZES[family]);
      const files = messages.flatMap(({ content }) =>
        typeof content === "string"
          ? []
          : content.flatMap((part) => part.type === "image" ? part.bytes : [])
      );
      const prepared = await Promise.all(
        files.map(async (file) => await processor.prepare(await decodeImage(file))),
      );
      const images = prepared.map(({ text }, i) => ({
        key: String(i),
        text,
        source: { rows: () => Promise.reject() },
      }));
      const { promptTokens } = prompt.build(messages, { images });
      assert.deepEqual([...promptTokens], golden.prompt);
      const pixels = prepared.flatMap(({ tensors }) => [
        ...tensors["pixel_values"]!.data as Float32Array,
      ]);
      const { dims, values } = golden.pixels;
      assert.equal(pixels.length, dims.reduce((product, size) => product * size, 1));
      sample(pixels, values.length).forEach((value, i) =>
        assert.ok(Math.abs(value - values[i]!) < 1e-3, `pixel ${i}: ${value}, ${values[i]}`)
      );
    }
  });

  Deno.test(`VisionModel gives the greedy tokens of transformers.js on the CPU, ${family}`, () =>
    assertSameTokens(family, new CpuBackend()));

  gpuTest(
    `VisionModel gives the greedy tokens of transformers.js on WebGPU, ${family}`,
    async (gpu) => {
      // The last shows what matters here: where the device keeps rows and states of several images or turns.
      await assertSameTokens(
        family,
        await WebGpuBackend.create(gpu),
        visionCases(family).slice(-1),
      );
    },
  );
}
