/**
 * Mixtures of experts in Hearth's kernels, in the formats that exporters write, compared with ONNX Runtime over the
 * whole graph: on both devices, alone and in a batch.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../../src/device/backend.ts";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import { compileForCpu, compileForGpu } from "../../../src/cli/cut_report.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { decodeModel } from "../../fixtures/graphs/decode_model.ts";
import {
  EXPERT_LAYERS,
  EXPERT_SIZES,
  type ExpertLayer,
  sharedExpert,
} from "../../fixtures/graphs/expert_layers.ts";
import {
  generate,
  type Generated,
  withEngine,
  withWholeEngine,
} from "../../fixtures/engine/generate.ts";
import { gpuTest, withLimits } from "../../fixtures/engine/gpu.ts";
import { countStep } from "../../fixtures/engine/small_steps.ts";
import { decoder, lengths, projections } from "../../unit/graph/test_decoder.ts";

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

/** A folder with the graph, which is removed at the end of its scope. */
async function makeFolder(
  graph: Uint8Array,
  vocabSize = VOCAB,
): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await Deno.makeTempDir({ prefix: "hearth-experts-" });
  await Deno.mkdir(join(path, "onnx"));
  await Deno.writeFile(join(path, "onnx/model.onnx"), graph);
  const config = {
    model_type: "qwen3_moe",
    architectures: ["Qwen3MoeForCausalLM"],
    max_position_embeddings: 64,
    vocab_size: vocabSize,
  };
  await Deno.writeTextFile(join(path, "config.json"), JSON.stringify(config));
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

const NUM_TOKENS = 8;

function answer(engine: Parameters<typeof generate>[0], tokens: readonly number[]) {
  return generate(engine, { tokens, maxTokens: NUM_TOKENS, topLogprobs: 5 });
}

/** Asserts that tokens and their log-probabilities agree. */
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

interface Answered {
  readonly graph: Uint8Array;
  readonly tolerance: number;
  readonly isExported?: boolean;
}

async function assertAnswers(
  backend: Backend,
  { graph, tolerance, isExported = false }: Answered,
): Promise<void> {
  const vocabSize = isExported ? 29 : VOCAB;
  const prompts = PROMPTS.map((tokens) => tokens.map((token) => token % vocabSize));
  await using folder = await makeFolder(graph, vocabSize);
  const options = { backend, folder: folder.path, dtype: "fp32" } as const;
  const cpu = new CpuBackend();
  const want: Generated[] = [];
  await withWholeEngine({ ...options, backend: cpu }, async (engine) => {
    for (const tokens of prompts) want.push(await answer(engine, tokens));
  });
  await cpu.dispose();
  await withEngine(options, async (engine) => {
    const alone: Generated[] = [];
    for (const tokens of prompts) alone.push(await answer(engine, tokens));
    alone.forEach((each, i) => assertSame(each, want[i]!, tolerance));
    const together = await Promise.all(prompts.map((tokens) => answer(engine, tokens)));
    // The last bits of other segments depend on the number of rows, on the CPU and in graphs that PyTorch exported.
    const beside = backend.kind === "cpu" || isExported ? 1e-4 : 0;
    together.forEach((each, i) => assertSame(each, alone[i]!, beside));
  });
}

/** Operators of mixtures and of their routers. */
const TAKEN = ["MoE", "QMoE", "TopK", "Sigmoid", "GatherND", "NonZero", "ScatterElements"];

function testAnswers(name: string, read: () => Promise<Answered> | Answered): void {
  Deno.test(`cutGraph() takes experts out of the segments: ${name}`, async () => {
    const { graph } = await read();
    const result = cutGraph(await decodeModel(graph));
    assert.ok("cut" in result, JSON.stringify(result));
    const { experts, segments, notes } = result.cut;
    assert.deepEqual(notes, []);
    assert.equal(experts.length, LAYERS);
    const left = segments.flatMap(({ model }) => model.graph.nodes).map(({ opType }) => opType);
    assert.deepEqual(left.filter((operator) => TAKEN.includes(operator)), []);
  });
  testDevices(name, read);
}

function testDevices(name: string, read: () => Promise<Answered> | Answered): void {
  Deno.test(`experts answer like ONNX Runtime, on the CPU: ${name}`, async () => {
    const backend = new CpuBackend();
    await assertAnswers(backend, await read());
    await backend.dispose();
  });

  gpuTest(`experts answer like ONNX Runtime, on WebGPU: ${name}`, async (gpu) => {
    await assertAnswers(await WebGpuBackend.create(gpu), await read());
  });
}

for (const [name, layer] of Object.entries(EXPERT_LAYERS)) {
  // With 8 bits, ONNX Runtime also rounds rows to 8 bits.
  const tolerance = /f16|8 bits/.test(name) ? 5e-3 : 1e-3;
  testAnswers(name, () => ({ graph: buildGraph(layer), tolerance }));
}

for (const form of ["GatedAdd", "spelled out"] as const) {
  const read = () => ({ graph: buildGraph(sharedExpert(form)), tolerance: 1e-3 });
  const name = `a shared expert, ${form}`;
  testDevices(name, read);

  Deno.test(`kernels run all segments around experts: ${name}`, async () => {
    const result = cutGraph(await decodeModel(read().graph));
    assert.ok("cut" in result, JSON.stringify(result));
    for (const compiled of [compileForGpu(result.cut), compileForCpu(result.cut)]) {
      const refusals = compiled.map((segment) => "refused" in segment ? segment.refused : "");
      assert.deepEqual(new Set(refusals), new Set([""]));
    }
  });
}

/** Transformers' Qwen3-MoE, exported by PyTorch. */
for (const name of ["qwen3_moe_dynamo_18", "qwen3_moe_script_17", "qwen3_moe_loop_script_17"]) {
  const path = fileURLToPath(
    new URL(`../../fixtures/graphs/exports/${name}.onnx`, import.meta.url),
  );
  testAnswers(name, async () => ({
    graph: await Deno.readFile(path),
    tolerance: 1e-3,
    isExported: true,
  }));
}

gpuTest("experts that exceed the GPU's binding size are refused, with both sizes", async (gpu) => {
  const layer = EXPERT_LAYERS["MoE, biases, clamped SwiGLU"]!;
  await using folder = await makeFolder(buildGraph(layer));
  // Larger than everything except the first matrices: 5 experts of 128 by 64 f32.
  const limited = withLimits(gpu, { maxStorageBufferBindingSize: 160_000 });
  const backend = await WebGpuBackend.create(limited);
  await assert.rejects(
    withEngine({ backend, folder: folder.path, dtype: "fp32" }, () => Promise.resolve()),
    {
      name: "StartupError",
      message: /largest tensor .+ takes 164 kB, and buffers of this device hold at most 160 kB\. /,
    },
  );
});

gpuTest("a mixture of experts has three dispatches in a step of few rows", async (gpu) => {
  const backend = await WebGpuBackend.create(gpu);
  await using folder = await makeFolder(buildGraph(Object.values(EXPERT_LAYERS)[0]!));
  const options = { backend, folder: folder.path, dtype: "fp32" } as const;
  await withEngine({ ...options, engine: { prefixCache: false } }, async (engine) => {
    const counts = await countStep(engine, { tokens: PROMPTS[0]! });
    // For each mixture its routes and both products; 16 for everything else.
    assert.deepEqual(counts, { dispatches: 3 * LAYERS + 16, submits: 1, runs: 0 });
  });
});
