/** Batching, prefix cache and preemption on real weights: no request's tokens depend on other requests. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { EngineSettings } from "../../src/base/config.ts";
import type { EngineLoop } from "../../src/engine/loop.ts";
import {
  generate,
  type Generated,
  GREEDY,
  type Prompt,
  readMetric,
  withEngine,
  withWholeEngine,
} from "../fixtures/engine/generate.ts";
import { findModelFolder, readGoldens } from "../fixtures/engine/goldens.ts";
import { calmPace } from "../fixtures/engine/hurried_pace.ts";
import { gpuTest, openTestDevice } from "../fixtures/engine/gpu.ts";

const FOLDER = findModelFolder("hearth-demo-chat")!;
const GOLDENS = readGoldens(FOLDER);
const SAMPLED = { ...GREEDY, temperature: 0.8, topK: 40, topP: 0.95 };

/** Prompts of 9 to about 200 tokens, some with a common prefix, alternating between greedy and sampled. */
function mixedPrompts(count: number, maxTokens: number): Prompt[] {
  return Array.from({ length: count }, (_, i) => {
    const parts = GOLDENS.slice(i % 5, i % 5 + 1 + i % 4);
    return {
      tokens: parts.flatMap(({ promptIds }) => promptIds),
      maxTokens: maxTokens - i % 5,
      ...(i % 2 === 0 ? {} : { params: { ...SAMPLED, seed: 100 + i } }),
    };
  });
}

async function runAlone(engine: EngineLoop, prompts: readonly Prompt[]): Promise<Generated[]> {
  const alone: Generated[] = [];
  for (const prompt of prompts) alone.push(await generate(engine, prompt));
  return alone;
}

async function assertSameTogether(
  backend: Backend,
  cases: readonly EngineSettings[],
  prompts: Prompt[],
) {
  const options = { backend, folder: FOLDER, dtype: "fp32" } as const;
  const alone = await withEngine(
    { ...options, engine: { prefixCache: false } },
    (engine) => runAlone(engine, prompts),
  );
  for (const engine of cases) {
    await withEngine({ ...options, engine }, async (loop) => {
      using _pace = engine.kvCacheMb === undefined ? undefined : calmPace();
      const together = await Promise.all(prompts.map((prompt) => generate(loop, prompt)));
      together.forEach(({ ids }, i) =>
        assert.deepEqual(ids, alone[i]!.ids, `request ${i} with ${JSON.stringify(engine)}`)
      );
      const numPreemptions = await readMetric(loop, "hearth_preemptions_total");
      assert.equal(numPreemptions > 0, engine.kvCacheMb !== undefined, "preemptions");
      assert.equal(await readMetric(loop, "hearth_kv_blocks_used"), 0);
    });
  }
}

/** 2 KiB per token: 0.75 MiB hold 384 tokens, too few for all. */
const SMALL_POOL = { kvCacheMb: 0.75 };

Deno.test("EngineLoop gives 16 concurrent requests the same tokens as each alone, on the CPU", () =>
  assertSameTogether(
    new CpuBackend(),
    [
      { prefixCache: true, maxBatchTokens: 1 },
      { prefixCache: true, maxBatchTokens: 512 },
      { prefixCache: true, ...SMALL_POOL, maxBatchTokens: 64 },
      { prefixCache: false, maxBatchTokens: 7 },
      { prefixCache: false, ...SMALL_POOL, maxBatchTokens: 64 },
    ],
    mixedPrompts(16, 48),
  ));

gpuTest(
  "EngineLoop gives 6 concurrent requests the same tokens as each alone, on WebGPU",
  async (gpu) =>
    await assertSameTogether(
      await WebGpuBackend.create(gpu),
      // Fewer cases than on the CPU, because a software adapter needs 10 ms per step: small and
      // large steps, without and with the prefix cache.
      [
        { prefixCache: false, maxBatchTokens: 7 },
        { prefixCache: true, kvCacheMb: 0.375, maxBatchTokens: 64 },
      ],
      mixedPrompts(6, 36),
    ),
);

/** The log-probability of each token of a prompt except the first, from the logits of a separate request. */
async function scoreOneByOne(engine: EngineLoop, prompt: readonly number[]) {
  const requests = prompt.slice(1).map((next, i) => ({
    tokens: prompt.slice(0, i + 1),
    maxTokens: 1,
    topLogprobs: 3,
    logitBias: new Map([[next, 100]]),
  }));
  const answers = await Promise.all(requests.map((request) => generate(engine, request)));
  return answers.map(({ tokens }) => tokens[0]!);
}

