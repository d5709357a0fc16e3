/** All segments of graphs that PyTorch exported run in our kernels, and their results equal those of ONNX Runtime. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../../src/device/backend.ts";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { loadNative } from "../../../src/device/ort/ort.ts";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import { GREEDY, type StepBatch } from "../../../src/decoder/decoder.ts";
import { WITHOUT_KERNELS } from "../../../src/decoder/kernel_rule.ts";
import { openPagedDecoder } from "../../../src/decoder/open_paged_decoder.ts";
import type { PagedDecoder } from "../../../src/decoder/paged_decoder.ts";
import { compileCut } from "../../../src/program/compile_cut.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { adaptForCpu, cutForGpu } from "../../../src/program/adapt_cut.ts";
import type { GraphCut } from "../../../src/graph/graph_cut.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { countCalls } from "../../fixtures/engine/count_calls.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { forward } from "../../fixtures/engine/steps.ts";

const FOLDER = fileURLToPath(new URL("../../fixtures/graphs/exports", import.meta.url));
/** Number of positions in the graphs' position embeddings. */
const CONTEXT = 64;
const BLOCK = 16;
const BLOCKS = CONTEXT / BLOCK;
const PROMPT = 9;
/** At this length, both sequences have been in their second block for several steps. */
const END = 22;
/** Largest allowed difference of logits, whose magnitude is about 1. */
const TOLERANCE = 2e-5;

/** Dispatches of each segment of a step: before the first attention, between attentions, and after the last. */
const EXPORTS: Readonly<Record<string, readonly number[]>> = {
  llama_script_17: [2, 4, 4],
  qwen3_dynamo_18: [1, 4, 4],
  mistral_dynamo_23: [1, 4, 4],
  opt_script_17: [3, 4, 4],
  gpt2_script_17: [3, 4, 4],
  // A part of each head is rotated, or adjacent elements are.
  phi3_script_17: [2, 4, 4],
  stablelm_dynamo_18: [1, 4, 4],
  gpt_neox_dynamo_18: [3, 5, 3],
  cohere_dynamo_18: [3, 5, 3],
  gptj_script_17: [3, 5, 3],
  // Also has norms after attention and MLP: the next product computes the sum with the residual, and writes it.
  gemma2_script_17: [2, 4, 4],
  gemma3_dynamo_18: [2, 4, 4],
  glm4_dynamo_18: [1, 4, 4],
  // The attention computes the norms of all queries and of all keys of a token.
  olmo2_dynamo_18: [1, 4, 4],
  // Mixtures of experts end segments too. Like those of attentions, their dispatches are not counted.
  qwen3_moe_dynamo_18: [1, 3, 2, 3, 2],
};

/** GPT-J's rotation is only supported on GPUs. */
const NOT_ON_CPU = ["gptj_script_17"];

async function readCut(files: FolderFiles, name: string): Promise<GraphCut> {
  const model = await readModel(files, `${name}.onnx`);
  const result = cutGraph(model, { contextLength: CONTEXT });
  assert.ok("cut" in result, JSON.stringify(result));
  // The attention requires heads of at least 8 elements: two identical ones of 4 are joined.
  const attentions = result.cut.attentions.map((node) =>
    node.headDim === 4 ? { ...node, heads: 2, kvHeads: 2, headDim: 8, vHeadDim: 8 } : node
  );
  return { ...result.cut, attentions };
}

const tokenAt = (sequence: number, position: number) => (7 + 5 * sequence + 11 * position) % 29;

/** Tokens `from` to `to` of two sequences, the second one two tokens shorter, in the blocks from `firstBlock` on. */
function makeStep(
  { from, to, firstBlock, isDecoding = false }: {
    readonly from: number;
    readonly to: number;
    readonly firstBlock: number;
    readonly isDecoding?: boolean;
  },
): StepBatch {
  const spans = [[from, to], [Math.max(0, from - 2), to - 2]] as const;
  const positions = spans.flatMap(([start, end]) =>
    Array.from({ length: end - start }, (_, i) => start + i)
  );
  const first = to - from;
  const sample = { params: GREEDY, tokenIndex: 0, topLogprobs: 0 };
  return {
    sequences: [0, 1].map((sequenceId) => ({ sequenceId, isDecoding, sample })),
    numTokens: positions.length,
    tokenIds: Int32Array.from(positions, (position, i) => tokenAt(i < first ? 0 : 1, position)),
    positions: Int32Array.from(positions),
    queryStarts: Int32Array.of(0, first, positions.length),
    kvLengths: Int32Array.from(spans, ([, end]) => end),
    blockTables: Int32Array.from({ length: 2 * BLOCKS }, (_, i) => firstBlock + i),
    maxBlocksPerSequence: BLOCKS,
  };
}

