/**
 * Decoders that compute norms and sums in f32 around products in f16, like onnxruntime-genai's builder writes Gemma 2
 * and 3: kernels run all segments on both devices, and equal ONNX Runtime over the whole graph.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { Backend } from "../../../src/device/backend.ts";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import { compileForCpu, compileForGpu } from "../../../src/cli/cut_report.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { decodeModel } from "../../fixtures/graphs/decode_model.ts";
import { generate, withEngine, withWholeEngine } from "../../fixtures/engine/generate.ts";
import { gpuTest, HAS_F16 } from "../../fixtures/engine/gpu.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { constant, type Declared } from "../../fixtures/graphs/onnx_builder.ts";
import { Ties } from "../../fixtures/engine/small_steps.ts";

const [LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM] = [3, 64, 128, 4, 2, 32];
const [VOCAB, POSITIONS] = [96, 128];
const MICROSOFT = "com.microsoft";
const [FLOAT, HALF] = [1, 10];
const EPSILON = { epsilon: { float: 1e-6 } };

/** Differences between the two families, and between their exports. */
interface Form {
  readonly family: "gemma2" | "gemma3";
  /** Whether products have weights of 4 bits. */
  readonly isQuantized: boolean;
  /** Whether the logits are a product with the table of embeddings. */
  readonly isTied: boolean;
}

class MixedGraph extends GraphBuilder {
  readonly #form: Form;
  #count = 0;

  constructor(form: Form) {
    super({ seed: 77 });
    this.#form = form;
  }

  half(shape: readonly number[], scale: number): string {
    const name = this.weights(shape, scale);
    const at = this.initializers.findIndex((tensor) => tensor.name === name);
    const { data } = this.initializers[at]!;
    const bytes = (data as { readonly bytes: Uint8Array }).bytes;
    const values = new Float16Array(new Float32Array(bytes.slice().buffer));
    this.initializers[at] = constant(name, shape, values);
    return name;
  }

  cast(input: string, to: number): string {
    return this.add("Cast", [input], { attributes: { to } });
  }

  /** A product in f16. */
  product(input: string, k: number, n: number): string {
    if (!this.#form.isQuantized) {
      return this.add("MatMul", [input, this.half([k, n], 2 / Math.sqrt(k))]);
    }
    const levels = Uint8Array.from({ length: n * k / 2 }, (_, i) => (i * 167 + 31 * n) >> 2);
    const name = `levels_${this.#count++}`;
    const blocks = n * k / 32;
    const scales = Float16Array.from({ length: blocks }, (_, i) => (1 + i % 3) / 12 / Math.sqrt(k));
    return this.add("MatMulNBits", [
      ...[input, this.constant(constant(name, [n, k / 32, 16], levels))],
      this.constant(constant(`${name}/scales`, [blocks], scales)),
    ], { domain: MICROSOFT, attributes: { K: k, N: n, bits: 4, block_size: 32 } });
  }

  /** A norm in f32. */
  norm(input: string, width = HIDDEN): string {
    return this.add("SimplifiedLayerNormalization", [input, this.weights([width], 1)], {
      attributes: { axis: -1, stash_type: 1, ...EPSILON },
    });
  }

  /** @returns the norm of a sum, and the sum, both in f32. */
  normOfSum(residual: string, added: string): [normed: string, sum: string] {
    const outputs = [`normed_${this.#count}`, "", "", `sum_${this.#count++}`] as const;
    this.add("SkipSimplifiedLayerNormalization", [residual, added, this.weights([HIDDEN], 1)], {
      ...{ domain: MICROSOFT, outputs, attributes: EPSILON },
    });
    return [outputs[0], outputs[3]];
  }

  headNorm(rows: string, heads: number): string {
    const parted = this.add("Reshape", [rows, this.ints([0, -1, HEAD_DIM])]);
    const normed = this.cast(this.norm(this.cast(parted, FLOAT), HEAD_DIM), HALF);
    return this.add("Reshape", [normed, this.ints([0, -1, heads * HEAD_DIM])]);
  }
}