/**
 * Asserts that prompts get the same scores as token by token, with any other requests and cache contents. It compares
 * the first prompts, which are the shortest.
 */
async function assertScores(
  backend: Backend,
  numCompared: number,
  engines: readonly EngineSettings[] = [
    { prefixCache: true },
    { prefixCache: true, ...SMALL_POOL },
  ],
) {
  const prompts = mixedPrompts(6, 8);
  const scored = prompts.map((prompt) => ({ ...prompt, promptLogprobs: 3 }));
  for (const engine of engines) {
    await withEngine({ backend, folder: FOLDER, dtype: "fp32", engine }, async (loop) => {
      const plain = await runAlone(loop, prompts);
      const together = await Promise.all([
        ...scored.map((prompt) => generate(loop, prompt)),
        ...mixedPrompts(16, 8).map((prompt) => generate(loop, prompt)),
      ]);
      for (const [i, { tokens }] of prompts.slice(0, numCompared).entries()) {
        const { ids, scored, numCachedTokens } = together[i]!;
        assert.deepEqual(ids, plain[i]!.ids);
        assert.equal(numCachedTokens, 0, "cached tokens are also computed");
        const wanted = await scoreOneByOne(loop, tokens);
        assert.deepEqual(scored.map(({ tokenId }) => tokenId), tokens.slice(1));
        scored.forEach((token, at) => {
          const { logprob, top } = wanted[at]!;
          assert(
            Math.abs(token.logprob - logprob) < 2e-3,
            `${i}, ${at}: ${token.logprob} ${logprob}`,
          );
          assert(Math.abs(token.top[0]!.logprob - top[0]!.logprob) < 2e-3);
        });
      }
      assert.equal(await readMetric(loop, "hearth_kv_blocks_used"), 0);
    });
  }
}

Deno.test("EngineLoop gives prompts the same scores as token by token, on the CPU", () =>
  assertScores(new CpuBackend(), 3));

gpuTest(
  "EngineLoop gives prompts the same scores as token by token, on WebGPU",
  // Scheduling and preemption do not depend on the device.
  async (gpu) => await assertScores(await WebGpuBackend.create(gpu), 1, [{ prefixCache: true }]),
);

Deno.test("EngineLoop also scores prompts on an uncut graph, token by token", async () => {
  const { tokens } = mixedPrompts(1, 4)[0]!;
  const options = { backend: new CpuBackend(), folder: FOLDER, dtype: "fp32" } as const;
  await withWholeEngine(options, async (loop) => {
    const { scored } = await generate(loop, { tokens, maxTokens: 1, promptLogprobs: 0 });
    const wanted = await scoreOneByOne(loop, tokens);
    assert.deepEqual(scored.map(({ tokenId }) => tokenId), tokens.slice(1));
    scored.forEach(({ logprob }, at) => assert(Math.abs(logprob - wanted[at]!.logprob) < 2e-3));
  });
});

gpuTest(
  "EngineLoop gives the same tokens with one token per step on WebGPU",
  async (gpu) =>
    await assertSameTogether(
      await WebGpuBackend.create(gpu),
      [{ prefixCache: true, maxBatchTokens: 1 }],
      mixedPrompts(4, 4),
    ),
);

Deno.test("EngineLoop finds a repeated prompt in the prefix cache, and counts it", () =>
  withEngine({ backend: new CpuBackend(), folder: FOLDER, dtype: "fp32" }, async (engine) => {
    const tokens = GOLDENS.slice(0, 4).flatMap(({ promptIds }) => promptIds);
    const first = await generate(engine, { tokens, maxTokens: 8 });
    const second = await generate(engine, { tokens, maxTokens: 8 });
    assert.equal(first.numCachedTokens, 0);
    assert.equal(second.numCachedTokens, tokens.length - 1);
    assert.deepEqual(second.ids, first.ids);
    assert.equal(
      await readMetric(engine, "hearth_prefix_hit_tokens_total"),
      second.numCachedTokens,
    );
  }));

Deno.test("EngineLoop ends all sequences that a step finishes in that step", () =>
  withEngine({ backend: new CpuBackend(), folder: FOLDER, dtype: "fp32" }, async (engine) => {
    const tokens = GOLDENS[0]!.promptIds;
    await Promise.all([1, 2, 3].map(() => generate(engine, { tokens, maxTokens: 5 })));
    const steps = await engine.metrics.registry.getSingleMetric("hearth_step_seconds")!.get();
    const count = steps.values.find((value) =>
      (value as { metricName?: string }).metricName === "hearth_step_seconds_count"
    );
    assert.equal(count?.value, 5);
  }));