async function open(
  backend: Backend,
  options: Pick<Parameters<typeof openPagedDecoder>[0], "files" | "cut" | "rule">,
): Promise<PagedDecoder> {
  return await openPagedDecoder({
    ...{ backend, ...options },
    limits: {
      ...{ contextLength: CONTEXT, vocabSize: options.cut.output.width, maxSequences: 2 },
      ...{ maxBatchTokens: 32, numBlocks: 6 * BLOCKS, blockSize: BLOCK, sharesBlocks: false },
    },
    openEmbedding: () => Promise.reject(new Error("The graph has its own.")),
    onProgress: () => {},
  });
}

for (const [name, counts] of Object.entries(EXPORTS)) {
  gpuTest(`${name} runs in our kernels and equals ONNX Runtime`, async (gpu) => {
    await using files = new FolderFiles(FOLDER);
    const cut = cutForGpu(await readCut(files, name), Infinity);
    const compiled = compileCut(cut, {
      takesLayout: () => true,
      contextLength: CONTEXT,
      writesSums: true,
    });
    assert.deepEqual(
      compiled.map((each) => "refused" in each ? each.refused : each.few.dispatches.length),
      counts,
    );
    const backend = await WebGpuBackend.create(gpu);
    const byOrt = await open(backend, { files, cut, rule: WITHOUT_KERNELS });
    const decoder = await open(backend, { files, cut });
    const makeLogits = async (decoder: PagedDecoder, step: StepBatch) => {
      const encoded = await forward(decoder, step);
      // The read submits the recorded commands.
      gpu.commands.submit();
      return await backend.read(encoded!);
    };
    for (let at = PROMPT; at < END; at++) {
      const from = at === PROMPT ? 0 : at - 1;
      const want = await makeLogits(byOrt, makeStep({ from, to: at, firstBlock: 0 }));
      assert.equal(want.length, 2 * cut.output.width);
      // Kernels for few rows run the tokens after the prompt; in other blocks, kernels for many rows run them again.
      for (const [firstBlock, isDecoding] of [[0, from > 0], [2 * BLOCKS, false]] as const) {
        using submits = countCalls(GPUQueue.prototype, "submit");
        const got = await makeLogits(decoder, makeStep({ from, to: at, firstBlock, isDecoding }));
        assert.ok(submits.count <= 2, `${submits.count} submits`);
        const off = Math.max(...got.map((x, i) => Math.abs(x - want[i]!)));
        assert.ok(off <= TOLERANCE, `off by ${off} at ${at} tokens`);
      }
    }
    await byOrt.dispose();
    await decoder.dispose();
  });
}

/** Graphs whose segments all run in the CPU's kernels: their heads are rotated before the attention. */
const ON_CPU = Object.keys(EXPORTS).filter((name) => !NOT_ON_CPU.includes(name));

for (const name of ON_CPU) {
  Deno.test(`${name} runs in our kernels on the CPU and equals ONNX Runtime`, async () => {
    await using files = new FolderFiles(FOLDER);
    const cut = adaptForCpu(await readCut(files, name));
    const backend = await CpuBackend.open({ threads: 1 });
    const { InferenceSession } = await loadNative();
    const sessions = InferenceSession as unknown as {
      readonly prototype: Record<"run", (...args: never[]) => unknown>;
    };
    const byOrt = await open(backend, { files, cut, rule: WITHOUT_KERNELS });
    const decoder = await open(backend, { files, cut });
    const makeLogits = async (decoder: PagedDecoder, step: StepBatch) =>
      await backend.read((await forward(decoder, step))!);
    for (let at = PROMPT; at < END; at++) {
      const isDecoding = at > PROMPT;
      const step = makeStep({ from: isDecoding ? at - 1 : 0, to: at, firstBlock: 0, isDecoding });
      const want = (await makeLogits(byOrt, step)).slice();
      using runs = countCalls(sessions.prototype, "run");
      const got = await makeLogits(decoder, step);
      if (isDecoding) assert.equal(runs.count, 0);
      const off = Math.max(...got.map((x, i) => Math.abs(x - want[i]!)));
      assert.ok(off <= TOLERANCE, `off by ${off} at ${at} tokens`);
    }
    await byOrt.dispose();
    await decoder.dispose();
    await backend.dispose();
  });
}