function makeAngles(compute: (angle: number) => number): Float16Array<ArrayBuffer> {
  const half = HEAD_DIM / 2;
  return Float16Array.from(
    { length: POSITIONS * half },
    (_, i) => compute(Math.floor(i / half) * 10_000 ** (-(i % half) / half)),
  );
}

function buildGraph(form: Form): Uint8Array<ArrayBuffer> {
  const isGemma2 = form.family === "gemma2";
  const graph = new MixedGraph(form);
  const angles = [Math.cos, Math.sin].map((compute) =>
    graph.constant(constant(compute.name, [POSITIONS, HEAD_DIM / 2], makeAngles(compute)))
  );
  const sum = graph.add("ReduceSum", ["attention_mask", graph.ints([1])], {
    attributes: { keepdims: 0 },
  });
  const lengths = [
    graph.add("Cast", [graph.add("Sub", [sum, graph.ints([1])])], { attributes: { to: 6 } }),
    graph.add("Cast", [
      graph.add("Gather", [graph.add("Shape", ["attention_mask"]), graph.ints([1], [])]),
    ], { attributes: { to: 6 } }),
  ];
  const inputs: Declared[] = [
    ["input_ids", "int64", ["batch", "tokens"]],
    ["attention_mask", "int64", ["batch", "total"]],
  ];
  const outputs: Declared[] = [["logits", "float16", ["batch", "tokens", VOCAB]]];
  const table = graph.half([VOCAB, HIDDEN], 0.5);
  const scale = graph.constant(constant("scale", [], Float16Array.of(8)));
  const scaled = graph.add("Mul", [graph.add("Gather", [table, "input_ids"]), scale]);
  let residual = graph.cast(scaled, FLOAT);
  let normed = graph.norm(residual);
  for (let layer = 0; layer < LAYERS; layer++) {
    const rows = graph.cast(normed, HALF);
    const project = (heads: number) => graph.product(rows, HIDDEN, heads * HEAD_DIM);
    const [q, k, v] = [project(HEADS), project(KV_HEADS), project(KV_HEADS)];
    const cache = ["key", "value"].map((kind) => `past_key_values.${layer}.${kind}`);
    const present = ["key", "value"].map((kind) => `present.${layer}.${kind}`);
    for (const name of cache) inputs.push([name, "float16", ["batch", KV_HEADS, "p", HEAD_DIM]]);
    for (const name of present) outputs.push([name, "float16", ["batch", KV_HEADS, "t", HEAD_DIM]]);
    const operands = isGemma2 ? [q, k] : [graph.headNorm(q, HEADS), graph.headNorm(k, KV_HEADS)];
    const attended = graph.add(
      "GroupQueryAttention",
      [...operands, v, ...cache, ...lengths, ...angles],
      {
        domain: MICROSOFT,
        outputs: [`attended_${layer}`, ...present],
        attributes: {
          ...{ num_heads: HEADS, kv_num_heads: KV_HEADS, do_rotary: 1 },
          ...{ scale: { float: HEAD_DIM ** -0.5 }, softcap: { float: isGemma2 ? 50 : 0 } },
        },
      },
    );
    const out = graph.cast(graph.product(attended, HEADS * HEAD_DIM, HIDDEN), FLOAT);
    [normed, residual] = graph.normOfSum(residual, graph.norm(out));
    const inner = graph.cast(normed, HALF);
    const gate = graph.product(inner, HIDDEN, INNER);
    const activated = isGemma2
      ? graph.add("FastGelu", [gate], { domain: MICROSOFT })
      : graph.add("Gelu", [gate], { attributes: { approximate: "tanh" } });
    const product = graph.add("Mul", [activated, graph.product(inner, HIDDEN, INNER)]);
    const down = graph.cast(graph.product(product, INNER, HIDDEN), FLOAT);
    [normed, residual] = graph.normOfSum(residual, graph.norm(down));
  }
  const last = graph.cast(normed, HALF);
  const turned = form.isTied && graph.add("Transpose", [table], { attributes: { perm: [1, 0] } });
  const logits = turned ? graph.add("MatMul", [last, turned]) : graph.product(last, HIDDEN, VOCAB);
  if (isGemma2) {
    const cap = graph.constant(constant("cap", [], Float16Array.of(30)));
    const capped = graph.add("Tanh", [graph.add("Div", [logits, cap])]);
    graph.add("Mul", [capped, cap], { outputs: ["logits"] });
  } else graph.add("Identity", [logits], { outputs: ["logits"] });
  return graph.build({ inputs, outputs, opset: 21 });
}

