/**
 * Decoders as public exporters write them, from `../shared/models/tiny`: cut, batched, with a prefix cache, and with the
 * greedy tokens that ONNX Runtime gave over the whole graph, on both devices.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import type { Backend } from "../../src/backend/backend.ts";
import { CpuBackend } from "../../src/backend/cpu.ts";
import { WebGpuBackend } from "../../src/backend/webgpu.ts";
import type { Dtype } from "../../src/config.ts";
import { generate, type Prompt, withEngine, withWholeEngine } from "../fixtures/generate.ts";
import { findModelFolder, unlessThere } from "../fixtures/goldens.ts";
import { gpuTest } from "../fixtures/gpu.ts";

/** The folders whose decoders are cut, and the dtype of their graph. */
const FOLDERS: Readonly<Record<string, Dtype>> = {
  "lfm2": "fp32",
  "llama-q4-level0": "fp32",
  "mamba2-hybrid": "fp32",
  "q4f16-fp32cache": "q4f16",
  "qwen3_5": "fp32",
  "qwen3-qk-norm": "fp32",
};

interface Golden {
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
}

const PROMPT = [1, 50, 60, 70, 80, 90, 100, 110, 120];
const NUM_TOKENS = 24;

/** What the whole graph answers: recorded, or where that is not, asked. */
async function readGolden(folder: string, dtype: Dtype): Promise<Golden> {
  const file = `${folder}/golden.json`;
  if (existsSync(file)) return JSON.parse(await Deno.readTextFile(file));
  const options = { backend: new CpuBackend(), folder, dtype };
  const { ids } = await withWholeEngine(
    options,
    (engine) => generate(engine, { tokens: PROMPT, maxTokens: NUM_TOKENS }),
  );
  return { prompt: PROMPT, tokens: ids };
}

/** The golden prompt between others: shorter, longer than two blocks, and one that begins alike. */
function mixedPrompts({ prompt, tokens }: Golden): Prompt[] {
  const long = Array.from({ length: 45 }, (_, i) => 3 + (i * 37) % 500);
  const prompts = [[7, 8], prompt, long, [...prompt, 5, 6, 7]];
  return prompts.map((each) => ({ tokens: each, maxTokens: tokens.length }));
}

async function assertGolden(backend: Backend, folder: string, dtype: Dtype): Promise<void> {
  const golden = await readGolden(folder, dtype);
  const prompts = mixedPrompts(golden);
  await withEngine({ backend, folder, dtype }, async (engine) => {
    const alone: number[][] = [];
    for (const prompt of prompts) alone.push([...(await generate(engine, prompt)).ids]);
    assert.deepEqual(alone[1], golden.tokens, "alone");
    const together = await Promise.all(prompts.map((prompt) => generate(engine, prompt)));
    assert.deepEqual(together.map(({ ids }) => ids), alone, "in a batch of four");
    // The long prompt with its answer is the beginning of the next turn.
    const turn = [...prompts[2]!.tokens, ...alone[2]!, 11, 12, 13];
    const next = await generate(engine, { tokens: turn, maxTokens: 4 });
    assert.ok(next.numCachedTokens > prompts[2]!.tokens.length, `${next.numCachedTokens} cached`);
    await withEngine({ backend, folder, dtype, engine: { prefixCache: false } }, async (fresh) => {
      const { ids } = await generate(fresh, { tokens: turn, maxTokens: 4 });
      assert.deepEqual(next.ids, ids, "after a prefix from the cache");
    });
  });
}

for (const [name, dtype] of Object.entries(FOLDERS)) {
  const folder = findModelFolder(`tiny/${name}`);
  const skipped = unlessThere(folder !== undefined, `models/tiny/${name}`, "an exporter's layout");
  Deno.test({
    name: `loadDecoder() of ${name} gives its golden tokens on the CPU${skipped}`,
    ignore: folder === undefined,
    fn: async () => {
      const backend = new CpuBackend();
      try {
        await assertGolden(backend, folder!, dtype);
      } finally {
        await backend.dispose();
      }
    },
  });

  gpuTest(
    `loadDecoder() of ${name} gives its golden tokens on WebGPU${skipped}`,
    async (gpu) => await assertGolden(await WebGpuBackend.create(gpu), folder!, dtype),
    { ignore: folder === undefined },
  );
}
