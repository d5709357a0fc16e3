/** Steps of few rows run in our kernels, with less work for the host and the same answers. */
import assert from "node:assert/strict";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import type { SampledToken } from "../../src/decoder/decoder.ts";
import { type KernelRule, WITHOUT_KERNELS } from "../../src/decoder/kernel_rule.ts";
import { PagedDecoder } from "../../src/decoder/paged_decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { generate } from "../fixtures/engine/generate.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { gpuTest, openTestDevice } from "../fixtures/engine/gpu.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { countStep, makePrompt, TIES, Ties } from "../fixtures/engine/small_steps.ts";

/** With a prompt of 6 tokens, this reaches a second block of the cache. */
const NUM_TOKENS = 12;

interface Case {
  readonly model: string;
  readonly dtype: keyof typeof TIES;
  /** Dispatches of a step of one token in our kernels, including sampling. */
  readonly dispatches: number;
  /** Dispatches of the same step with its segments in ONNX Runtime. */
  readonly before: number;
  readonly layers: number;
  /** Maximum number of compared answers that may diverge at a tie. */
  readonly ties: number;
}

const CASES: readonly Case[] = [
  { model: "hearth-demo-chat", dtype: "fp32", dispatches: 26, before: 61, layers: 4, ties: 0 },
  { model: "hearth-demo-chat", dtype: "q4f16", dispatches: 26, before: 61, layers: 4, ties: 2 },
  { model: "stories260k-llama", dtype: "fp16", dispatches: 32, before: 65, layers: 5, ties: 6 },
  { model: "chat-gptneo-3m", dtype: "q4f16", dispatches: 52, before: 103, layers: 8, ties: 2 },
];

async function open(
  gpu: GpuContext,
  path: string,
  { dtype, rule }: { readonly dtype: Dtype; readonly rule?: KernelRule },
): Promise<PagedDecoder> {
  const backend = await WebGpuBackend.create(gpu);
  const engine = { prefixCache: false };
  const folder = await openFolder(path);
  const { decoder } = await loadDecoder({
    ...makeContext(folder, { backend, dtype, engine }),
    ...rule && { rule },
  });
  assert.ok(decoder instanceof PagedDecoder);
  return decoder;
}

for (const { model, dtype, dispatches, before, layers, ties: most } of CASES) {
  const folder = findModelFolder(model);
  const options = { ignore: folder === undefined };
  const note = unlessThere(
    folder !== undefined,
    `models/${model}`,
    "a graph with its own rotary operators",
  );

  gpuTest(
    `a step of ${model} ${dtype} has ${dispatches} dispatches in one submit; its answers are the same alone, among 16 and in ONNX Runtime, except at most ${most} ties below ${
      TIES[dtype]
    }${note}`,
    async (gpu) => {
      const decoder = await open(gpu, folder!, { dtype });
      const engine = new EngineLoop(decoder, { prefixCache: false });
      assert.deepEqual(await countStep(engine, { tokens: makePrompt(1) }), {
        dispatches,
        submits: 1,
        runs: 0,
      });
      const answer = async (seed: number, by = engine) => {
        const request = { tokens: makePrompt(seed), maxTokens: NUM_TOKENS, topLogprobs: 2 };
        return (await generate(by, request)).tokens;
      };
      const seeds = Array.from({ length: 16 }, (_, i) => i);
      const together = await Promise.all(seeds.map((seed) => answer(seed)));
      // Bit-identical: a row's sums do not depend on the number of rows.
      for (const seed of [0, 7]) {
        const alone = await answer(seed);
        const ids = (tokens: readonly SampledToken[]) => tokens.map(({ tokenId }) => tokenId);
        assert.deepEqual(ids(alone), ids(together[seed]!));
      }
      const ties = new Ties(TIES[dtype]);
      const byOrt = await open(gpu, folder!, { dtype, rule: WITHOUT_KERNELS });
      const ort = new EngineLoop(byOrt, { prefixCache: false });
      // In ONNX Runtime, a software adapter needs many times as long per step.
      const others = await Promise.all(seeds.slice(0, 6).map((seed) => answer(seed, ort)));
      others.forEach((tokens, i) => ties.compare(tokens, together[i]!));
      ties.requireAtMost(most);
      // One run per segment, submits of the recorded commands between them, and the token.
      assert.deepEqual(await countStep(ort, { tokens: makePrompt(1) }), {
        dispatches: before,
        submits: 2 * layers + 2,
        runs: layers + 1,
      });
      await decoder.dispose();
      await byOrt.dispose();
    },
    options,
  );
}

for (const dtype of ["q4", "fp16"] as const) {
  gpuTest(
    `hearth-demo-chat ${dtype} answers with the limits that every adapter has, in our kernels and in ONNX Runtime`,
    async (gpu) => {
      const path = findModelFolder("hearth-demo-chat")!;
      const guaranteed = await openTestDevice("guaranteed");
      assert.equal(guaranteed.limits.maxStorageBuffersPerShaderStage, 8);
      const answers = await Promise.all([gpu, guaranteed].map(async (device) => {
        const tokens = [];
        for (const rule of [undefined, WITHOUT_KERNELS]) {
          const decoder = await open(device, path, { dtype, ...rule && { rule } });
          const engine = new EngineLoop(decoder, { prefixCache: false });
          const request = { tokens: makePrompt(5), maxTokens: NUM_TOKENS, topLogprobs: 2 };
          tokens.push((await generate(engine, request)).tokens);
          await decoder.dispose();
        }
        return tokens;
      }));
      const [[want], got] = answers as [[SampledToken[]], SampledToken[][]];
      const ties = new Ties(TIES[dtype]);
      for (const tokens of got) ties.compare(tokens, want);
      guaranteed.device.destroy();
    },
  );
}
