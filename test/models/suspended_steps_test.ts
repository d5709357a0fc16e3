/**
 * A prefill step is suspended after each of its parts for decode steps of other requests. All
 * results are bit-identical to those of each request alone: on both devices, with every kind of
 * decoder state, and while the cache grows.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import {
  type Decoder,
  GREEDY,
  type SampledToken,
  type StepBatch,
  type Suspension,
} from "../../src/decoder/decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { generate, type Generated, type Prompt } from "../fixtures/engine/generate.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { hurryPace } from "../fixtures/engine/hurried_pace.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";

/** The model to open, and a prompt that fits in its context. */
interface Case {
  readonly folder: string | undefined;
  readonly dtype: Dtype;
  readonly promptTokens: number;
  readonly batchInvariant?: boolean;
  readonly maxBatchTokens?: number;
}

/** Built-in models, and folders of `../shared/models/tiny`. */
const CASES: Readonly<Record<string, Case>> = {
  "whose layers attend to all tokens": demo("hearth-demo-chat", "fp32"),
  "in 4 bits": demo("hearth-demo-chat", "q4"),
  "whose steps run only in kernels": { ...demo("hearth-demo-chat", "q4"), batchInvariant: true },
  // Decoding steps of this case may have as many rows as prompt steps.
  "whose steps are all short": {
    ...demo("hearth-demo-chat", "fp32"),
    batchInvariant: true,
    maxBatchTokens: 32,
  },
  "that takes embeddings": demo("hearth-demo-vision", "fp32"),
  "with sinks, windows and experts": tiny("gptoss"),
  "with convolutions": tiny("lfm2"),
  "with linear attention": tiny("qwen3_5"),
  "with state spaces": tiny("mamba2-hybrid"),
};

function demo(name: string, dtype: Dtype): Case {
  return { folder: findModelFolder(name), dtype, promptTokens: 150 };
}

function tiny(name: string): Case {
  const path = fileURLToPath(new URL(`../../../shared/models/tiny/${name}`, import.meta.url));
  return { folder: existsSync(path) ? path : undefined, dtype: "fp32", promptTokens: 90 };
}

/** As many blocks as the requests need. */
const FEW_BLOCKS = 20;

/**
 * A decoder that counts the parts of suspended steps, and the steps that run during suspensions.
 */
class CountingDecoder implements Decoder {
  readonly limits;
  readonly suspension;
  numParts = 0;
  numBeside = 0;
  /** The largest number of parts between two decoding steps. */
  mostParts = 0;
  readonly #decoder: Decoder;
  #isSuspended = false;
  #numPartsSince = 0;
  #numBlocks = FEW_BLOCKS;

  /** @param decoder A decoder with a small cache. */
  constructor(decoder: Decoder) {
    this.#decoder = decoder;
    this.limits = { ...decoder.limits, numBlocks: FEW_BLOCKS, maxBlocks: FEW_BLOCKS };
    this.suspension = decoder.suspension;
  }

  async run(batch: StepBatch, suspension?: Suspension) {
    if (suspension === undefined) {
      if (this.#isSuspended) this.numBeside++;
      this.#numPartsSince = 0;
      return await this.#decoder.run(batch);
    }
    const endPart = () => {
      // No other request waits any more.
      if (suspension.remainingMs === Infinity) return suspension.endPart();
      this.numParts++;
      this.mostParts = Math.max(this.mostParts, ++this.#numPartsSince);
      return this.#suspend(suspension);
    };
    return await this.#decoder.run(batch, {
      get remainingMs() {
        return suspension.remainingMs;
      },
      endPart,
    });
  }

  /** Suspends the step. At every third part the cache grows by a block. */
  async #suspend(suspension: Suspension): Promise<void> {
    if (this.numParts % 3 === 0) {
      assert.ok(await this.#decoder.resizeCache!(++this.#numBlocks, 0));
    }
    this.#isSuspended = true;
    await suspension.endPart();
    this.#isSuspended = false;
  }

  dispose(): Promise<void> {
    return this.#decoder.dispose();
  }
}

async function open(
  backend: Backend,
  { folder, dtype, batchInvariant, maxBatchTokens }: Case,
): Promise<CountingDecoder> {
  const engine = { prefixCache: false, batchInvariant, maxBatchTokens };
  const context = makeContext(await openFolder(folder!), { backend, dtype, engine });
  const { decoder } = await loadDecoder(context);
  assert.ok(await decoder.resizeCache!(FEW_BLOCKS, 0));
  return new CountingDecoder(decoder);
}

function makePrompt(seed: number, length: number): Prompt {
  const tokens = Array.from({ length }, (_, i) => 3 + (seed * 131 + i * 31 + i * i) % 200);
  return { tokens, maxTokens: 6, topLogprobs: 2 };
}

/** Runs a stream, and a second request that starts at the stream's second token. @returns their tokens. */
async function runBeside(
  engine: EngineLoop,
  stream: Prompt,
  other: Prompt,
): Promise<readonly (readonly SampledToken[])[]> {
  const tokens: SampledToken[] = [];
  const beside = Promise.withResolvers<Generated>();
  await new Promise<void>((resolve, reject) =>
    engine.add({
      promptTokens: Int32Array.from(stream.tokens),
      samples: [GREEDY],
      maxTokens: stream.maxTokens,
      topLogprobs: stream.topLogprobs!,
    }, {
      onToken: (_, token) => {
        if (tokens.push(token) === 2) beside.resolve(generate(engine, other));
        return false;
      },
      onDone: () => resolve(),
      onError: reject,
    })
  );
  return [tokens, (await beside.promise).tokens];
}

async function assertSame(backend: Backend, given: Case): Promise<void> {
  const decoder = await open(backend, given);
  const engine = new EngineLoop(decoder, { prefixCache: false });
  const stream = { ...makePrompt(1, 9), maxTokens: 60 };
  const long = makePrompt(2, given.promptTokens);
  const alone = [await generate(engine, stream), await generate(engine, long)];
  assert.equal(decoder.numParts, 0, "a step was suspended although no other request waited");
  using _pace = hurryPace();
  const beside = await runBeside(new EngineLoop(decoder, { prefixCache: false }), stream, long);
  assert.deepEqual(beside[0], alone[0]!.tokens, "the stream");
  assert.deepEqual(beside[1], alone[1]!.tokens, "the prompt");
  assert.ok(decoder.numBeside >= 5, `${decoder.numBeside} steps during suspensions`);
  assert.equal(decoder.mostParts, 1);
  await engine.close();
  await decoder.dispose();
}

for (const [name, given] of Object.entries(CASES)) {
  const isThere = given.folder !== undefined;
  const note = unlessThere(isThere, `models/tiny for ${name}`, "a decoder that is suspended");
  const title = `a decoder ${name} gives the same tokens when prefill steps are suspended`;
  Deno.test({
    name: `${title}, on the CPU${note}`,
    ignore: !isThere,
    fn: () => assertSame(new CpuBackend(), given),
  });
  if (!isThere) continue;
  gpuTest(`${title}, on WebGPU`, async (gpu) => {
    await assertSame(await WebGpuBackend.create(gpu), given);
  });
}

Deno.test("a prompt of a single token gets the same tokens in a suspended step, on the CPU", async () =>
  await assertSame(new CpuBackend(), { ...demo("hearth-demo-chat", "fp32"), promptTokens: 1 }));
