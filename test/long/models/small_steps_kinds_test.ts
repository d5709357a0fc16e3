/** Decoders of speech, images and embeddings run their small steps in our kernels, like those of chat. */
import assert from "node:assert/strict";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import { type Decoder, GREEDY } from "../../../src/decoder/decoder.ts";
import { type KernelRule, WITHOUT_KERNELS } from "../../../src/decoder/kernel_rule.ts";
import { PagedDecoder } from "../../../src/decoder/paged_decoder.ts";
import { RowReader, type RowToken } from "../../../src/models/embedding/decoder_texts.ts";
import { EngineLoop } from "../../../src/engine/loop.ts";
import { openFolder } from "../../../src/hub/model_folder.ts";
import { type DecoderLoadOptions, loadDecoder } from "../../../src/models/folder/decoder_load.ts";
import { SMALL_QWEN3, writeQwen3 } from "../../bench/real/qwen3.ts";
import {
  makeEncoded,
  OCR,
  openEncoderDecoder,
  SPEECH,
} from "../../fixtures/models/encoded_decoder.ts";
import { generate } from "../../fixtures/engine/generate.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { makeContext } from "../../fixtures/engine/open_folder.ts";
import {
  countCosts,
  countStep,
  makePrompt,
  type StepCounts,
  TIES,
  Ties,
} from "../../fixtures/engine/small_steps.ts";
import { makeTinyOcr, type TinyOcrFamily } from "../../fixtures/models/tiny_ocr.ts";

/** Counts of a step in our kernels, and of one in ONNX Runtime. */
interface Costs {
  readonly ours: StepCounts;
  readonly ort: StepCounts;
}

const SMALLEST_VOCAB = 256;

/** Asserts the counts of a step of one token. */
async function assertSteps(
  open: (rule?: KernelRule) => Promise<Decoder>,
  { ours, ort }: Costs,
  encoderInput?: object,
): Promise<void> {
  const tokens = makePrompt(1).map((token) => token % SMALLEST_VOCAB);
  const prompt = { tokens, ...encoderInput && { encoderInput } };
  for (const [rule, costs] of [[undefined, ours], [WITHOUT_KERNELS, ort]] as const) {
    const decoder = await open(rule);
    const engine = new EngineLoop(decoder, { prefixCache: false });
    assert.deepEqual(await countStep(engine, prompt), costs);
    await decoder.dispose();
  }
}

/** Opens a decoder, and asserts that it is cut. */
async function openPaged(options: DecoderLoadOptions): Promise<PagedDecoder> {
  const { decoder } = await loadDecoder(options);
  assert.ok(decoder instanceof PagedDecoder);
  return decoder;
}

/**
 * Dispatches in our kernels: of segments, attentions to the text's own tokens, attentions to the sound, and the
 * sampler.
 */
const SPEECH_STEPS = [
  { dtype: "fp32", dispatches: 15 + 4 + 2 + 1, before: 39, most: 0 },
  { dtype: "fp16", dispatches: 24 + 4 + 2 + 1, before: 52, most: 4 },
] as const;

for (const { dtype, dispatches, before, most } of SPEECH_STEPS) {
  gpuTest(
    `a step of hearth-demo-asr ${dtype} has ${dispatches} dispatches in one submit; its texts are the same alone, among 8 and in ONNX Runtime, except at most ${most} ties below ${
      TIES[dtype]
    }`,
    async (gpu) => {
      const backend = await WebGpuBackend.create(gpu);
      const speech = { ...SPEECH, dtype };
      const folder = findModelFolder("hearth-demo-asr")!;
      const decoder = await openEncoderDecoder(backend, folder, speech);
      const byOrt = await openEncoderDecoder(backend, folder, { ...speech, rule: WITHOUT_KERNELS });
      const [engine, ort] = [decoder, byOrt].map((each) =>
        new EngineLoop(each, { prefixCache: false })
      ) as [EngineLoop, EngineLoop];
      const prompt = { tokens: makePrompt(1), encoderInput: makeEncoded(1, speech) };
      assert.deepEqual(await countStep(engine, prompt), { dispatches, submits: 1, runs: 0 });
      assert.deepEqual(await countStep(ort, prompt), { dispatches: before, submits: 10, runs: 5 });
      const windows = Array.from({ length: 8 }, (_, seed) => makeEncoded(seed + 1, speech));
      const write = async (seed: number, by = engine) =>
        (await generate(by, {
          tokens: makePrompt(seed),
          maxTokens: 16,
          topLogprobs: 2,
          encoderInput: windows[seed]!,
        })).tokens;
      const seeds = [...windows.keys()];
      const together = await Promise.all(seeds.map((seed) => write(seed)));
      const alone = await write(3);
      assert.deepEqual(alone.map(({ tokenId }) => tokenId), together[3]!.map((t) => t.tokenId));
      const ties = new Ties(TIES[dtype]);
      const others = await Promise.all(seeds.map((seed) => write(seed, ort)));
      others.forEach((tokens, i) => ties.compare(tokens, together[i]!));
      ties.requireAtMost(most);
      await decoder.dispose();
      await byOrt.dispose();
    },
  );
}

const ORT_OF_TWO_LAYERS = { submits: 10, runs: 5 };

