/**
 * The twins of published models (see `twin.ts`) as GGUF files in Q4_0, with llama.cpp's names for tensors and settings.
 *
 * @module
 */
import { f32, ggufFile, type GgufTensor, q4 } from "./gguf.ts";
import { CONV_TAPS, type HybridName, type HybridSizes, LINEAR, SIZES } from "./hybrid.ts";
import { QWEN3 } from "./qwen3.ts";

/** The file of {@linkcode QWEN3}, which is written if it does not exist. */
export async function qwen3Gguf(): Promise<string> {
  const { layers, epsilon, ropeTheta } = QWEN3;
  return await ggufFile({
    name: "qwen3-0.6b-gguf-2",
    architecture: "qwen3",
    vocab: QWEN3.vocab,
    ints: { ...countCommon(QWEN3), block_count: layers, "attention.head_count_kv": QWEN3.kvHeads },
    floats: { "rope.freq_base": ropeTheta, "attention.layer_norm_rms_epsilon": epsilon },
    tensors: [
      ...listEnds("output_norm", QWEN3),
      ...Array.from({ length: layers }, (_, layer) => `blk.${layer}`).flatMap((block) => [
        f32(`${block}.attn_norm.weight`, [QWEN3.hidden]),
        f32(`${block}.ffn_norm.weight`, [QWEN3.hidden]),
        ...listAttention(block, QWEN3),
        ...listFeedForward(block, QWEN3),
      ]),
    ],
  });
}

/** The file of a hybrid decoder's twin, which is written if it does not exist. */
export async function hybridGguf(name: HybridName): Promise<string> {
  const sizes = SIZES[name];
  const { layers, epsilon, hidden, headDim, kvHeads } = sizes;
  const isLfm2 = name === "lfm2-350m";
  const width = LINEAR.heads * LINEAR.headDim;
  return await ggufFile({
    name: `${name}-gguf-3`,
    architecture: isLfm2 ? "lfm2" : "qwen35",
    vocab: sizes.vocab,
    ints: {
      ...countCommon(sizes),
      block_count: layers.length,
      // Layers with 0 key heads are recurrent.
      "attention.head_count_kv": isLfm2
        ? layers.map((kind) => kind === "full_attention" ? kvHeads : 0)
        : kvHeads,
      ...isLfm2 ? { vocab_size: sizes.vocab, "shortconv.l_cache": CONV_TAPS } : {
        "rope.dimension_count": headDim,
        "rope.dimension_sections": [headDim / 2, 0, 0, 0],
        full_attention_interval: 4,
        "ssm.conv_kernel": LINEAR.taps,
        "ssm.inner_size": width,
        "ssm.state_size": LINEAR.headDim,
        "ssm.time_step_rank": LINEAR.heads,
        "ssm.group_count": LINEAR.heads,
      },
    },
    floats: { "rope.freq_base": 1e6, "attention.layer_norm_rms_epsilon": epsilon },
    tensors: [
      ...listEnds(isLfm2 ? "token_embd_norm" : "output_norm", sizes),
      ...layers.flatMap((kind, layer) => {
        const block = `blk.${layer}`;
        return [
          f32(`${block}.attn_norm.weight`, [hidden]),
          f32(`${block}.${isLfm2 ? "ffn_norm" : "post_attention_norm"}.weight`, [hidden]),
          ...kind === "conv"
            ? listShortConvolution(block, hidden)
            : kind === "linear_attention"
            ? listLinearAttention(block, hidden)
            : listAttention(block, sizes),
          ...listFeedForward(block, sizes),
        ];
      }),
    ],
  });
}

/** Settings that all models have. */
function countCommon(
  { hidden, intermediate, heads, headDim }: Pick<
    HybridSizes,
    "hidden" | "intermediate" | "heads" | "headDim"
  >,
): Record<string, number> {
  return {
    context_length: 8192,
    embedding_length: hidden,
    feed_forward_length: intermediate,
    "attention.head_count": heads,
    "attention.key_length": headDim,
    "attention.value_length": headDim,
  };
}

/** The embeddings, which the vocabulary projection shares, and the last norm. */
function listEnds(
  norm: string,
  { hidden, vocab }: Pick<HybridSizes, "hidden" | "vocab">,
): GgufTensor[] {
  return [
    q4("token_embd.weight", [hidden, vocab]),
    f32(`${norm}.weight`, [hidden]),
  ];
}

function listAttention(
  block: string,
  { hidden, heads, kvHeads, headDim, isGated = false }:
    & Pick<HybridSizes, "hidden" | "heads" | "kvHeads" | "headDim">
    & Partial<Pick<HybridSizes, "isGated">>,
): GgufTensor[] {
  return [
    f32(`${block}.attn_q_norm.weight`, [headDim]),
    f32(`${block}.attn_k_norm.weight`, [headDim]),
    q4(`${block}.attn_q.weight`, [hidden, (isGated ? 2 : 1) * heads * headDim]),
    q4(`${block}.attn_k.weight`, [hidden, kvHeads * headDim]),
    q4(`${block}.attn_v.weight`, [hidden, kvHeads * headDim]),
    q4(`${block}.attn_output.weight`, [heads * headDim, hidden]),
  ];
}

function listFeedForward(
  block: string,
  { hidden, intermediate }: Pick<HybridSizes, "hidden" | "intermediate">,
): GgufTensor[] {
  return [
    q4(`${block}.ffn_gate.weight`, [hidden, intermediate]),
    q4(`${block}.ffn_up.weight`, [hidden, intermediate]),
    q4(`${block}.ffn_down.weight`, [intermediate, hidden]),
  ];
}

function listShortConvolution(block: string, hidden: number): GgufTensor[] {
  return [
    f32(`${block}.shortconv.conv.weight`, [CONV_TAPS, hidden], 0.5),
    q4(`${block}.shortconv.in_proj.weight`, [hidden, 3 * hidden]),
    q4(`${block}.shortconv.out_proj.weight`, [hidden, hidden]),
  ];
}

function listLinearAttention(block: string, hidden: number): GgufTensor[] {
  const { heads, headDim, taps } = LINEAR;
  const width = heads * headDim;
  return [
    q4(`${block}.attn_qkv.weight`, [hidden, 3 * width]),
    q4(`${block}.attn_gate.weight`, [hidden, width]),
    f32(`${block}.ssm_conv1d.weight`, [taps, 3 * width], 0.5),
    f32(`${block}.ssm_dt.bias`, [heads], 0),
    f32(`${block}.ssm_a`, [heads], -0.5),
    q4(`${block}.ssm_beta.weight`, [hidden, heads]),
    q4(`${block}.ssm_alpha.weight`, [hidden, heads]),
    f32(`${block}.ssm_norm.weight`, [headDim]),
    q4(`${block}.ssm_out.weight`, [width, hidden]),
  ];
}
