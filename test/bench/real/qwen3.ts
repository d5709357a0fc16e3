/**
 * Twins of onnx-community/Qwen3-0.6B-ONNX: its graph node for node, with random weights.
 *
 * @module
 */
import { join } from "node:path";
import type { AttributeValue, Tensor } from "../../../src/graph/file/proto.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { constant, type Declared, ints } from "../../fixtures/graphs/onnx_builder.ts";
import { Random } from "./random.ts";
import { copyTokenizer, twinFolder, writeTwinFiles } from "./twin.ts";

/** Sizes of Qwen3-0.6B. */
export const QWEN3 = {
  hidden: 1024,
  intermediate: 3072,
  layers: 28,
  heads: 16,
  kvHeads: 8,
  headDim: 128,
  vocab: 151_936,
  positions: 40_960,
  ropeTheta: 1e6,
  epsilon: 1e-6,
  eos: 151_645,
  pad: 151_643,
} as const;

/**
 * The same depth, with rows a quarter as long, to measure the host's work for a step when the device has little to do.
 */
export const SMALL_QWEN3: Qwen3Sizes = {
  ...QWEN3,
  hidden: 256,
  intermediate: 768,
  heads: 4,
  kvHeads: 2,
  headDim: 64,
  vocab: 2048,
  positions: 2048,
};

/** Sizes of a twin. */
export type Qwen3Sizes = { readonly [Name in keyof typeof QWEN3]: number };

/** Weights that share a scale. */
const BLOCK = 32;
const SEED = 1;

/** The dtypes of the twins. */
export type Qwen3Dtype = "q4" | "q4f16";

/** The folder of the twin in these dtypes, which is written if it does not exist. */
export async function qwen3Folder(dtypes: readonly Qwen3Dtype[]): Promise<string> {
  return await twinFolder(`qwen3-0.6b-${dtypes.join("-")}-1`, async (folder) => {
    await copyTokenizer("qwen3", folder);
    await writeQwen3(folder, { sizes: QWEN3, dtypes });
  });
}

/** The folder of the small twin in q4f16, without a tokenizer, which is written if it does not exist. */
export async function smallQwen3Folder(): Promise<string> {
  return await twinFolder(
    "qwen3-small-q4f16-1",
    (folder) => writeQwen3(folder, { sizes: SMALL_QWEN3, dtypes: ["q4f16"] }),
  );
}

/** The content of a folder. */
export interface Qwen3FolderOptions {
  readonly sizes: Qwen3Sizes;
  readonly dtypes: readonly Qwen3Dtype[];
  /** Whether the graph returns the last hidden state, like an embedding model's, instead of logits. */
  readonly givesHidden?: boolean;
}

/** Writes graphs and configuration into a folder. */
export async function writeQwen3(
  folder: string,
  { sizes, dtypes, givesHidden = false }: Qwen3FolderOptions,
): Promise<void> {
  await writeConfig(folder, sizes);
  for (const dtype of dtypes) {
    const graph = buildGraph(dtype, sizes, givesHidden);
    await writeTwinFiles(folder, { [join("onnx", `model_${dtype}.onnx`)]: graph });
  }
}

async function writeConfig(folder: string, sizes: Qwen3Sizes): Promise<void> {
  await writeTwinFiles(folder, {
    "config.json": {
      architectures: ["Qwen3ForCausalLM"],
      model_type: "qwen3",
      hidden_size: sizes.hidden,
      intermediate_size: sizes.intermediate,
      num_hidden_layers: sizes.layers,
      num_attention_heads: sizes.heads,
      num_key_value_heads: sizes.kvHeads,
      head_dim: sizes.headDim,
      vocab_size: sizes.vocab,
      max_position_embeddings: sizes.positions,
      rms_norm_eps: sizes.epsilon,
      rope_theta: sizes.ropeTheta,
      tie_word_embeddings: true,
      bos_token_id: sizes.pad,
      eos_token_id: sizes.eos,
    },
    "generation_config.json": {
      bos_token_id: sizes.pad,
      eos_token_id: [sizes.eos, sizes.pad],
      pad_token_id: sizes.pad,
      do_sample: true,
      temperature: 0.6,
      top_k: 20,
      top_p: 0.95,
    },
  });
}

