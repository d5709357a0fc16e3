/** A step of a cut decoder waits for the GPU only once, for its tokens, however its graph computes positions. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../src/device/backend.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { GREEDY, type StepBatch } from "../../src/decoder/decoder.ts";
import { openPagedDecoder } from "../../src/decoder/open_paged_decoder.ts";
import type { PagedDecoder } from "../../src/decoder/paged_decoder.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { cutGraph } from "../../src/graph/cut/cut_graph.ts";
import { countCalls } from "../fixtures/engine/count_calls.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";

const EXPORTS = fileURLToPath(new URL("../fixtures/graphs/exports", import.meta.url));
const CONTEXT_LENGTH = 32;
const BLOCK_SIZE = 16;

async function openDecoder(
  backend: Backend,
  name: string,
  onProgress: (fraction: number) => void = () => {},
): Promise<PagedDecoder> {
  await using files = new FolderFiles(EXPORTS);
  const model = await readModel(files, `${name}.onnx`);
  const result = cutGraph(model, { contextLength: CONTEXT_LENGTH });
  assert.ok("cut" in result, JSON.stringify(result));
  const { cut } = result;
  return await openPagedDecoder({
    ...{ backend, cut, files },
    limits: {
      contextLength: CONTEXT_LENGTH,
      vocabSize: cut.output.width,
      maxSequences: 1,
      maxBatchTokens: CONTEXT_LENGTH,
      numBlocks: CONTEXT_LENGTH / BLOCK_SIZE,
      blockSize: BLOCK_SIZE,
      sharesBlocks: false,
    },
    openEmbedding: () => Promise.reject(new Error("The graph takes ids.")),
    onProgress,
  });
}

/** Tokens of one sequence from `start` on. */
function makeStep(start: number, numTokens: number): StepBatch {
  return {
    sequences: [{ sequenceId: 0, sample: { params: GREEDY, tokenIndex: 0, topLogprobs: 0 } }],
    numTokens,
    tokenIds: Int32Array.from({ length: numTokens }, (_, i) => 1 + start + i),
    positions: Int32Array.from({ length: numTokens }, (_, i) => start + i),
    queryStarts: Int32Array.of(0, numTokens),
    kvLengths: Int32Array.of(start + numTokens),
    blockTables: Int32Array.of(0, 1),
    maxBlocksPerSequence: 2,
  };
}

// Rotary angles in basic operators: from given positions, and from positions counted in the graph.
for (const name of ["llama_script_17", "gemma2_script_17", "qwen3_dynamo_18"]) {
  gpuTest(`PagedDecoder.run() waits for the GPU once, ${name}`, async (gpu) => {
    const decoder = await openDecoder(await WebGpuBackend.create(gpu), name);
    await decoder.run(makeStep(0, 4));
    using map = countCalls(GPUBuffer.prototype, "mapAsync");
    await decoder.run(makeStep(4, 1));
    assert.equal(map.count, 1);
    await decoder.dispose();
  });
}

gpuTest(
  "on a GPU, a decoder opens sessions only for segments that are not compiled",
  async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    for (
      const [name, numSessions] of [["llama_script_17", 0], ["gpt_neox_dynamo_18", 2]] as const
    ) {
      using sessions = countCalls(WebGpuBackend.prototype, "openModel");
      const decoder = await openDecoder(backend, name);
      assert.equal(sessions.count, numSessions);
      await decoder.dispose();
    }
  },
);

gpuTest("openPagedDecoder() reports the loaded share, up to 1", async (gpu) => {
  const told: number[] = [];
  const backend = await WebGpuBackend.create(gpu);
  const decoder = await openDecoder(backend, "llama_script_17", (share) => told.push(share));
  assert.equal(told.at(-1), 1);
  assert.deepEqual(told, told.toSorted((a, b) => a - b));
  await decoder.dispose();
});
