/**
 * A model of one attention node, for a decoder's prompts.
 *
 * @module
 */
import { makeNode, type ModelProto } from "./file/proto.ts";
import { makeValueInfo } from "./file/proto_write.ts";

/** The attention of one layer. */
export interface CausalAttention {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly scale: number;
  /** `c` in `c * tanh(score / c)`; 0 for none. */
  readonly softcap: number;
  /** Keys a query sees, its own included; 0 for all. */
  readonly window: number;
}

/** The inputs of {@linkcode causalAttentionModel}, of one sequence; all but the counts are f32. */
export const CAUSAL_INPUTS = {
  /** `[1, tokens, heads * headSize]`. */
  q: "q",
  /** `[1, tokens, kvHeads * headSize]`. */
  k: "k",
  v: "v",
  /** `[1, kvHeads, past, headSize]`. */
  pastK: "past_k",
  pastV: "past_v",
  /** i32 `[1]`: all keys but one. */
  lastKey: "last_key",
  /** i32 `[1]`: all keys. */
  numKeys: "num_keys",
} as const;

/**
 * Attention of a sequence's new tokens to those before and to each other, in ONNX Runtime's operator; its output is
 * `out`.
 */
export function causalAttentionModel(attention: CausalAttention): ModelProto {
  const { heads, kvHeads, headSize, scale, softcap, window } = attention;
  const { q, k, v, pastK, pastV, lastKey, numKeys } = CAUSAL_INPUTS;
  const inputs = [q, k, v, pastK, pastV, lastKey, numKeys];
  // Without these outputs ONNX Runtime 1.30 silently ignores the past.
  const node = makeNode("GroupQueryAttention", inputs, ["out", "all_k", "all_v"], {
    domain: "com.microsoft",
    attributes: {
      num_heads: heads,
      kv_num_heads: kvHeads,
      scale: { float: scale },
      ...(softcap > 0 ? { softcap: { float: softcap } } : {}),
      ...(window > 0 ? { local_window_size: window } : {}),
    },
  });
  const rows = (name: string, width: number) =>
    makeValueInfo(name, "float32", [1, "tokens", width]);
  const cache = (name: string, numKeys: string) =>
    makeValueInfo(name, "float32", [1, kvHeads, numKeys, headSize]);
  return {
    irVersion: 8,
    operatorSets: [{ domain: "", version: 17 }, { domain: "com.microsoft", version: 1 }],
    graph: {
      name: "causal_attention",
      nodes: [node],
      initializers: [],
      inputs: [
        rows(q, heads * headSize),
        ...[k, v].map((name) => rows(name, kvHeads * headSize)),
        ...[pastK, pastV].map((name) => cache(name, "past")),
        ...[lastKey, numKeys].map((name) => makeValueInfo(name, "int32", [1])),
      ],
      outputs: [
        rows("out", heads * headSize),
        ...["all_k", "all_v"].map((name) => cache(name, "keys")),
      ],
      valueInfos: [],
      rest: [],
    },
    rest: [],
  };
}
