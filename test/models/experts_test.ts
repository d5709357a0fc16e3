/**
 * Mixtures of experts in Hearth's kernels, in the forms in which exporters write them, beside ONNX Runtime over the whole
 * graph: on both devices, alone and in a batch.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { splitGraph } from "../../src/graph/cut/split.ts";
import { decodeModel } from "../fixtures/decode_model.ts";
import { EXPERT_LAYERS, EXPERT_SIZES, type ExpertLayer } from "../fixtures/expert_layers.ts";
import { generate, type Generated, withEngine, withWholeEngine } from "../fixtures/generate.ts";
import { gpuTest } from "../fixtures/gpu.ts";
import { countStep } from "../fixtures/small_steps.ts";
import { decoder, lengths, projections } from "../unit/graph/test_decoder.ts";

const VOCAB = 48;
const LAYERS = 2;
const PROMPTS = [
  [1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45],
  Array.from({ length: 37 }, (_, i) => (i * 11 + 3) % VOCAB),
  [7, 7],
];

function buildGraph(layer: ExpertLayer): Uint8Array<ArrayBuffer> {
  return decoder((graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const parts = projections(graph, layer);
    const inputs = [...parts, layer.pastKey, layer.pastValue, ...lengths(graph)];
    return graph.add("GroupQueryAttention", inputs, {
      domain: "com.microsoft",
      outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: { num_heads: heads, kv_num_heads: kvHeads },
    });
  }, {
    sizes: { vocab: VOCAB, hidden: EXPERT_SIZES.hidden, layers: LAYERS },
    opset: 18,
    feedForward: layer,
  });
}

/** A folder with the graph, removed with its scope. */
async function makeFolder(graph: Uint8Array): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await Deno.makeTempDir({ prefix: "hearth-experts-" });
  await Deno.mkdir(join(path, "onnx"));
  await Deno.writeFile(join(path, "onnx/model.onnx"), graph);
  const config = {
    model_type: "qwen3_moe",
    architectures: ["Qwen3MoeForCausalLM"],
    max_position_embeddings: 128,
    vocab_size: VOCAB,
  };
  await Deno.writeTextFile(join(path, "config.json"), JSON.stringify(config));
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

const NUM_TOKENS = 8;

function answer(engine: Parameters<typeof generate>[0], tokens: readonly number[]) {
  return generate(engine, { tokens, maxTokens: NUM_TOKENS, topLogprobs: 5 });
}

/** Tokens and what they are thought to be worth. */
function assertSame(got: Generated, want: Generated, tolerance: number): void {
  assert.deepEqual(got.ids, want.ids);
  got.tokens.forEach(({ top }, i) =>
    top.forEach(({ logprob }, j) => {
      const wanted = want.tokens[i]!.top[j]!.logprob;
      const isNear = Math.abs(logprob - wanted) <= tolerance * (1 + Math.abs(wanted));
      assert.ok(isNear, `token ${i}: ${logprob}, wanted ${wanted}`);
    })
  );
}

async function assertAnswers(
  backend: Backend,
  layer: ExpertLayer,
  tolerance: number,
): Promise<void> {
  const graph = buildGraph(layer);
  await using folder = await makeFolder(graph);
  const options = { backend, folder: folder.path, dtype: "fp32" } as const;
  const cpu = new CpuBackend();
  const want: Generated[] = [];
  await withWholeEngine({ ...options, backend: cpu }, async (engine) => {
    for (const tokens of PROMPTS) want.push(await answer(engine, tokens));
  });
  await cpu.dispose();
  await withEngine(options, async (engine) => {
    const alone: Generated[] = [];
    for (const tokens of PROMPTS) alone.push(await answer(engine, tokens));
    alone.forEach((each, i) => assertSame(each, want[i]!, tolerance));
    const together = await Promise.all(PROMPTS.map((tokens) => answer(engine, tokens)));
    // On the CPU ONNX Runtime computes what is between, whose last bits differ with the number of rows.
    const beside = backend.kind === "cpu" ? 1e-4 : 0;
    together.forEach((each, i) => assertSame(each, alone[i]!, beside));
  });
}

for (const [name, layer] of Object.entries(EXPERT_LAYERS)) {
  // Of 8 bits ONNX Runtime rounds rows to 8 bits too.
  const tolerance = /f16|8 bits/.test(name) ? 5e-3 : 1e-3;

  Deno.test(`splitGraph() takes experts out of the segments: ${name}`, async () => {
    const result = splitGraph(await decodeModel(buildGraph(layer)));
    assert.ok("cut" in result, JSON.stringify(result));
    const { experts, segments, notes } = result.cut;
    assert.deepEqual(notes, []);
    assert.equal(experts.length, LAYERS);
    const left = segments.flatMap(({ model }) => model.graph.nodes).map(({ opType }) => opType);
    for (const operator of ["MoE", "QMoE", "TopK", "Sigmoid"]) {
      assert.ok(!left.includes(operator), `${operator} is left`);
    }
  });

  Deno.test(`experts answer as ONNX Runtime does, on the CPU: ${name}`, async () => {
    const backend = new CpuBackend();
    await assertAnswers(backend, layer, tolerance);
    await backend.dispose();
  });

  gpuTest(`experts answer as ONNX Runtime does, on WebGPU: ${name}`, async (gpu) => {
    await assertAnswers(await WebGpuBackend.create(gpu), layer, tolerance);
  });
}

gpuTest("a mixture of experts is three dispatches of a step of few rows", async (gpu) => {
  const backend = await WebGpuBackend.create(gpu);
  await using folder = await makeFolder(buildGraph(Object.values(EXPERT_LAYERS)[0]!));
  const options = { backend, folder: folder.path, dtype: "fp32" } as const;
  await withEngine({ ...options, engine: { prefixCache: false } }, async (engine) => {
    const counts = await countStep(engine, { tokens: PROMPTS[0]! });
    // Of each mixture its routes and both products; 16 of all that is around them.
    assert.deepEqual(counts, { dispatches: 3 * LAYERS + 16, submits: 1, runs: 0 });
  });
});
