/** Answers on the CPU are bit-identical for any number of threads that share the work of a step. */
import assert from "node:assert/strict";
import type { SampledToken } from "../../src/decoder/decoder.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { copyChatModel } from "../fixtures/models/chat_model.ts";
import { generate } from "../fixtures/engine/generate.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { makePrompt } from "../fixtures/engine/small_steps.ts";

const NUM_TOKENS = 40;
/** Maximum number of streams that still count as few rows. */
const NUM_STREAMS = 6;

/** The answers to several concurrent requests. */
async function answer(threads: number, dtype: "fp32" | "q4"): Promise<SampledToken[][]> {
  await using copy = await copyChatModel(dtype === "q4" ? 4 : undefined);
  const backend = await CpuBackend.open({ threads });
  const folder = await openFolder(copy.path);
  const engine = { prefixCache: false };
  const { decoder } = await loadDecoder(makeContext(folder, { backend, dtype, engine }));
  const loop = new EngineLoop(decoder, { prefixCache: false });
  const answers = await Promise.all(
    Array.from({ length: NUM_STREAMS }, (_, seed) =>
      // Prompts of one token, so that nearly all steps only decode.
      generate(loop, {
        tokens: makePrompt(seed).slice(0, 1),
        maxTokens: NUM_TOKENS,
        topLogprobs: 3,
      })),
  );
  await decoder.dispose();
  await backend.dispose();
  return answers.map(({ tokens }) => [...tokens]);
}

for (const dtype of ["q4", "fp32"] as const) {
  Deno.test({
    name: `answers in ${dtype} on the CPU are the same with 1, 2, 3, 4 and 8 threads`,
    // Node's threads end some time after the request to stop.
    sanitizeResources: false,
    sanitizeOps: false,
    fn: async () => {
      const alone = await answer(1, dtype);
      assert.ok(alone.every(({ length }) => length === NUM_TOKENS));
      for (const threads of [2, 3, 4, 8]) {
        assert.deepEqual(await answer(threads, dtype), alone, `${threads} threads`);
      }
    },
  });
}
