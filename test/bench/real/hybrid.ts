/**
 * Twins of hybrid decoders, some of whose layers have states instead of keys and values: the layers of LFM2-350M and of
 * Qwen3.5-0.8B's language model as onnxruntime-genai's builder writes them, in q4, with random weights. Their
 * vocabularies have the models' sizes; the tokens are Qwen3's.
 *
 * @module
 */
import { join } from "node:path";
import type { AttributeValue } from "../../../src/graph/file/proto.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { constant, type Declared, ints } from "../../fixtures/graphs/onnx_builder.ts";
import { Random } from "./random.ts";
import { twinFolder, writeTwinFiles } from "./twin.ts";
import { type EndTokens, writeTokenizer } from "./vocabulary.ts";

/** The models that have twins. */
export type HybridName = "lfm2-350m" | "qwen3.5-0.8b";

const MICROSOFT = "com.microsoft";
/** Weights that share a scale. */
const BLOCK = 32;
/** Number of positions with rotary angles. */
const POSITIONS = 8192;

/** Sizes of a twin. */
export interface HybridSizes {
  readonly hidden: number;
  readonly intermediate: number;
  /** The kind of each layer. */
  readonly layers: readonly ("conv" | "linear_attention" | "full_attention")[];
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Whether attention's output is multiplied by a sigmoid gate, which is computed along with the queries. */
  readonly isGated: boolean;
  readonly epsilon: number;
  /** Number of tokens. */
  readonly vocab: number;
}

/** Sizes of a linear attention: heads of both keys and values, elements of a head, and tokens of its convolution. */
export const LINEAR = { heads: 16, headDim: 128, taps: 4 };
/** Tokens of a short convolution. */
export const CONV_TAPS = 3;

const LFM2_ATTENTIONS = [2, 5, 8, 10, 12, 14];

/** The sizes of all twins. */
export const SIZES: Readonly<Record<HybridName, HybridSizes>> = {
  "lfm2-350m": {
    ...{ hidden: 1024, intermediate: 4608, heads: 16, kvHeads: 8, headDim: 64, epsilon: 1e-5 },
    ...{ isGated: false, vocab: 65_536 },
    layers: Array.from(
      { length: 16 },
      (_, i) => LFM2_ATTENTIONS.includes(i) ? "full_attention" : "conv",
    ),
  },
  "qwen3.5-0.8b": {
    ...{ hidden: 1024, intermediate: 3584, heads: 8, kvHeads: 2, headDim: 256, epsilon: 1e-6 },
    ...{ isGated: true, vocab: 248_320 },
    layers: Array.from(
      { length: 24 },
      (_, i) => i % 4 === 3 ? "full_attention" : "linear_attention",
    ),
  },
};

/** The folder of a twin, which is written if it does not exist. */
export async function hybridFolder(name: HybridName): Promise<string> {
  return await twinFolder(`${name}-q4-3`, async (folder) => {
    const ends = await writeTokenizer(SIZES[name].vocab, folder);
    const graph = new HybridGraph(SIZES[name]).write();
    await writeTwinFiles(folder, {
      "config.json": makeConfig(name, ends),
      "generation_config.json": { eos_token_id: [ends.eos, ends.pad], pad_token_id: ends.pad },
      [join("onnx", "model_q4.onnx")]: graph,
    });
  });
}

function makeConfig(name: HybridName, { eos, pad }: EndTokens): object {
  const { hidden, intermediate, layers, heads, kvHeads, headDim, epsilon, vocab } = SIZES[name];
  const common = {
    hidden_size: hidden,
    intermediate_size: intermediate,
    num_hidden_layers: layers.length,
    num_attention_heads: heads,
    num_key_value_heads: kvHeads,
    head_dim: headDim,
    layer_types: layers,
    vocab_size: vocab,
    max_position_embeddings: POSITIONS,
    bos_token_id: pad,
    eos_token_id: eos,
    pad_token_id: pad,
  };
  if (name === "lfm2-350m") {
    return {
      ...{ architectures: ["Lfm2ForCausalLM"], model_type: "lfm2", ...common },
      ...{ conv_L_cache: CONV_TAPS, conv_bias: false, norm_eps: epsilon },
    };
  }
  return {
    ...{ architectures: ["Qwen3_5ForCausalLM"], model_type: "qwen3_5_text", ...common },
    linear_conv_kernel_dim: LINEAR.taps,
    linear_num_key_heads: LINEAR.heads,
    linear_num_value_heads: LINEAR.heads,
    linear_key_head_dim: LINEAR.headDim,
    linear_value_head_dim: LINEAR.headDim,
    rms_norm_eps: epsilon,
  };
}

