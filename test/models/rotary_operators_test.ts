/**
 * Rotations as operators of their own, by a token's position or by three of them (Qwen2-VL, Qwen3-VL, Qwen3.5), run in our
 * kernels and give what ONNX Runtime gives over the whole graph, on both devices.
 */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { loadNative } from "../../src/device/ort/ort.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { compileForCpu, compileForGpu } from "../../src/cli/cut_report.ts";
import { GREEDY, type StepBatch } from "../../src/decoder/decoder.ts";
import { openPagedDecoder } from "../../src/decoder/open_paged_decoder.ts";
import { splitGraph } from "../../src/graph/cut/split.ts";
import type { GraphCut } from "../../src/graph/graph_cut.ts";
import { cutForGpu } from "../../src/program/adapt_cut.ts";
import { decodeModel } from "../fixtures/graphs/decode_model.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { constant } from "../fixtures/graphs/onnx_builder.ts";
import { forward } from "../fixtures/engine/steps.ts";
import {
  decoder,
  type DecoderBuilder,
  inMemory,
  lengths,
  MASK,
  projections,
  SIZES,
} from "../unit/graph/test_decoder.ts";

const SIZE = { ...SIZES, hidden: 32, headDim: 16 };
const POSITIONS = 64;
const NUM_TOKENS = 11;
const TOLERANCE = 2e-5;

/** A rotation. */
interface Layout {
  readonly operator: "MRotaryEmbedding" | "RotaryEmbedding";
  /** ONNX's own operator set if absent. */
  readonly domain?: "com.microsoft";
  /** Elements of a head that turn. */
  readonly turning: number;
  /** The sizes of sections, and whether they lie one after the other or in turn. */
  readonly sections?: { readonly mrope_section: number[]; readonly mrope_layout: 0 | 1 };
}

const SECTIONED = { operator: "MRotaryEmbedding", domain: "com.microsoft" } as const;

const LAYOUTS: Readonly<Record<string, Layout>> = {
  "RotaryEmbedding of ONNX": { operator: "RotaryEmbedding", turning: 16 },
  "RotaryEmbedding of ONNX, a part of each head": { operator: "RotaryEmbedding", turning: 8 },
  "RotaryEmbedding": { operator: "RotaryEmbedding", domain: "com.microsoft", turning: 16 },
  "MRotaryEmbedding, sections one after the other": {
    ...{ ...SECTIONED, turning: 16, sections: { mrope_section: [2, 3, 3], mrope_layout: 0 } },
  },
  "MRotaryEmbedding, sections in turn": {
    ...{ ...SECTIONED, turning: 16, sections: { mrope_section: [4, 2, 2], mrope_layout: 1 } },
  },
  "MRotaryEmbedding, sections in turn, a part of each head": {
    ...{ ...SECTIONED, turning: 8, sections: { mrope_section: [2, 1, 1], mrope_layout: 1 } },
  },
};

function buildGraph(
  { operator, domain, turning, sections }: Layout,
): Uint8Array<ArrayBuffer> {
  const half = turning / 2;
  const makeTable = (graph: DecoderBuilder, compute: (angle: number) => number) =>
    graph.constant(constant(
      `${compute.name}_cache`,
      [POSITIONS, half],
      Float32Array.from(
        { length: POSITIONS * half },
        (_, i) => compute(Math.floor(i / half) * 50 ** (-(i % half) / half)),
      ),
    ));
  return decoder((graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const [q, k, v] = projections(graph, layer);
    const tables = [makeTable(graph, Math.cos), makeTable(graph, Math.sin)];
    const rotate = (rows: string, count: number) =>
      graph.add(
        operator,
        domain ? [rows, "position_ids", ...tables] : [rows, ...tables, "position_ids"],
        {
          ...domain && { domain },
          attributes: { num_heads: count, rotary_embedding_dim: turning, ...sections },
        },
      );
    const parts = [rotate(q, heads), rotate(k, kvHeads), v];
    return graph.add(
      "GroupQueryAttention",
      [...parts, layer.pastKey, layer.pastValue, ...lengths(graph)],
      {
        domain: "com.microsoft",
        outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
        attributes: { num_heads: heads, kv_num_heads: kvHeads },
      },
    );
  }, {
    sizes: SIZE,
    opset: 23,
    inputs: [
      MASK,
      ["position_ids", "int64", [...sections ? [3] : [], "batch_size", "sequence_length"]],
    ],
  });
}

/** An image's tokens between those of a text: in each of a token's positions another number. */
const SECTIONS = [
  [0, 1, 2, 2, 2, 2, 4, 5, 6, 7, 8],
  [0, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8],
  [0, 1, 2, 3, 2, 3, 4, 5, 6, 7, 8],
].map((positions) => Int32Array.from(positions)) as [Int32Array, Int32Array, Int32Array];
const TOKENS = Int32Array.from({ length: NUM_TOKENS }, (_, i) => (i * 7 + 3) % SIZE.vocab);

