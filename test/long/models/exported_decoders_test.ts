/**
 * Decoders from public exporters, in `../shared/models/tiny`: cut, batched, with a prefix cache, and with the greedy
 * tokens of ONNX Runtime over the whole graph, on both devices.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { basename } from "node:path";
import type { Backend } from "../../../src/device/backend.ts";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../../src/base/config.ts";
import {
  generate,
  type Prompt,
  withEngine,
  withWholeEngine,
} from "../../fixtures/engine/generate.ts";
import { findModelFolder, unlessThere } from "../../fixtures/engine/goldens.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";

/** The folders whose decoders are cut, and the dtype of their graph. */
const FOLDERS: Readonly<Record<string, Dtype>> = {
  "genai-root": "fp32",
  "gptoss": "fp32",
  "lfm2": "fp32",
  "llama-q4-level0": "fp32",
  "mamba2-hybrid": "fp32",
  "q4f16-fp32cache": "q4f16",
  "phi4mini-longrope": "fp32",
  "qwen3_5": "fp32",
  "qwen3-qk-norm": "fp32",
};

interface Golden {
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
}

/**
 * Golden tokens of folders without a `golden.json`: from ONNX Runtime 1.30 over the whole graph, with all tokens at
 * once for each new one.
 */
const RECORDED: Readonly<Record<string, Golden>> = {
  "genai-root": {
    prompt: [1, 808, 59, 13, 251, 19, 1342, 1052, 1295],
    tokens: [1706, 796, 743, 1900, 1228, 1150, 1150, 1150, 1150, 1150, 1150, 1150],
  },
};

const PROMPT = [1, 50, 60, 70, 80, 90, 100, 110, 120];
const NUM_TOKENS = 24;

/** The answer of the whole graph: recorded, or computed now. */
async function readGolden(folder: string, dtype: Dtype): Promise<Golden> {
  const file = `${folder}/golden.json`;
  const recorded = RECORDED[basename(folder)];
  if (recorded !== undefined) return recorded;
  if (existsSync(file)) return JSON.parse(await Deno.readTextFile(file));
  const options = { backend: new CpuBackend(), folder, dtype };
  const { ids } = await withWholeEngine(
    options,
    (engine) => generate(engine, { tokens: PROMPT, maxTokens: NUM_TOKENS }),
  );
  return { prompt: PROMPT, tokens: ids };
}

/** The golden prompt among others: a shorter one, one longer than two blocks, and one with the same beginning. */
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
    // A prompt that differs from token 40 on finds the two full blocks before it in the cache, with their states.
    const other = [...prompts[2]!.tokens.slice(0, 40), 9, 8, 7];
    const { ids: ofOther, numCachedTokens } = await generate(engine, {
      tokens: other,
      maxTokens: 4,
    });
    assert.equal(numCachedTokens, 32);
    // The next turn begins with the long prompt and its answer.
    const turn = [...prompts[2]!.tokens, ...alone[2]!, 11, 12, 13];
    const next = await generate(engine, { tokens: turn, maxTokens: 4 });
    assert.ok(next.numCachedTokens > prompts[2]!.tokens.length, `${next.numCachedTokens} cached`);
    await withEngine({ backend, folder, dtype, engine: { prefixCache: false } }, async (fresh) => {
      assert.deepEqual((await generate(fresh, { tokens: other, maxTokens: 4 })).ids, ofOther);
      const { ids } = await generate(fresh, { tokens: turn, maxTokens: 4 });
      assert.deepEqual(next.ids, ids, "after a prefix from the cache");
    });
  });
}

/**
 * A prompt of 250 tokens for phi4mini-longrope and its answer, which uses the angles of long sequences from 256 tokens
 * on: from ONNX Runtime 1.30 over the whole graph, with all tokens at once for each token of the answer.
 */
const LONG = {
  prompt: Array.from({ length: 250 }, (_, i) => 3 + (i * 37) % 1900),
  tokens: [1125, 914, 933, 1866, 1125, 914, 933, 1866, 1125, 914, 933, 1866, 1125, 914],
};

async function assertLong(backend: Backend, folder: string): Promise<void> {
  await withEngine({ backend, folder, dtype: "fp32" }, async (engine) => {
    const { prompt, tokens } = LONG;
    const prompts = [prompt, prompt.slice(0, 30), prompt].map((each) => ({
      tokens: each,
      maxTokens: tokens.length,
    }));
    const alone = await generate(engine, prompts[1]!);
    const [first, short, again] = await Promise.all(
      prompts.map((each) => generate(engine, each)),
    );
    assert.deepEqual(first!.ids, tokens);
    assert.deepEqual(again!.ids, tokens);
    assert.deepEqual(short!.ids, alone.ids, "beside sequences that become long");
    // The cached prefix of a long sequence is found by another long sequence.
    const longer = await generate(engine, { tokens: [...prompt, ...tokens, 5], maxTokens: 2 });
    assert.ok(longer.numCachedTokens > prompt.length, `${longer.numCachedTokens} cached`);
  });
}

{
  const folder = findModelFolder("tiny/phi4mini-longrope");
  const skipped = unlessThere(folder !== undefined, "models/tiny/phi4mini-longrope", "LongRoPE");
  Deno.test({
    name:
      `a sequence that becomes long is computed with the angles of long ones, on the CPU${skipped}`,
    ignore: folder === undefined,
    fn: () => assertLong(new CpuBackend(), folder!),
  });
  gpuTest(
    `a sequence that becomes long uses the angles of long ones, on WebGPU${skipped}`,
    async (gpu) => await assertLong(await WebGpuBackend.create(gpu), folder!),
    { ignore: folder === undefined },
  );
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