const FORMS: readonly Form[] = [
  { family: "gemma2", isQuantized: false, isTied: false },
  { family: "gemma2", isQuantized: true, isTied: true },
  { family: "gemma3", isQuantized: false, isTied: true },
  { family: "gemma3", isQuantized: true, isTied: false },
];
const PROMPTS = [
  [1, 5, 9, 13, 17],
  [7, 8],
  Array.from({ length: 40 }, (_, i) => (i * 11 + 3) % 96),
];
/** Largest gap of a tie. On the CPU, ONNX Runtime rounds to f16 after each node, and Hearth does not. */
const TIE = 0.05;

async function assertTokens(backend: Backend, graph: Uint8Array): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "hearth-mixed-" });
  try {
    await Deno.mkdir(join(folder, "onnx"));
    await Deno.writeFile(join(folder, "onnx/model_fp16.onnx"), graph);
    const config = {
      model_type: "gemma2",
      architectures: ["Gemma2ForCausalLM"],
      max_position_embeddings: POSITIONS,
      vocab_size: VOCAB,
    };
    await Deno.writeTextFile(join(folder, "config.json"), JSON.stringify(config));
    const options = { backend, folder, dtype: "fp16" } as const;
    const requests = PROMPTS.map((tokens) => ({ tokens, maxTokens: 16, topLogprobs: 4 }));
    const cpu = new CpuBackend();
    const want = await withWholeEngine({ ...options, backend: cpu }, async (engine) => {
      const answers = [];
      for (const request of requests) answers.push((await generate(engine, request)).tokens);
      return answers;
    });
    await cpu.dispose();
    await withEngine(options, async (engine) => {
      const ties = new Ties(TIE);
      const together = await Promise.all(requests.map((request) => generate(engine, request)));
      together.forEach(({ tokens }, i) => ties.compare(tokens, want[i]!));
      ties.requireAtMost(1);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

for (const form of FORMS) {
  const { family, isQuantized, isTied } = form;
  const name = `${family}${isQuantized ? ", 4 bits" : ""}${isTied ? ", tied" : ""}`;
  const graph = buildGraph(form);

  Deno.test(`${name}, norms in f32: kernels run all segments`, async () => {
    const result = cutGraph(await decodeModel(graph), { contextLength: POSITIONS });
    assert.ok("cut" in result, JSON.stringify(result));
    for (const compiled of [compileForGpu(result.cut), compileForCpu(result.cut)]) {
      const refusals = compiled.map((segment) => "refused" in segment ? segment.refused : "");
      assert.deepEqual(new Set(refusals), new Set([""]));
    }
  });

  Deno.test(`${name}, norms in f32: kernels on the CPU give ONNX Runtime's tokens`, async () => {
    const backend = await CpuBackend.open({ threads: 1 });
    await assertTokens(backend, graph);
    await backend.dispose();
  });

  gpuTest(`${name}, norms in f32: kernels on WebGPU give ONNX Runtime's tokens`, async (gpu) => {
    await assertTokens(await WebGpuBackend.create(gpu), graph);
  }, { ignore: !HAS_F16 });
}
