/**
 * Decoders whose layers see only the last four tokens keep no others, on both devices, and return the same tokens as
 * ONNX Runtime over the whole graph: in a batch, after a preemption, in a pool that grows and after a prefix from the
 * cache.
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../../src/device/backend.ts";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import type { Decoder } from "../../../src/decoder/decoder.ts";
import { EngineLoop } from "../../../src/engine/loop.ts";
import { openFolder } from "../../../src/hub/model_folder.ts";
import { loadDecoder } from "../../../src/models/folder/decoder_load.ts";
import {
  generate,
  type Prompt,
  readMetric,
  withWholeEngine,
} from "../../fixtures/engine/generate.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { calmPace } from "../../fixtures/engine/hurried_pace.ts";
import { makeContext } from "../../fixtures/engine/open_folder.ts";

/** Exports by PyTorch: half of the layers or all of them have a window. */
const EXPORTS = ["gemma3_dynamo_18", "gemma2_script_17", "mistral_dynamo_23"];
const MAX_TOKENS = 20;
/** Short prompts, and ones longer than a block. */
const PROMPTS: readonly Prompt[] = [3, 9, 21, 37].map((length, i) => ({
  tokens: Array.from({ length }, (_, at) => (7 + 5 * i + 11 * at) % 29),
  maxTokens: MAX_TOKENS,
}));

/** A model folder with one of the exports. */
async function makeFolder(name: string): Promise<string> {
  const folder = await Deno.makeTempDir();
  await Deno.mkdir(`${folder}/onnx`);
  const exported = fileURLToPath(
    new URL(`../../fixtures/graphs/exports/${name}.onnx`, import.meta.url),
  );
  await Deno.copyFile(exported, `${folder}/onnx/model.onnx`);
  await Deno.writeTextFile(
    `${folder}/config.json`,
    JSON.stringify({
      architectures: ["LlamaForCausalLM"],
      max_position_embeddings: 64,
      vocab_size: 29,
    }),
  );
  return folder;
}

async function open(backend: Backend, folder: string): Promise<Decoder> {
  const engine = { prefixCache: true, maxBatchTokens: 8 };
  const options = { backend, dtype: "fp32", engine } as const;
  return (await loadDecoder(makeContext(await openFolder(folder), options))).decoder;
}

async function assertSameAsWhole(backend: Backend, name: string): Promise<void> {
  const folder = await makeFolder(name);
  const turns = (answers: readonly (readonly number[])[]) =>
    PROMPTS.slice(0, 3).map(({ tokens }, i): Prompt => ({
      tokens: [...tokens, ...answers[i]!, 3, 1, 4],
      maxTokens: 6,
    }));
  const wanted: number[][] = [];
  await withWholeEngine({ backend: new CpuBackend(), folder, dtype: "fp32" }, async (engine) => {
    for (const prompt of PROMPTS) wanted.push([...(await generate(engine, prompt)).ids]);
    for (const turn of turns(wanted)) wanted.push([...(await generate(engine, turn)).ids]);
  });
  const decoder = await open(backend, folder);
  const { windows } = decoder.limits;
  assert.deepEqual(windows?.map(({ window }) => window), [4]);
  // So few blocks cause a preemption.
  const few = { ...decoder.limits, numBlocks: 6, maxBlocks: 6, roomyBlocks: 6 };
  // Fewer blocks of the window than a step needs: the pool grows.
  assert.ok(await decoder.resizeCache!(1, 1));
  const growing = { ...few, windows: [{ window: 4, numBlocks: 1, maxBlocks: 40 }] };
  const sizes: number[] = [];
  const resizeCache = async (numBlocks: number, pool: number) => {
    assert.equal(pool, 1);
    sizes.push(numBlocks);
    return await decoder.resizeCache!(numBlocks, pool);
  };
  for (const limits of [growing, few, decoder.limits]) {
    if (limits === few) assert.ok(await decoder.resizeCache!(windows![0]!.numBlocks, 1));
    const engine = new EngineLoop(
      {
        ...{ limits, run: (batch) => decoder.run(batch), dispose: () => Promise.resolve() },
        ...limits === growing && { resizeCache },
      },
      { prefixCache: true },
    );
    using _pace = limits === decoder.limits ? undefined : calmPace();
    const first = await Promise.all(PROMPTS.map((prompt) => generate(engine, prompt)));
    const ids = first.map(({ ids }) => [...ids]);
    assert.deepEqual(ids, wanted.slice(0, 4), "in a batch of four");
    const second: number[][] = [];
    let numCached = 0;
    for (const turn of turns(ids)) {
      const { ids, numCachedTokens } = await generate(engine, turn);
      second.push([...ids]);
      numCached += numCachedTokens;
    }
    assert.deepEqual(second, wanted.slice(4), "a second turn");
    if (limits === decoder.limits) assert.ok(numCached > 60, `${numCached} tokens of prefixes`);
    else assert.ok(await readMetric(engine, "hearth_preemptions_total") > 0);
    assert.equal(await readMetric(engine, "hearth_kv_window_blocks_used"), 0);
    await engine.close();
  }
  assert.ok(sizes.length > 1, `the pool grew to ${sizes}`);
  await decoder.dispose();
  await Deno.remove(folder, { recursive: true });
}

for (const name of EXPORTS) {
  Deno.test(`layers of ${name} keep only their window, on the CPU`, () =>
    assertSameAsWhole(new CpuBackend(), name));

  gpuTest(
    `layers of ${name} keep only their window, on WebGPU`,
    async (gpu) => await assertSameAsWhole(await WebGpuBackend.create(gpu), name),
  );
}
