/** Steps of few rows run in our kernels: how much less they ask of the host, and that answers stay what they were. */
import assert from "node:assert/strict";
import { WebGpuBackend } from "../../src/backend/webgpu.ts";
import type { Dtype } from "../../src/config.ts";
import type { SampledToken } from "../../src/decoder/decoder.ts";
import { PagedDecoder } from "../../src/decoder/paged_decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/decoder.ts";
import { countCalls } from "../fixtures/count_calls.ts";
import { generate } from "../fixtures/generate.ts";
import { findModelFolder, unlessThere } from "../fixtures/goldens.ts";
import { gpuTest } from "../fixtures/gpu.ts";
import { contextOf } from "../fixtures/open_folder.ts";

const NUM_TOKENS = 24;
/** Where the two best log-probabilities are closer than this, either may be chosen: ONNX Runtime sums in f16. */
const TIES = { fp32: 1e-4, fp16: 0.1, q4: 1e-4, q4f16: 0.1 } as const;

interface Case {
  readonly model: string;
  readonly dtype: keyof typeof TIES;
  /** Dispatches of a step of one token, by our kernels alone, sampling included. */
  readonly dispatches: number;
  readonly layers: number;
}

const CASES: readonly Case[] = [
  { model: "hearth-demo-chat", dtype: "fp32", dispatches: 26, layers: 4 },
  { model: "hearth-demo-chat", dtype: "fp16", dispatches: 26, layers: 4 },
  { model: "hearth-demo-chat", dtype: "q4", dispatches: 27, layers: 4 },
  { model: "hearth-demo-chat", dtype: "q4f16", dispatches: 26, layers: 4 },
  { model: "stories260k-llama", dtype: "fp16", dispatches: 32, layers: 5 },
];

async function open(gpu: GpuContext, path: string, dtype: Dtype): Promise<PagedDecoder> {
  const backend = await WebGpuBackend.create(gpu);
  const engine = { prefixCache: false };
  const folder = await openFolder(path);
  const { decoder } = await loadDecoder(contextOf(folder, { backend, dtype, engine }));
  assert.ok(decoder instanceof PagedDecoder);
  return decoder;
}

const promptOf = (seed: number) =>
  Array.from({ length: 6 }, (_, i) => 3 + (seed * 131 + i * 31 + i * i) % 400);

/** What a step of one token asks for: differences of a long and a short answer. */
async function countStep(engine: EngineLoop) {
  const count = async (maxTokens: number) => {
    using dispatches = countCalls(GPUComputePassEncoder.prototype, "dispatchWorkgroups");
    using submits = countCalls(GPUQueue.prototype, "submit");
    await generate(engine, { tokens: promptOf(1), maxTokens });
    return { dispatches: dispatches.count, submits: submits.count };
  };
  await count(4);
  const [short, long] = [await count(4), await count(14)];
  return {
    dispatches: (long.dispatches - short.dispatches) / 10,
    submits: (long.submits - short.submits) / 10,
  };
}

/** Fails where tokens differ other than by a near tie; @returns whether they do. */
function assertAlike(got: readonly SampledToken[], want: readonly SampledToken[], tie: number) {
  const at = got.findIndex(({ tokenId }, i) => tokenId !== want[i]!.tokenId);
  if (at < 0) return assert.equal(got.length, want.length);
  const [first, second] = want[at]!.top as [SampledToken["top"][0], SampledToken["top"][0]];
  const gap = first.logprob - second.logprob;
  assert.ok(
    gap < tie && second.tokenId === got[at]!.tokenId,
    `token ${at} is ${got[at]!.tokenId}, not ${want[at]!.tokenId}; the best two are ${gap} apart`,
  );
}

for (const { model, dtype, dispatches, layers } of CASES) {
  const folder = findModelFolder(model);
  const options = { ignore: folder === undefined };
  const note = unlessThere(
    folder !== undefined,
    `models/${model}`,
    "a graph with rotary of its own",
  );

  gpuTest(
    `a step of ${model} ${dtype} is ${dispatches} dispatches in one submit${note}`,
    async (gpu) => {
      const decoder = await open(gpu, folder!, dtype);
      const engine = new EngineLoop(decoder, { prefixCache: false });
      assert.deepEqual(await countStep(engine), { dispatches, submits: 1 });
      decoder.limitCompiledRows(0);
      const before = await countStep(engine);
      assert.ok(before.dispatches > 2 * dispatches, `${before.dispatches} dispatches`);
      // Segments, and between them what was recorded; the token.
      assert.ok(before.submits >= 2 * layers, `${before.submits} submits`);
      await decoder.dispose();
    },
    options,
  );

  gpuTest(
    `${model} ${dtype} answers alike alone, among 16 and across the crossover${note}`,
    async (gpu) => {
      const decoder = await open(gpu, folder!, dtype);
      const engine = new EngineLoop(decoder, { prefixCache: false });
      const answer = async (seed: number) => {
        const request = { tokens: promptOf(seed), maxTokens: NUM_TOKENS, topLogprobs: 2 };
        return (await generate(engine, request)).tokens;
      };
      const seeds = Array.from({ length: 16 }, (_, i) => i);
      const together = await Promise.all(seeds.map(answer));
      // Bit for bit: a row's sums do not depend on how many rows there are.
      for (const seed of [0, 7]) {
        const alone = await answer(seed);
        const ids = (tokens: readonly SampledToken[]) => tokens.map(({ tokenId }) => tokenId);
        assert.deepEqual(ids(alone), ids(together[seed]!));
      }
      // Prompts too in our kernels, or some steps, or none.
      for (const limit of [256, 8, 0]) {
        decoder.limitCompiledRows(limit);
        const others = await Promise.all(seeds.map(answer));
        others.forEach((tokens, i) => assertAlike(tokens, together[i]!, TIES[dtype]));
      }
      await decoder.dispose();
    },
    options,
  );
}

gpuTest("PagedDecoder.calibrate() leaves a decoder that answers as before", async (gpu) => {
  const decoder = await open(gpu, findModelFolder("hearth-demo-chat")!, "q4f16");
  const engine = new EngineLoop(decoder, { prefixCache: false });
  const answer = async () =>
    (await generate(engine, { tokens: promptOf(3), maxTokens: 8 })).tokens.map((t) => t.tokenId);
  const before = await answer();
  await decoder.calibrate();
  assert.deepEqual(await answer(), before);
  await decoder.dispose();
});
