import assert from "node:assert/strict";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { decodeImage } from "../../src/media/image.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import type { Model } from "../../src/models/model.ts";
import { ImageProcessor } from "../../src/models/images/vision_processor.ts";
import { loadTokenizer } from "../../src/models/text/tokenizer.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { openModel } from "../fixtures/engine/model.ts";
import { OCR_GOLDENS } from "../fixtures/models/ocr_goldens.ts";
import {
  makeTinyOcr,
  OCR_FAMILIES,
  ocrImage,
  type TinyOcrFamily,
} from "../fixtures/models/tiny_ocr.ts";

/** Positions that the tiny encoders output for an image. */
const NUM_PLACES = 12;
const END_TOKEN = 2;

/** One of each kind of decoder: cut at its attentions, and whole. */
const ON_WEBGPU: ReadonlySet<TinyOcrFamily> = new Set(["trocr", "florence"]);

for (const family of OCR_FAMILIES) {
  Deno.test(`ImageProcessor prepares images for ${family} like transformers.js`, async () => {
    await using tiny = await makeTinyOcr(family);
    const processor = await ImageProcessor.load(tiny.folder);
    for (const { number, pixels: { dims, step, values } } of OCR_GOLDENS[family]) {
      const prepared = await processor.normalize(await decodeImage(ocrImage(number)));
      assert.deepEqual([...prepared.dims], dims);
      values.forEach((value, spot) => {
        const ours = prepared.data[spot * step]!;
        assert.ok(Math.abs(ours - value) < 1e-3, `value ${spot} is ${ours}, not ${value}`);
      });
    }
  });

  cpuTest(
    `OcrModel on the CPU reads the same text as transformers.js: ${family}`,
    async (backend) => {
      await using tiny = await makeTinyOcr(family);
      await using model = await openModel(tiny.folder, { backend });
      await checkGoldens(tiny.folder, family, model);
    },
  );

  if (!ON_WEBGPU.has(family)) continue;
  gpuTest(`OcrModel on WebGPU reads the same text as transformers.js: ${family}`, async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    await using tiny = await makeTinyOcr(family);
    await using model = await openModel(tiny.folder, { backend });
    await checkGoldens(tiny.folder, family, model);
  });
}

async function checkGoldens(folder: string, family: TinyOcrFamily, model: Model): Promise<void> {
  const { tokenTexts } = await loadTokenizer(await openFolder(folder));
  for (const { number, request, tokens, text, encoderTokens } of OCR_GOLDENS[family]) {
    const message = imageMessage(ocrImage(number), request);
    const result = await chat(model, [message], { maxTokens: tokens.length, topLogprobs: 0 });
    const chosen = result.logprobs[0]!.map(({ bytes }) => bytes);
    const hasEnded = tokens.at(-1) === END_TOKEN;
    const shown = hasEnded ? tokens.slice(0, -1) : tokens;
    assert.deepEqual(chosen, shown.map((token) => tokenTexts.of(token).bytes));
    assert.equal(result.texts[0], text);
    assert.deepEqual(result.reasons, [hasEnded ? "stop" : "length"]);
    assert.equal(result.usage.completionTokens, tokens.length);
    if (encoderTokens !== undefined) {
      assert.equal(result.usage.promptTokens, NUM_PLACES + encoderTokens.length + 1);
    }
  }
}