class HybridGraph {
  readonly #sizes: HybridSizes;
  readonly #graph = new GraphBuilder();
  readonly #random = new Random(1);
  readonly #past: Declared[] = [];
  readonly #present: Declared[] = [];
  #lengths: readonly [string, string] = ["", ""];

  constructor(sizes: HybridSizes) {
    this.#sizes = sizes;
  }

  write(): Uint8Array<ArrayBuffer> {
    const { hidden, layers, headDim, vocab } = this.#sizes;
    this.#lengths = this.#countTokens();
    this.#addAngles(headDim);
    const table = this.#floats("embed", [vocab, hidden], 0.03);
    let residual = this.#node("Gather", [table, "input_ids"], "embedded");
    let normed = this.#norm(residual, hidden, "layers.0/norm");
    layers.forEach((kind, layer) => {
      const path = `layers.${layer}`;
      const mixed = kind === "conv"
        ? this.#shortConvolution(normed, layer)
        : kind === "linear_attention"
        ? this.#linearAttention(normed, layer)
        : this.#attention(normed, layer);
      [residual, normed] = this.#skipNorm(residual, mixed, `${path}/ffn_norm`);
      const down = this.#mlp(normed, path);
      [residual, normed] = this.#skipNorm(residual, down, `layers.${layer + 1}/norm`);
    });
    this.#linear(normed, vocab, { from: hidden, path: "lm_head", output: "logits" });
    const declared: readonly Declared[] = [
      ["input_ids", "int64", ["batch_size", "sequence_length"]],
      ["attention_mask", "int64", ["batch_size", "total_sequence_length"]],
    ];
    return this.#graph.build({
      inputs: [...declared, ...this.#past],
      outputs: [
        ["logits", "float32", ["batch_size", "sequence_length", vocab]],
        ...this.#present,
      ],
      opset: 21,
    });
  }

  #node(
    opType: string,
    inputs: readonly string[],
    outputs: string | readonly string[],
    attributes: Readonly<Record<string, AttributeValue>> = {},
    domain = "",
  ): string {
    const all = typeof outputs === "string" ? [outputs] : outputs;
    return this.#graph.add(opType, inputs, {
      ...{ outputs: all, name: `/${all[0]}/${opType}`, attributes, domain },
    });
  }

  #ints(values: readonly number[], shape = [values.length]): string {
    return this.#graph.constant(ints(`ints_${shape.length}_${values}`, values, shape));
  }

  #floats(name: string, shape: readonly number[], deviation: number): string {
    const length = shape.reduce((product, size) => product * size, 1);
    const values = this.#random.spread(length, deviation);
    return this.#graph.constant(constant(`${name}.weight`, shape, values));
  }

  #ones(name: string, length: number): string {
    const values = new Float32Array(length).fill(1);
    return this.#graph.constant(constant(`${name}.weight`, [length], values));
  }

  #linear(
    input: string,
    to: number,
    { from, path, output = `${path}/output` }: {
      readonly from: number;
      readonly path: string;
      readonly output?: string;
    },
  ): string {
    const unit = 0.11 / Math.sqrt(from);
    const levels = this.#graph.constant(
      constant(`${path}.Q4`, [to, from / BLOCK, BLOCK / 2], this.#random.bytes(to * from / 2)),
    );
    const scales = this.#random.floats(to * from / BLOCK, { low: unit, high: 3 * unit });
    const scale = this.#graph.constant(constant(`${path}.scales`, [to * from / BLOCK], scales));
    const attributes = { K: from, N: to, bits: 4, block_size: BLOCK, accuracy_level: 4 };
    return this.#node("MatMulNBits", [input, levels, scale], output, attributes, MICROSOFT);
  }

  #norm(input: string, size: number, path: string): string {
    return this.#node("SimplifiedLayerNormalization", [input, this.#ones(path, size)], path, {
      ...{ axis: -1, epsilon: { float: this.#sizes.epsilon }, stash_type: 1 },
    });
  }

  /** @returns the sum, and the normalised sum. */
  #skipNorm(residual: string, added: string, path: string): [string, string] {
    const { hidden, epsilon } = this.#sizes;
    const outputs = [`${path}/normed`, "", "", `${path}/sum`];
    const inputs = [residual, added, this.#ones(path, hidden)];
    const attributes = { epsilon: { float: epsilon } };
    this.#node("SkipSimplifiedLayerNormalization", inputs, outputs, attributes, MICROSOFT);
    return [`${path}/sum`, `${path}/normed`];
  }

  #silu(x: string, path: string): string {
    return this.#node("Mul", [x, this.#node("Sigmoid", [x], `${path}/sigmoid`)], `${path}/silu`);
  }

  #mlp(x: string, path: string): string {
    const { hidden, intermediate } = this.#sizes;
    const gate = this.#linear(x, intermediate, { from: hidden, path: `${path}/gate_proj` });
    const up = this.#linear(x, intermediate, { from: hidden, path: `${path}/up_proj` });
    const product = this.#node("Mul", [this.#silu(gate, `${path}/mlp`), up], `${path}/mlp/product`);
    return this.#linear(product, hidden, { from: intermediate, path: `${path}/down_proj` });
  }

  /** Normalises each head. */
  #headNorm(x: string, heads: number, path: string): string {
    const { headDim } = this.#sizes;
    const parted = this.#node("Reshape", [x, this.#ints([0, -1, headDim])], `${path}/heads`);
    const normed = this.#norm(parted, headDim, path);
    return this.#node("Reshape", [normed, this.#ints([0, -1, heads * headDim])], `${path}/rows`);
  }

  #attention(x: string, layer: number): string {
    const { hidden, heads, kvHeads, headDim, isGated } = this.#sizes;
    const path = `layers.${layer}/attn`;
    const project = (kind: string, count: number) =>
      this.#linear(x, count * headDim, { from: hidden, path: `${path}/${kind}_proj` });
    const [queries, gate] = isGated
      ? this.#dividedQueries(project("q", 2 * heads), path)
      : [project("q", heads)];
    const q = this.#headNorm(queries, heads, `${path}/q_norm`);
    const k = this.#headNorm(project("k", kvHeads), kvHeads, `${path}/k_norm`);
    const v = project("v", kvHeads);
    const [past, present] = [`past_key_values.${layer}`, `present.${layer}`];
    for (const kind of ["key", "value"]) {
      const shape = (length: string) => ["batch_size", kvHeads, length, headDim];
      this.#past.push([`${past}.${kind}`, "float32", shape("past_sequence_length")]);
      this.#present.push([`${present}.${kind}`, "float32", shape("total_sequence_length")]);
    }
    const inputs = [q, k, v, `${past}.key`, `${past}.value`, ...this.#lengths];
    const attended = this.#node(
      "GroupQueryAttention",
      [...inputs, "cos_cache", "sin_cache"],
      [`${path}/attended`, `${present}.key`, `${present}.value`],
      {
        ...{ num_heads: heads, kv_num_heads: kvHeads, scale: { float: headDim ** -0.5 } },
        ...{ do_rotary: 1, rotary_interleaved: 0, local_window_size: -1, softcap: { float: 0 } },
      },
      MICROSOFT,
    );
    const gated = gate === undefined ? attended : this.#node(
      "Mul",
      [attended, this.#node("Sigmoid", [gate], `${path}/gate/sigmoid`)],
      `${path}/gated`,
    );
    return this.#linear(gated, hidden, { from: heads * headDim, path: `${path}/o_proj` });
  }

  /** Splits queries from the gate, which are next to each other in each head. */
  #dividedQueries(x: string, path: string): [queries: string, gate: string] {
    const { heads, headDim } = this.#sizes;
    const pairs = this.#ints([0, 0, heads, 2 * headDim]);
    const parted = this.#node("Reshape", [x, pairs], `${path}/q_gate`);
    const parts = [`${path}/queries/heads`, `${path}/gate/heads`];
    this.#node("Split", [parted, this.#ints([headDim, headDim])], parts, { axis: -1 });
    const rows = this.#ints([0, 0, heads * headDim]);
    return [
      this.#node("Reshape", [parts[0]!, rows], `${path}/queries`),
      this.#node("Reshape", [parts[1]!, rows], `${path}/gate`),
    ];
  }

  #turned(x: string, path: string): string {
    return this.#node("Transpose", [x], path, { perm: [0, 2, 1] });
  }

  #state(name: string, layer: number, shape: readonly number[]): [string, string] {
    const [past, present] = [`past_${name}.${layer}`, `present_${name}.${layer}`];
    this.#past.push([past, "float32", ["batch_size", ...shape]]);
    this.#present.push([present, "float32", ["batch_size", ...shape]]);
    return [past, present];
  }

  /** `out(c * convolution(b * x))`, spelled out as the builder does. */
  #shortConvolution(x: string, layer: number): string {
    const { hidden } = this.#sizes;
    const path = `layers.${layer}/conv`;
    const [past, present] = this.#state("conv", layer, [hidden, CONV_TAPS]);
    const all = this.#linear(x, 3 * hidden, { from: hidden, path: `${path}/in_proj` });
    const parts = ["b", "c", "x"].map((part) => `${path}/${part}`);
    const sizes = this.#ints([hidden, hidden, hidden]);
    this.#node("Split", [this.#turned(all, `${path}/turned`), sizes], parts, { axis: 1 });
    const [b, c, input] = parts as [string, string, string];
    const inputs = this.#node("Mul", [b, input], `${path}/gated`);
    const kept = this.#node("Concat", [past, inputs], `${path}/kept`, { axis: 2 });
    const weights = this.#floats(`${path}/kernel`, [hidden, 1, CONV_TAPS], 0.5);
    const convolved = this.#node("Conv", [kept, weights], `${path}/convolved`, {
      ...{ kernel_shape: [CONV_TAPS], pads: [0, 0], group: hidden },
    });
    const length = this.#node(
      "Gather",
      [this.#node("Shape", [x], `${path}/shape`), this.#ints([1], [])],
      `${path}/length`,
      { axis: 0 },
    );
    const back = this.#node("Mul", [length, this.#ints([-1], [])], `${path}/back`);
    const start = this.#node("Unsqueeze", [back, this.#ints([0])], `${path}/start`);
    const end = this.#ints([Number.MAX_SAFE_INTEGER]);
    const axis = this.#ints([2]);
    const last = this.#node("Slice", [convolved, start, end, axis], `${path}/last`);
    this.#node("Slice", [kept, this.#ints([-CONV_TAPS]), end, axis], present);
    const rows = this.#turned(this.#node("Mul", [c, last], `${path}/product`), `${path}/rows`);
    return this.#linear(rows, hidden, { from: hidden, path: `${path}/out_proj` });
  }

  /** The gated delta rule over keys and queries of length 1, followed by a gated norm. */
  #linearAttention(x: string, layer: number): string {
    const { hidden } = this.#sizes;
    const { heads, headDim, taps } = LINEAR;
    const path = `layers.${layer}/linear_attn`;
    const width = heads * headDim;
    const project = (name: string, to: number) =>
      this.#linear(x, to, { from: hidden, path: `${path}/in_proj_${name}` });
    const [pastConv, presentConv] = this.#state("conv", layer, [3 * width, taps - 1]);
    const convolved = this.#node(
      "CausalConvWithState",
      [
        this.#turned(project("qkv", 3 * width), `${path}/turned`),
        this.#floats(`${path}/kernel`, [3 * width, 1, taps], 0.5),
        this.#floats(`${path}/bias`, [3 * width], 0.1),
        pastConv,
      ],
      [`${path}/convolved`, presentConv],
      { ndim: 1, activation: "silu" },
      MICROSOFT,
    );
    const parts = ["q", "k", "v"].map((part) => `${path}/${part}`);
    const sizes = this.#ints([width, width, width]);
    this.#node("Split", [this.#turned(convolved, `${path}/rows`), sizes], parts, { axis: -1 });
    const unit = (name: string) => {
      const parted = this.#node(
        "Reshape",
        [name, this.#ints([0, 0, heads, headDim])],
        `${name}/parted`,
      );
      const normed = this.#node("LpNormalization", [parted], `${name}/unit`, { axis: -1, p: 2 });
      return this.#node("Reshape", [normed, this.#ints([0, 0, width])], `${name}/whole`);
    };
    const scale = constant(`${path}/q_scale`, [1], Float32Array.of(headDim ** -0.5));
    const q = this.#node("Mul", [unit(parts[0]!), this.#graph.constant(scale)], `${path}/scaled`);
    const shifted = this.#node(
      "Add",
      [project("a", heads), this.#floats(`${path}/dt_bias`, [heads], 0.1)],
      `${path}/shifted`,
    );
    const rates = constant(`${path}/neg_exp_a`, [heads], new Float32Array(heads).fill(-0.5));
    const decay = this.#node(
      "Mul",
      [this.#graph.constant(rates), this.#node("Softplus", [shifted], `${path}/softplus`)],
      `${path}/decay`,
    );
    const beta = this.#node("Sigmoid", [project("b", heads)], `${path}/beta`);
    const [past, present] = this.#state("recurrent", layer, [heads, headDim, headDim]);
    const attended = this.#node(
      "LinearAttention",
      [q, unit(parts[1]!), parts[2]!, past, decay, beta],
      [`${path}/attended`, present],
      {
        ...{ q_num_heads: heads, kv_num_heads: heads, update_rule: "gated_delta" },
        scale: { float: 1 },
      },
      MICROSOFT,
    );
    const parted = this.#node(
      "Reshape",
      [attended, this.#ints([0, 0, heads, headDim])],
      `${path}/parted`,
    );
    const normed = this.#norm(parted, headDim, `${path}/norm`);
    const whole = this.#node("Reshape", [normed, this.#ints([0, 0, width])], `${path}/whole`);
    const gate = this.#silu(project("z", width), `${path}/z`);
    const gated = this.#node("Mul", [whole, gate], `${path}/gated`);
    return this.#linear(gated, hidden, { from: width, path: `${path}/out_proj` });
  }

  /** Computes the positions of the last tokens, and the length of the longest sequence. */
  #countTokens(): [string, string] {
    const count = this.#node("ReduceSum", ["attention_mask", this.#ints([1])], "mask/sum", {
      keepdims: 1,
    });
    const last = this.#node("Sub", [count, this.#ints([1])], "mask/last");
    const shape = this.#node("Shape", ["attention_mask"], "mask/shape");
    const total = this.#node("Gather", [shape, this.#ints([1], [])], "mask/total", { axis: 0 });
    const toInt32 = { to: 6 };
    return [
      this.#node("Cast", [last], "mask/last/int32", toInt32),
      this.#node("Cast", [total], "mask/total/int32", toInt32),
    ];
  }

  #addAngles(headDim: number): void {
    const half = headDim / 2;
    const angles = Float64Array.from(
      { length: POSITIONS * half },
      (_, i) => Math.floor(i / half) * 1e6 ** (-(i % half) / half),
    );
    for (const [name, of] of [["cos_cache", Math.cos], ["sin_cache", Math.sin]] as const) {
      this.#graph.constant(constant(name, [POSITIONS, half], Float32Array.from(angles, of)));
    }
  }
}
