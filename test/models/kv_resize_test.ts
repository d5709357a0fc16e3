/** The KV cache of a real decoder grows and shrinks during requests without changing their tokens. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Decoder, DecoderLimits, StepBatch } from "../../src/decoder/decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { generate, type Generated, type Prompt, readMetric } from "../fixtures/engine/generate.ts";
import { findModelFolder, readGoldens } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";

const FOLDER = findModelFolder("hearth-demo-chat")!;
/** About 30 tokens each, followed by a second turn. */
const PROMPTS: readonly Prompt[] = readGoldens(FOLDER).slice(0, 4).map(({ promptIds }) => ({
  tokens: promptIds,
  maxTokens: 20,
}));

/** A decoder whose pool starts with a given number of blocks. */
class SmallDecoder implements Decoder {
  readonly limits: DecoderLimits;
  readonly sizes: number[] = [];
  readonly #decoder: Decoder;

  constructor(decoder: Decoder, numBlocks: number) {
    this.#decoder = decoder;
    this.limits = { ...decoder.limits, numBlocks, roomyBlocks: numBlocks };
  }

  run(batch: StepBatch) {
    return this.#decoder.run(batch);
  }

  async resizeCache(numBlocks: number, pool: number): Promise<boolean> {
    const isResized = await this.#decoder.resizeCache!(numBlocks, pool);
    if (isResized) this.sizes.push(numBlocks);
    return isResized;
  }

  dispose(): Promise<void> {
    return this.#decoder.dispose();
  }
}

/** Runs all prompts at once, then a second turn of each: with its answer and a few more tokens. */
async function runTurns(engine: EngineLoop): Promise<Generated[]> {
  const first = await Promise.all(PROMPTS.map((prompt) => generate(engine, prompt)));
  const second = await Promise.all(first.map(({ ids }, i) => {
    const tokens = [...PROMPTS[i]!.tokens, ...ids, ...PROMPTS[(i + 1) % 4]!.tokens];
    return generate(engine, { tokens, maxTokens: 20 });
  }));
  return [...first, ...second];
}

async function open(backend: Backend): Promise<Decoder> {
  const folder = await openFolder(FOLDER);
  const options = { backend, dtype: "fp32", engine: { prefixCache: true } } as const;
  return (await loadDecoder(makeContext(folder, options))).decoder;
}

async function assertSameWhileResized(backend: Backend): Promise<void> {
  const decoder = await open(backend);
  const wanted = await runTurns(new EngineLoop(decoder, { prefixCache: true }));
  assert(await decoder.resizeCache!(3, 0), "smaller");
  const small = new SmallDecoder(decoder, 3);
  const engine = new EngineLoop(small, { prefixCache: true });
  const got = await runTurns(engine);
  got.forEach(({ ids }, i) => assert.deepEqual(ids, wanted[i]!.ids, `request ${i}`));
  assert(small.sizes.length >= 2, `the pool grew to ${small.sizes}`);
  assert.equal(await readMetric(engine, "hearth_preemptions_total"), 0);
  // The second turn found the first one's keys, which had been moved.
  assert(got.slice(4).every(({ numCachedTokens }) => numCachedTokens > 0));
  await decoder.dispose();
}

Deno.test("a decoder's KV cache on the CPU grows and shrinks, and tokens stay the same", () =>
  assertSameWhileResized(new CpuBackend()));

gpuTest(
  "a decoder's KV cache on WebGPU grows and shrinks, and tokens stay the same",
  async (gpu) => await assertSameWhileResized(await WebGpuBackend.create(gpu)),
);

/** The device, with no more memory while `isFull` returns true: buffers are created, and the error is reported. */
function fullWhen(gpu: GpuContext, isFull: () => boolean): GpuContext {
  const scopes: { readonly filter: GPUErrorFilter; failed: boolean }[] = [];
  const { device } = gpu;
  const changed = {
    pushErrorScope(filter: GPUErrorFilter) {
      scopes.push({ filter, failed: false });
      device.pushErrorScope(filter);
    },
    createBuffer(descriptor: GPUBufferDescriptor) {
      const scope = scopes.findLast(({ filter }) => filter === "out-of-memory");
      if (scope !== undefined) scope.failed ||= isFull();
      return device.createBuffer(descriptor);
    },
    async popErrorScope() {
      const { failed } = scopes.pop()!;
      const error = await device.popErrorScope();
      return failed ? new GPUOutOfMemoryError("out of memory") : error;
    },
  };
  return {
    ...gpu,
    device: new Proxy(device, {
      get(target, name) {
        const value = Reflect.get(name in changed ? changed : target, name);
        return typeof value === "function" && !(name in changed) ? value.bind(target) : value;
      },
    }),
  };
}

gpuTest(
  "a device that refuses memory for keys and values continues with the existing pool",
  async (gpu) => {
    let isFull = false;
    const backend = await WebGpuBackend.create(fullWhen(gpu, () => isFull));
    const decoder = await open(backend);
    const wanted = await runTurns(new EngineLoop(decoder, { prefixCache: true }));
    assert(await decoder.resizeCache!(10, 0));
    isFull = true;
    const small = new SmallDecoder(decoder, 10);
    const engine = new EngineLoop(small, { prefixCache: true });
    const got = await runTurns(engine);
    got.forEach(({ ids }, i) => assert.deepEqual(ids, wanted[i]!.ids, `request ${i}`));
    assert.deepEqual(small.sizes, []);
    await assert.rejects(
      generate(engine, { tokens: new Array<number>(200).fill(5), maxTokens: 1 }),
      { kind: "context_length_exceeded", message: /maximum context length is 161 tokens/ },
    );
    isFull = false;
    await decoder.dispose();
  },
);