/** Decoders of two layers that read images. GPT-2's is absent: it attends to images without a cache, and is not cut. */
const OCR_STEPS: readonly (readonly [TinyOcrFamily, Costs])[] = [
  ["trocr", {
    ours: { dispatches: 28, submits: 1, runs: 0 },
    ort: { ...ORT_OF_TWO_LAYERS, dispatches: 39 },
  }],
  // Donut's vocabulary is not a multiple of four: the projection needs one more dispatch.
  ["donut", {
    ours: { dispatches: 29, submits: 1, runs: 0 },
    ort: { ...ORT_OF_TWO_LAYERS, dispatches: 40 },
  }],
  ["florence", {
    ours: { dispatches: 28, submits: 1, runs: 0 },
    ort: { ...ORT_OF_TWO_LAYERS, dispatches: 39 },
  }],
];

for (const [family, costs] of OCR_STEPS) {
  gpuTest(
    `a step of a decoder in ${family}'s layout has ${costs.ours.dispatches} dispatches in one submit`,
    async (gpu) => {
      await using made = await makeTinyOcr(family);
      const backend = await WebGpuBackend.create(gpu);
      const open = (rule?: KernelRule) =>
        openEncoderDecoder(backend, made.folder, { ...OCR, ...rule && { rule } });
      await assertSteps(open, costs, makeEncoded(1, OCR));
    },
  );
}

gpuTest("a step of hearth-demo-vision's decoder has 32 dispatches in one submit", async (gpu) => {
  const folder = await openFolder(findModelFolder("hearth-demo-vision")!);
  const backend = await WebGpuBackend.create(gpu);
  const context = makeContext(folder, { backend, dtype: "q4" });
  await assertSteps((rule) => openPaged({ ...context, ...rule && { rule } }), {
    // 21 for the segments, ten for five attentions, one for the sampler.
    ours: { dispatches: 32, submits: 1, runs: 0 },
    ort: { dispatches: 75, submits: 12, runs: 6 },
  });
});

const NUM_LAYERS = 3;

gpuTest("a step of 3 layers in Qwen3's layout has 20 dispatches in one submit", async (gpu) => {
  const path = await Deno.makeTempDir({ prefix: "hearth-qwen3-" });
  await writeQwen3(path, { sizes: { ...SMALL_QWEN3, layers: NUM_LAYERS }, dtypes: ["q4f16"] });
  const backend = await WebGpuBackend.create(gpu);
  const context = makeContext(await openFolder(path), { backend });
  await assertSteps((rule) => openPaged({ ...context, ...rule && { rule } }), {
    // Four for each layer and two for its attention, one before the layers, and one for the sampler.
    ours: { dispatches: NUM_LAYERS * 6 + 2, submits: 1, runs: 0 },
    ort: { dispatches: NUM_LAYERS * 14 + 5, submits: 2 * NUM_LAYERS + 2, runs: NUM_LAYERS + 1 },
  });
  await Deno.remove(path, { recursive: true });
});

/** Counts of one text, and its result. */
async function countRow(
  rows: PagedDecoder<RowToken>,
): Promise<{ readonly costs: StepCounts; readonly row: Float32Array }> {
  const numTokens = 9;
  let row = new Float32Array();
  const ask = async () => {
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
    row = token!.row.slice();
  };
  await ask();
  return { costs: await countCosts(ask), row };
}

/** Costs of a text of nine tokens. If only some columns are requested, a run of ONNX Runtime selects them. */
const TEXT_STEPS: Readonly<Record<string, Costs & { readonly columns?: readonly number[] }>> = {
  reranker: {
    ours: { dispatches: 23, submits: 3, runs: 1 },
    ort: { dispatches: 48, submits: 9, runs: 5 },
    columns: [5, 1999],
  },
  embedder: {
    ours: { dispatches: 21, submits: 1, runs: 0 },
    ort: { dispatches: 45, submits: 8, runs: 4 },
  },
};

for (const [kind, { columns, ...costs }] of Object.entries(TEXT_STEPS)) {
  gpuTest(
    `a short text of ${
      kind === "embedder" ? "an" : "a"
    } ${kind} in Qwen3's layout is ${costs.ours.dispatches} dispatches`,
    async (gpu) => {
      const path = await Deno.makeTempDir({ prefix: "hearth-qwen3-" });
      await writeQwen3(path, {
        sizes: { ...SMALL_QWEN3, layers: 3 },
        dtypes: ["q4f16"],
        givesHidden: columns === undefined,
      });
      const backend = await WebGpuBackend.create(gpu);
      const context = makeContext(await openFolder(path), { backend });
      const count = async (rule?: KernelRule) => {
        const decoder = await openPaged({ ...context, ...rule && { rule }, readsRows: true });
        const reader = await RowReader.open(backend, decoder.output, columns);
        const rows = await decoder.withSampler(reader);
        const counted = await countRow(rows);
        await rows.dispose();
        return counted;
      };
      const [ours, ort] = [await count(), await count(WITHOUT_KERNELS)];
      assert.deepEqual({ ours: ours.costs, ort: ort.costs }, costs);
      const most = Math.max(...ort.row.map(Math.abs));
      ours.row.forEach((x, i) => assert.ok(Math.abs(x - ort.row[i]!) < 1e-2 * most, `${x}`));
      await Deno.remove(path, { recursive: true });
    },
  );
}
