/** Decoders that read sound, images or texts to embed run their small steps in our kernels as those of chat do. */
import assert from "node:assert/strict";
import { WebGpuBackend } from "../../src/backend/webgpu.ts";
import { EncoderDecoder } from "../../src/decoder/encoder_decoder.ts";
import { GREEDY } from "../../src/decoder/decoder.ts";
import { PagedDecoder } from "../../src/decoder/paged_decoder.ts";
import { RowDecoder } from "../../src/decoder/row_decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/decoder.ts";
import { loadEncoderDecoder } from "../../src/models/encoder_decoder_load.ts";
import { Tensor } from "../../src/onnx/runtime/ort.ts";
import { countCalls } from "../fixtures/count_calls.ts";
import { generate } from "../fixtures/generate.ts";
import { findModelFolder } from "../fixtures/goldens.ts";
import { gpuTest } from "../fixtures/gpu.ts";
import { contextOf } from "../fixtures/open_folder.ts";
import { assertAlike, countStep, promptOf, TIES } from "../fixtures/small_steps.ts";
import { makeNormal } from "../kernels/exact_sampling.ts";

const NUM_PLACES = 100;
const WIDTH = 128;

/** What an encoder would have made of a window of sound. */
interface Window {
  readonly hidden: Float32Array;
}

function windowOf(seed: number): Window {
  const normal = makeNormal(seed);
  return { hidden: new Float32Array(NUM_PLACES * WIDTH).map(() => normal()) };
}

async function openSpeechDecoder(
  gpu: GpuContext,
  dtype: "fp32" | "fp16",
): Promise<EncoderDecoder<Window>> {
  const folder = await openFolder(findModelFolder("hearth-demo-asr")!);
  const decoder = await loadEncoderDecoder<Window>({
    ...contextOf(folder, { backend: await WebGpuBackend.create(gpu), dtype, kind: "asr" }),
    vocabSize: 2284,
    contextLength: 64,
    numPositions: NUM_PLACES,
    maxSequences: 8,
    encoder: {
      maxInputs: 1,
      encode: ([input]) =>
        Promise.resolve(new Tensor("float32", input!.hidden, [1, NUM_PLACES, WIDTH])),
    },
  });
  assert.ok(decoder instanceof EncoderDecoder);
  return decoder;
}

/** Of the segments, of two attentions to the own tokens, of two to the sound, and of the sampler. */
const SPEECH = [["fp32", 15 + 4 + 2 + 1], ["fp16", 24 + 4 + 2 + 1]] as const;

for (const [dtype, dispatches] of SPEECH) {
  gpuTest(
    `a step of hearth-demo-asr ${dtype} is ${dispatches} dispatches in one submit`,
    async (gpu) => {
      const decoder = await openSpeechDecoder(gpu, dtype);
      const engine = new EngineLoop(decoder, { prefixCache: false });
      const prompt = { tokens: promptOf(1), encoderInput: windowOf(1) };
      assert.deepEqual(await countStep(engine, prompt), { dispatches, submits: 1 });
      decoder.limitCompiledRows(0);
      const before = await countStep(engine, prompt);
      assert.ok(before.dispatches > dispatches, `${before.dispatches} dispatches`);
      assert.ok(before.submits >= 5, `${before.submits} submits`);
      await decoder.dispose();
    },
  );

  gpuTest(
    `hearth-demo-asr ${dtype} writes the same alone, among 8 and across the crossover`,
    async (gpu) => {
      const decoder = await openSpeechDecoder(gpu, dtype);
      const engine = new EngineLoop(decoder, { prefixCache: false });
      const windows = Array.from({ length: 8 }, (_, seed) => windowOf(seed + 1));
      const write = async (seed: number) =>
        (await generate(engine, {
          tokens: promptOf(seed),
          maxTokens: 16,
          topLogprobs: 2,
          encoderInput: windows[seed]!,
        })).tokens;
      const seeds = [...windows.keys()];
      const together = await Promise.all(seeds.map(write));
      const alone = await write(3);
      assert.deepEqual(alone.map(({ tokenId }) => tokenId), together[3]!.map((t) => t.tokenId));
      for (const limit of [64, 4, 0]) {
        decoder.limitCompiledRows(limit);
        const others = await Promise.all(seeds.map(write));
        others.forEach((tokens, i) => assertAlike(tokens, together[i]!, TIES[dtype]));
      }
      await decoder.calibrate(windows[0]!);
      assertAlike(await write(3), alone, TIES[dtype]);
      await decoder.dispose();
    },
  );
}

gpuTest("a step of hearth-demo-vision's decoder is 32 dispatches in one submit", async (gpu) => {
  const folder = await openFolder(findModelFolder("hearth-demo-vision")!);
  const backend = await WebGpuBackend.create(gpu);
  const { decoder } = await loadDecoder(contextOf(folder, { backend, dtype: "q4" }));
  assert.ok(decoder instanceof PagedDecoder);
  const engine = new EngineLoop(decoder, { prefixCache: false });
  // 21 of the segments, ten of five attentions, one of the sampler.
  assert.deepEqual(await countStep(engine, { tokens: promptOf(1) }), {
    dispatches: 32,
    submits: 1,
  });
  await decoder.dispose();
});

gpuTest(
  "a decoder's rows for short texts come from our kernels, with two runs' submits",
  async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    const folder = await openFolder(findModelFolder("hearth-demo-chat")!);
    const { decoder } = await loadDecoder(contextOf(folder, { backend, dtype: "q4" }));
    assert.ok(decoder instanceof PagedDecoder);
    const rows = await RowDecoder.open(backend, decoder, [5, 1999]);
    const ask = async (numTokens: number) => {
      using dispatches = countCalls(GPUComputePassEncoder.prototype, "dispatchWorkgroups");
      using submits = countCalls(GPUQueue.prototype, "submit");
      const [token] = await rows.run({
        sequences: [{ sequenceId: 1, sample: { params: GREEDY, tokenIndex: 0, topLogprobs: 0 } }],
        numTokens,
        tokenIds: Int32Array.from({ length: numTokens }, (_, i) => 7 * i + 3),
        positions: Int32Array.from({ length: numTokens }, (_, i) => i),
        queryStarts: Int32Array.of(0, numTokens),
        kvLengths: Int32Array.of(numTokens),
        blockTables: Int32Array.of(0, 1, 2, 3),
        maxBlocksPerSequence: 4,
      });
      return { row: token!.row, dispatches: dispatches.count, submits: submits.count };
    };
    await ask(9);
    const short = await ask(9);
    decoder.limitCompiledRows(0);
    await ask(9);
    const whole = await ask(9);
    assert.equal(short.row.length, 2);
    // What was recorded, ONNX Runtime's choice of the columns, the copy that is read.
    assert.equal(short.submits, 3);
    assert.ok(whole.submits >= 10, `${whole.submits} submits`);
    assert.ok(
      2 * short.dispatches < whole.dispatches,
      `${short.dispatches} of ${whole.dispatches}`,
    );
    short.row.forEach((x, i) => assert.ok(Math.abs(x - whole.row[i]!) < 1e-3, `${x}`));
    await rows.dispose();
  },
);
