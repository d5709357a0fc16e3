/**
 * A decoder whose tokens have an input for each of its layers (Gemma 3n and 4) is cut, and equals ONNX Runtime over the
 * whole graph: in small chunks, in a batch, and after a prefix from the cache.
 */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { Tensor } from "../../src/device/ort/ort.ts";
import { WholeDecoder } from "../../src/decoder/whole_decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { writeModel } from "../../src/graph/file/proto_codec.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { openEmbeddingGraph } from "../../src/models/folder/graph_file.ts";
import { generate, type Prompt } from "../fixtures/engine/generate.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { quantizeBlocks } from "../fixtures/graphs/quantize_blocks.ts";
import { makeVisionFolder, TINY } from "../fixtures/models/vision/vision_folder.ts";

const PROMPTS: readonly Prompt[] = [2, 9, 30, 53].map((length, seed) => ({
  tokens: Array.from({ length }, (_, i) => 3 + (seed * 97 + i * 37) % 1900),
  maxTokens: 16,
}));

/** Answers of the whole graph, also to a second turn of each. */
async function readGoldens(path: string): Promise<number[][]> {
  const backend = new CpuBackend();
  const context = makeContext(await openFolder(path), { backend, dtype: "fp32" });
  await using files = new FolderFiles(`${path}/onnx`);
  const decoder = await WholeDecoder.load({
    ...{ backend, files, model: await readModel(files, "decoder_model_merged.onnx") },
    contextLength: TINY.contextLength,
    vocabSize: TINY.decoder.vocab,
    openEmbedding: () => openEmbeddingGraph(context),
  });
  const engine = new EngineLoop(decoder, { prefixCache: false });
  const goldens: number[][] = [];
  for (const prompt of PROMPTS) goldens.push([...(await generate(engine, prompt)).ids]);
  for (const prompt of secondTurns(goldens)) {
    goldens.push([...(await generate(engine, prompt)).ids]);
  }
  await decoder.dispose();
  return goldens;
}

function secondTurns(answers: readonly (readonly number[])[]): Prompt[] {
  return PROMPTS.map(({ tokens }, i) => ({
    tokens: [...tokens, ...answers[i]!, 5, 6, 7],
    maxTokens: 8,
  }));
}

/** Quantises both tables of the embedding graph, as in exports of models that were trained for quantisation. */
async function quantizeTables(path: string): Promise<void> {
  await using files = new FolderFiles(`${path}/onnx`);
  const model = await readModel(files, "embed_tokens.onnx");
  const form = { bits: 4, blockSize: 16, hasZeroPoints: true, hasTable: true } as const;
  const { quantized } = await quantizeBlocks(model, files, form);
  const lookups = quantized.graph.nodes.filter(({ opType }) => opType === "GatherBlockQuantized");
  assert.equal(lookups.length, 2);
  const operatorSets = [...model.operatorSets, { domain: "com.microsoft", version: 1 }];
  await Deno.writeFile(
    `${path}/onnx/embed_tokens.onnx`,
    writeModel({ ...quantized, operatorSets }),
  );
}

async function assertGolden(backend: Backend, isQuantized = false): Promise<void> {
  await using folder = await makeVisionFolder("gemma4");
  if (isQuantized) await quantizeTables(folder.path);
  const goldens = await readGoldens(folder.path);
  const engineSettings = { prefixCache: true, maxBatchTokens: 24 };
  const options = { backend, dtype: "fp32", engine: engineSettings } as const;
  const { decoder } = await loadDecoder(makeContext(await openFolder(folder.path), options));
  assert.ok(decoder.limits.maxSequences > 1, "the decoder was not cut");
  const engine = new EngineLoop(decoder, { prefixCache: true });
  const first = await Promise.all(PROMPTS.map((prompt) => generate(engine, prompt)));
  const answers = first.map(({ ids }) => [...ids]);
  assert.deepEqual(answers, goldens.slice(0, 4), "in a batch of four");
  const second = await Promise.all(
    secondTurns(answers).map((prompt) => generate(engine, prompt)),
  );
  assert.deepEqual(second.map(({ ids }) => [...ids]), goldens.slice(4), "a second turn");
  const numCached = second.reduce((sum, each) => sum + each.numCachedTokens, 0);
  assert.ok(numCached > 100, `${numCached} tokens of prefixes`);
  await decoder.dispose();
}

Deno.test("loadDecoder() cuts a decoder with inputs for each layer, on the CPU", () =>
  assertGolden(new CpuBackend()));

gpuTest(
  "loadDecoder() cuts a decoder with inputs for each layer, on WebGPU",
  async (gpu) => await assertGolden(await WebGpuBackend.create(gpu)),
);

Deno.test("loadDecoder() supports two quantized tables in one embedding graph, on the CPU", () =>
  assertGolden(new CpuBackend(), true));

gpuTest(
  "loadDecoder() supports two quantized tables in one embedding graph, on WebGPU",
  async (gpu) => await assertGolden(await WebGpuBackend.create(gpu), true),
);

gpuTest("openModel() supports 4-bit tables with zero points in bytes, on WebGPU", async (gpu) => {
  await using folder = await makeVisionFolder("gemma4");
  await quantizeTables(folder.path);
  await using files = new FolderFiles(`${folder.path}/onnx`);
  const model = await readModel(files, "embed_tokens.onnx");
  const ids = BigInt64Array.from({ length: 40 }, (_, i) => BigInt(i * 51));
  const [expected, actual] = await Promise.all(
    [new CpuBackend(), await WebGpuBackend.create(gpu)].map(async (backend) => {
      const session = await backend.openModel(model, files);
      const rows = await session.run({ input_ids: new Tensor("int64", ids, [1, ids.length]) });
      const values = [];
      for (const { name } of session.outputs) values.push(await backend.read(rows[name]!));
      await session.release();
      return values;
    }),
  );
  assert.deepEqual(actual, expected);
});
