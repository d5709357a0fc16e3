/** The cost of keys and values in 8 bits for a real model: perplexity of a text, and different tokens. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { KvCacheDtype } from "../../src/base/config.ts";
import { generate, withEngine } from "../fixtures/engine/generate.ts";
import { findModelFolder, readGoldens } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";

const FOLDER = findModelFolder("hearth-demo-chat")!;
const GOLDENS = readGoldens(FOLDER);
const PROMPTS = GOLDENS.slice(0, 8).map(({ promptIds, completionIds }) => ({
  tokens: promptIds,
  maxTokens: completionIds.length,
}));

/** Answers of a reference, each after its conversation. */
const TEXTS = GOLDENS.map(({ promptIds, completionIds }) => ({
  tokens: [...promptIds, ...completionIds],
  /** Index into the scores of `promptLogprobs`, which exclude the first token. */
  firstScored: promptIds.length - 1,
}));

interface Measured {
  readonly perplexity: number;
  /** The likeliest token at each position of the texts. */
  readonly likeliest: readonly number[];
  readonly completions: readonly (readonly number[])[];
}

async function measure(
  backend: Backend,
  kvCacheDtype: KvCacheDtype,
  numTexts: number,
): Promise<Measured> {
  const engine = { prefixCache: false, kvCacheDtype };
  return await withEngine({ backend, folder: FOLDER, dtype: "fp32", engine }, async (loop) => {
    const read = TEXTS.slice(0, numTexts).map(async ({ tokens, firstScored }) =>
      (await generate(loop, { tokens, maxTokens: 1, promptLogprobs: 1 })).scored.slice(firstScored)
    );
    const scored = (await Promise.all(read)).flat();
    const sum = scored.reduce((all, { logprob }) => all + logprob, 0);
    const completions = await Promise.all(PROMPTS.map((prompt) => generate(loop, prompt)));
    return {
      perplexity: Math.exp(-sum / scored.length),
      likeliest: scored.map(({ top }) => top[0]!.tokenId),
      completions: completions.map(({ ids }) => ids),
    };
  });
}

async function assertGoodEnough(backend: Backend, numTexts: number): Promise<void> {
  const auto = await measure(backend, "auto", numTexts);
  const q8 = await measure(backend, "q8", numTexts);
  const change = q8.perplexity / auto.perplexity - 1;
  assert.notEqual(change, 0, "8 bits change nothing, so they are not used");
  assert(Math.abs(change) < 0.005, `perplexity ${auto.perplexity} becomes ${q8.perplexity}`);
  const same = auto.likeliest.filter((id, i) => id === q8.likeliest[i]).length;
  const share = same / auto.likeliest.length;
  assert(share > 0.99, `the likeliest token is the same at ${share} of all positions`);
  // Completions diverge after the first different token.
  const pairs = auto.completions.map((ids, i) => {
    const end = ids.findIndex((id, at) => id !== q8.completions[i]![at]);
    return { agreed: end < 0 ? ids.length : end, length: ids.length };
  });
  const agreed = pairs.reduce((sum, pair) => sum + pair.agreed, 0);
  const all = pairs.reduce((sum, { length }) => sum + length, 0);
  assert(agreed / all > 0.95, `${agreed} of ${all} tokens`);
}

Deno.test("keys and values in 8 bits hardly change perplexity and greedy tokens, on the CPU", () =>
  assertGoodEnough(new CpuBackend(), TEXTS.length));

gpuTest(
  "keys and values in 8 bits hardly change perplexity and greedy tokens, on WebGPU",
  async (gpu) => await assertGoodEnough(await WebGpuBackend.create(gpu), 6),
);