function buildGraph(
  dtype: Qwen3Dtype,
  sizes: Qwen3Sizes,
  givesHidden: boolean,
): Uint8Array<ArrayBuffer> {
  const { hidden, intermediate, layers, heads, kvHeads, headDim, vocab, epsilon } = sizes;
  const element = dtype === "q4f16" ? "float16" : "float32";
  const graph = new GraphBuilder();
  const random = new Random(SEED);
  const microsoft = "com.microsoft";

  const add = (tensor: Tensor) => graph.constant(tensor);
  const elements = (name: string, shape: readonly number[], values: Float32Array<ArrayBuffer>) =>
    add(constant(name, shape, element === "float16" ? new Float16Array(values) : values));
  const ones = (name: string, length: number) =>
    elements(name, [length], new Float32Array(length).fill(1));
  const int64 = (values: readonly number[], shape = [values.length]) =>
    add(
      ints(`/model/constants/INT64/${shape.length === 0 ? values : `[${values}]`}`, values, shape),
    );
  /** A node is named after its first output, with the operator instead of `/output_…`. */
  const node = (
    opType: string,
    inputs: readonly string[],
    outputs: string | readonly string[],
    options: { domain?: string; attributes?: Readonly<Record<string, AttributeValue>> } = {},
  ) => {
    const all = typeof outputs === "string" ? [outputs] : outputs;
    const name = `${all[0]!.replace(/\/output_\d$/, "")}/${opType}`;
    return graph.add(opType, inputs, { outputs: all, name, ...options });
  };
  const linear = (
    input: string,
    { to, from, path, output }: { to: number; from: number; path: string; output?: string },
  ) => {
    const weights = `${path.slice(1).replaceAll("/", ".")}.weight`;
    const packed = random.bytes(to * from / 2);
    const unit = 0.11 / Math.sqrt(from);
    const scales = random.floats(to * from / BLOCK, { low: unit, high: 3 * unit });
    add(constant(`${weights}_Q4`, [to, from / BLOCK, BLOCK / 2], packed));
    elements(`${weights}_scales`, [to * from / BLOCK], scales);
    return node(
      "MatMulNBits",
      [input, `${weights}_Q4`, `${weights}_scales`],
      output ??
        `${path}/output_0`,
      {
        domain: microsoft,
        attributes: { K: from, N: to, bits: 4, block_size: BLOCK, accuracy_level: 4 },
      },
    );
  };
  const norm = (input: string, weight: string, path: string) =>
    node("SimplifiedLayerNormalization", [input, weight], `${path}/output_0`, {
      attributes: { axis: -1, epsilon: { float: epsilon }, stash_type: 1 },
    });
  /** @returns the sum, and the normalised sum. */
  const skipNorm = (
    [residual, added]: readonly [string, string],
    weight: string,
    { path, isLast = false }: { path: string; isLast?: boolean },
  ) => {
    const outputs = [`${path}/output_0`, ...(isLast ? [] : ["", "", `${path}/output_3`])];
    node("SkipSimplifiedLayerNormalization", [residual, added, weight], outputs, {
      domain: microsoft,
      attributes: { epsilon: { float: epsilon } },
    });
    return [`${path}/output_3`, `${path}/output_0`] as const;
  };

  const reformat = "/model/attn_mask_reformat/attn_mask_subgraph";
  const numTokens = node("ReduceSum", ["attention_mask", int64([1])], `${reformat}/sum/output_0`, {
    attributes: { keepdims: 1 },
  });
  const last = node("Sub", [numTokens, int64([1])], `${reformat}/Sub/output_0`);
  const toInt32 = { attributes: { to: 6 } };
  const lastPosition = node("Cast", [last], `${reformat}/Sub/Cast/output_0`, toInt32);
  const shape = node("Shape", ["attention_mask"], `${reformat}/Shape/output_0`);
  const total = node("Gather", [shape, int64([1], [])], `${reformat}/Gather/output_0`, {
    attributes: { axis: 0 },
  });
  const totalLength = node("Cast", [total], `${reformat}/Gather/Cast/output_0`, toInt32);
  addRotary(sizes, elements);

  const table = elements(
    "model.embed_tokens.weight",
    [vocab, hidden],
    random.spread(vocab * hidden, 0.03),
  );
  let residual = node("Gather", [table, "input_ids"], "/model/embed_tokens/Gather/output_0");
  let normed = norm(
    residual,
    ones("model.layers.0.input_layernorm.weight", hidden),
    "/model/layers.0/input_layernorm",
  );
  for (let layer = 0; layer < layers; layer++) {
    const path = `/model/layers.${layer}`;
    const weights = `model.layers.${layer}`;
    const projected = (kind: "q" | "k", count: number) => {
      const flat = linear(normed, {
        to: count * headDim,
        from: hidden,
        path: `${path}/attn/${kind}_proj/MatMul`,
      });
      const own = `${path}/attn/${kind}_norm`;
      const parted = node("Reshape", [flat, int64([0, -1, headDim])], `${own}/Reshape_1/output_0`);
      const scale = ones(`${weights}.attn.${kind}_norm.layernorm.weight`, headDim);
      const result = norm(parted, scale, `${own}/SimplifiedLayerNormalization`);
      const back = int64([0, -1, count * headDim]);
      return node("Reshape", [result, back], `${own}/Reshape_2/output_0`);
    };
    const query = projected("q", heads);
    const key = projected("k", kvHeads);
    const value = linear(normed, {
      to: kvHeads * headDim,
      from: hidden,
      path: `${path}/attn/v_proj/MatMul`,
    });
    const attended = node("GroupQueryAttention", [
      query,
      key,
      value,
      `past_key_values.${layer}.key`,
      `past_key_values.${layer}.value`,
      lastPosition,
      totalLength,
      "cos_cache",
      "sin_cache",
    ], [
      `${path}/attn/GroupQueryAttention/output_0`,
      `present.${layer}.key`,
      `present.${layer}.value`,
    ], {
      domain: microsoft,
      attributes: {
        num_heads: heads,
        kv_num_heads: kvHeads,
        scale: { float: headDim ** -0.5 },
        local_window_size: -1,
        softcap: { float: 0 },
        do_rotary: 1,
        rotary_interleaved: 0,
      },
    });
    const mixed = linear(attended, {
      to: hidden,
      from: heads * headDim,
      path: `${path}/attn/o_proj/MatMul`,
    });
    [residual, normed] = skipNorm(
      [residual, mixed],
      ones(`${weights}.post_attention_layernorm.weight`, hidden),
      { path: `${path}/post_attention_layernorm` },
    );
    const into = { to: intermediate, from: hidden };
    const gate = linear(normed, { ...into, path: `${path}/mlp/gate_proj/MatMul` });
    const up = linear(normed, { ...into, path: `${path}/mlp/up_proj/MatMul` });
    const sigmoid = node("Sigmoid", [gate], `${path}/mlp/act_fn/Sigmoid/output_0`);
    const silu = node("Mul", [gate, sigmoid], `${path}/mlp/act_fn/Mul/output_0`);
    const product = node("Mul", [silu, up], `${path}/mlp/Mul/output_0`);
    const down = linear(product, {
      to: hidden,
      from: intermediate,
      path: `${path}/mlp/down_proj/MatMul`,
    });
    const isLast = layer === layers - 1;
    const following = isLast
      ? `/model/layers.${layers}/final_norm_layernorm`
      : `/model/layers.${layer + 1}/input_layernorm`;
    [residual, normed] = skipNorm(
      [residual, down],
      ones(`model.layers.${layer + 1}.norm.weight`, hidden),
      { path: following, isLast },
    );
  }
  if (givesHidden) node("Identity", [normed], "last_hidden_state");
  else linear(normed, { to: vocab, from: hidden, path: "/lm_head/MatMul", output: "logits" });

  const cache = (prefix: string, length: string): Declared[] =>
    Array.from({ length: layers }, (_, layer) =>
      ["key", "value"].map((kind): Declared => [
        `${prefix}.${layer}.${kind}`,
        element,
        ["batch_size", kvHeads, length, headDim],
      ])).flat();
  return graph.build({
    inputs: [
      ["input_ids", "int64", ["batch_size", "sequence_length"]],
      ["attention_mask", "int64", ["batch_size", "total_sequence_length"]],
      ...cache("past_key_values", "past_sequence_length"),
    ],
    outputs: [
      givesHidden
        ? ["last_hidden_state", element, ["batch_size", "sequence_length", hidden]]
        : ["logits", element, ["batch_size", "sequence_length", vocab]],
      ...cache("present", "total_sequence_length"),
    ],
    opset: 14,
  });
}

/** Adds cosines and sines of every position, `[positions, headDim / 2]`. */
function addRotary(
  { positions, headDim, ropeTheta }: Qwen3Sizes,
  add: (name: string, shape: readonly number[], values: Float32Array<ArrayBuffer>) => string,
): void {
  const half = headDim / 2;
  const angles = Float64Array.from(
    { length: positions * half },
    (_, i) => Math.floor(i / half) * ropeTheta ** (-(i % half) / half),
  );
  add("cos_cache", [positions, half], Float32Array.from(angles, Math.cos));
  add("sin_cache", [positions, half], Float32Array.from(angles, Math.sin));
}
