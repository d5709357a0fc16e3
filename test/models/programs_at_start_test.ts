/** A server's first requests of any size do not wait for the compilation of a device program. */
import assert from "node:assert/strict";
import type { Dtype } from "../../src/base/config.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { warmUp } from "../../src/engine/generate.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { copyChatModel } from "../fixtures/models/chat_model.ts";
import { generate } from "../fixtures/engine/generate.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { recordGpu } from "../fixtures/engine/recording_gpu.ts";

/** Prompt lengths that cover all sizes of steps. */
const LENGTHS = [1, 2, 3, 5, 8, 9, 20, 33, 64, 65, 128, 129, 200];
/** Numbers of sequences that decode together. */
const COUNTS = [2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 40];
const MAX_SEQUENCES = 40;

function makePrompt(length: number, seed: number) {
  return { tokens: Array.from({ length }, (_, i) => (seed + 7 * i) % 97), maxTokens: 3 };
}

async function runRequests(engine: EngineLoop): Promise<void> {
  for (const length of LENGTHS) await generate(engine, makePrompt(length, length));
  for (const count of COUNTS) {
    const prompts = Array.from({ length: count }, (_, i) => makePrompt(2 + i % 3, 100 * count + i));
    // Long enough that all have started before the first has ended.
    await Promise.all(prompts.map((each) => generate(engine, { ...each, maxTokens: 12 })));
  }
  // Prompts together with answers.
  await Promise.all(LENGTHS.map((length) => generate(engine, makePrompt(length, 1000 + length))));
}

/** Folders by name. For accuracy level 4, graphics cards round rows to 8 bits. */
const FOLDERS: Readonly<Record<string, { readonly dtype: Dtype; readonly level?: number }>> = {
  fp32: { dtype: "fp32" },
  fp16: { dtype: "fp16" },
  q4: { dtype: "q4" },
  "q4f16 with rows in 8 bits": { dtype: "q4f16", level: 4 },
};

for (const [name, { dtype, level }] of Object.entries(FOLDERS)) {
  for (const isFallbackAdapter of [true, false]) {
    const device = isFallbackAdapter ? "a software adapter" : "a card";
    Deno.test(`a decoder in ${name} on ${device} opens with all programs it needs`, async () => {
      const { gpu, programs } = recordGpu({ isFallbackAdapter, hasF16: true });
      const backend = await WebGpuBackend.create(gpu);
      await using copy = await copyChatModel(level, level ? "q4f16" : undefined);
      const folder = await openFolder(copy.path);
      const engine = { prefixCache: true, maxSequences: MAX_SEQUENCES };
      const { decoder } = await loadDecoder(makeContext(folder, { backend, dtype, engine }));
      const count = programs.length;
      const rounds = programs.some(({ entryPoint }) => entryPoint === "quantize_rows");
      assert.equal(rounds, level !== undefined && !isFallbackAdapter);
      await warmUp(decoder);
      await runRequests(new EngineLoop(decoder, { prefixCache: true }));
      assert.deepEqual(programs.slice(count), []);
      while (backend.compileNext());
      const all = programs.length;
      assert.ok(all > count, "no program is left to be compiled later");
      await runRequests(new EngineLoop(decoder, { prefixCache: true }));
      assert.deepEqual(programs.slice(all), []);
      await decoder.dispose();
    });
  }
}