Deno.test("EngineLoop ends only the request without an allowed token", () =>
  withEngine({ backend: new CpuBackend(), folder: FOLDER, dtype: "fp32" }, async (engine) => {
    const prompt = { tokens: GOLDENS[0]!.promptIds, maxTokens: 6 };
    const alone = await generate(engine, prompt);
    const everyToken = Array.from({ length: engine.limits.vocabSize }, (_, id) => id);
    const empty = new Promise<unknown>((resolve, reject) =>
      engine.add({
        promptTokens: Int32Array.from(prompt.tokens),
        samples: [GREEDY],
        logitBias: new Map(everyToken.map((id) => [id, -Infinity])),
        topLogprobs: 0,
      }, { onToken: () => false, onDone: () => reject(new Error("it was done")), onError: resolve })
    );
    const others = await Promise.all([generate(engine, prompt), generate(engine, prompt)]);
    assert.equal(((await empty) as Error).name, "NothingToSampleError");
    for (const { ids } of others) assert.deepEqual(ids, alone.ids);
  }));

Deno.test("EngineLoop frees every block after 1,000 requests, of which 300 are cancelled", () =>
  withEngine({ backend: new CpuBackend(), folder: FOLDER, dtype: "fp32" }, async (engine) => {
    let random = 42;
    const next = (below: number) => {
      random = Math.imul(random, 1664525) + 1013904223 >>> 0;
      return Math.floor(random / 2 ** 32 * below);
    };
    let numDone = 0;
    let numHungUp = 0;
    const ended: Promise<void>[] = [];
    for (let i = 0; i < 1000; i++) {
      const { promptIds } = GOLDENS[next(GOLDENS.length)]!;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      ended.push(promise);
      const hangsUpAt = i % 10 < 3 ? next(4) : Infinity;
      let numTokens = 0;
      const end = engine.add({
        promptTokens: Int32Array.from(promptIds.slice(0, 1 + next(promptIds.length))),
        samples: Array.from({ length: 1 + next(2) }, (_, n) => ({ ...SAMPLED, seed: i + n })),
        maxTokens: 4,
        topLogprobs: 0,
      }, {
        onToken: () => {
          if (++numTokens === hangsUpAt) queueMicrotask(hangUp);
          return false;
        },
        onDone: () => {
          numDone++;
          resolve();
        },
        onError: reject,
      });
      const hangUp = () => {
        end();
        numHungUp++;
        resolve();
      };
      if (hangsUpAt === 0) setTimeout(hangUp, next(200));
    }
    await Promise.all(ended);
    assert.ok(
      numHungUp >= 250 && numDone + numHungUp >= 1000,
      `${numDone} done, ${numHungUp} hung up`,
    );
    const values = await Promise.all(
      ["kv_blocks_used", "sequences_running", "sequences_waiting"].map((name) =>
        readMetric(engine, `hearth_${name}`)
      ),
    );
    assert.deepEqual(values, [0, 0, 0]);
  }));

/** Counts the buffers and pipelines that are created on the device, also by ONNX Runtime. */
function countCreations(device: GPUDevice): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const method of ["createBuffer", "createComputePipeline"] as const) {
    const create = device[method].bind(device) as (descriptor: never) => unknown;
    counts[method] = 0;
    Object.assign(device, {
      [method]: (descriptor: never) => {
        counts[method]! += 1;
        return create(descriptor);
      },
    });
  }
  return counts;
}

gpuTest(
  "PagedDecoder.run() creates no buffer, bind group or pipeline in a steady decode step",
  async () => {
    const gpu = await openTestDevice();
    const all = countCreations(gpu.device);
    const backend = await WebGpuBackend.create(gpu);
    await withEngine({ backend, folder: FOLDER, dtype: "q4f16" }, async (engine) => {
      const counts: string[] = [];
      await new Promise<void>((resolve, reject) =>
        engine.add({
          promptTokens: Int32Array.from(GOLDENS[0]!.promptIds),
          samples: [GREEDY, { ...SAMPLED, seed: 1 }],
          maxTokens: 40,
          topLogprobs: 0,
        }, {
          onToken: () => {
            counts.push(JSON.stringify({ ours: gpu.counts, all }));
            return false;
          },
          onDone: () => resolve(),
          onError: reject,
        })
      );
      assert.equal(counts.length, 80);
      // The first steps use each combination of buffers for the first time.
      assert.deepEqual(new Set(counts.slice(8)).size, 1, counts.join("\n"));
    });
    backend.dispose();
  },
);