/** The last token's logits, of ONNX Runtime over the graph as it is. */
async function runWhole(graph: Uint8Array, isSectioned: boolean): Promise<Float32Array> {
  const { InferenceSession, Tensor } = await loadNative();
  const session = await InferenceSession.create(graph);
  const { layers, kvHeads, headDim, vocab } = SIZE;
  const ints = (values: readonly number[], dims: readonly number[]) =>
    new Tensor("int64", BigInt64Array.from(values, BigInt), dims);
  const empty = () => new Tensor("float32", new Float32Array(0), [1, kvHeads, 0, headDim]);
  const feeds: Record<string, unknown> = {
    input_ids: ints([...TOKENS], [1, NUM_TOKENS]),
    attention_mask: ints(new Array(NUM_TOKENS).fill(1), [1, NUM_TOKENS]),
    position_ids: isSectioned
      ? ints(SECTIONS.flatMap((positions) => [...positions]), [3, 1, NUM_TOKENS])
      : ints([...TOKENS.keys()], [1, NUM_TOKENS]),
  };
  for (let layer = 0; layer < layers; layer++) {
    for (const kind of ["key", "value"]) feeds[`past_key_values.${layer}.${kind}`] = empty();
  }
  const { logits } = await session.run(feeds as Parameters<typeof session.run>[0]);
  const rows = (logits!.data as Float32Array).slice((NUM_TOKENS - 1) * vocab);
  await session.release();
  return rows;
}

/** Tokens `from` to `to` of the sequence. */
function makeStep(from: number, to: number, isSectioned: boolean): StepBatch {
  const part = (values: Int32Array) => values.subarray(from, to);
  return {
    sequences: [{
      sequenceId: 1,
      isDecoding: to - from === 1,
      sample: { params: GREEDY, tokenIndex: 0, topLogprobs: 0 },
    }],
    numTokens: to - from,
    tokenIds: part(TOKENS),
    positions: Int32Array.from({ length: to - from }, (_, i) => from + i),
    sectionPositions: isSectioned
      ? [part(SECTIONS[0]), part(SECTIONS[1]), part(SECTIONS[2])]
      : undefined,
    queryStarts: Int32Array.of(0, to - from),
    kvLengths: Int32Array.of(to),
    blockTables: Int32Array.of(0, 1, 2, 3),
    maxBlocksPerSequence: 4,
  };
}

async function assertLogits(backend: Backend, cut: GraphCut, graph: Uint8Array) {
  const isSectioned = cut.positions!.shape.includes(3);
  const want = await runWhole(graph, isSectioned);
  const decoder = await openPagedDecoder({
    backend,
    cut,
    files: inMemory(graph),
    limits: {
      ...{ contextLength: POSITIONS, vocabSize: SIZE.vocab, maxSequences: 2 },
      ...{ maxBatchTokens: 32, numBlocks: 8, blockSize: 16, sharesBlocks: false },
    },
    openEmbedding: () => Promise.reject(new Error("The graph has its own.")),
    onProgress: () => {},
  });
  await forward(decoder, makeStep(0, 5, isSectioned));
  for (let token = 5; token < NUM_TOKENS - 1; token++) {
    await forward(decoder, makeStep(token, token + 1, isSectioned));
  }
  const got = await backend.read(
    (await forward(decoder, makeStep(NUM_TOKENS - 1, NUM_TOKENS, isSectioned)))!,
  );
  const off = Math.max(...want.map((x, i) => Math.abs(x - got[i]!)));
  assert.ok(off <= TOLERANCE, `off by ${off}`);
  await decoder.dispose();
}

async function readCut(graph: Uint8Array): Promise<GraphCut> {
  const result = splitGraph(await decodeModel(graph), { contextLength: POSITIONS });
  assert.ok("cut" in result, JSON.stringify(result));
  return result.cut;
}

for (const [name, layout] of Object.entries(LAYOUTS)) {
  const graph = buildGraph(layout);

  Deno.test(`${name}: kernels run all segments`, async () => {
    const cut = await readCut(graph);
    for (const compiled of [compileForGpu(cut), compileForCpu(cut)]) {
      const refusals = compiled.map((segment) => "refused" in segment ? segment.refused : "");
      assert.deepEqual(new Set(refusals), new Set([""]));
    }
  });

  Deno.test(`${name}: on the CPU as in ONNX Runtime`, async () => {
    const backend = await CpuBackend.open({ threads: 1 });
    await assertLogits(backend, await readCut(graph), graph);
    await backend.dispose();
  });

  gpuTest(`${name}: on WebGPU as in ONNX Runtime`, async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    await assertLogits(backend, cutForGpu(await readCut(graph), Infinity), graph);
  });
}
