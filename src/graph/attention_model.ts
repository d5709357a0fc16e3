/**
 * An ONNX model that computes one causal attention, for the prompts of a decoder.
 *
 * @module
 */
import {
  type AttributeValue,
  int64Tensor,
  makeNode,
  type ModelProto,
  type Tensor,
} from "./file/proto.ts";
import { makeValueInfo } from "./file/proto_write.ts";

/** The attention of one layer. */
interface CausalAttention {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly scale: number;
  /** `c` in `c * tanh(score / c)`; 0 for none. */
  readonly softcap: number;
  /** Keys a query sees, its own included; 0 for all. */
  readonly window: number;
}

/** The inputs of {@linkcode causalAttentionModel}, of one sequence, all f32. */
export const CAUSAL_INPUTS = {
  /** `[tokens, kvHeads, heads / kvHeads * headSize]`. */
  q: "q",
  /** Name of a head of keys, `[keys, headSize]`. */
  k: (head: number) => `k${head}`,
  v: (head: number) => `v${head}`,
  /** The position of each row's token, `[tokens * heads / kvHeads, 1]`. */
  queryPositions: "query_positions",
  /** The position of each key, `[1, keys]`. */
  keyPositions: "key_positions",
} as const;

/** Subtracted from a key's score for each position by which it lies outside the row's window. */
const OUT_OF_SIGHT = 1e30;

/**
 * Attention of tokens to all keys up to their own. Its output is `out`, shaped like the queries.
 *
 * Key heads are processed one by one, each with all query heads that share it, so that the scores of one stay in the
 * processor's cache.
 */
export function causalAttentionModel(attention: CausalAttention): ModelProto {
  const { kvHeads, headSize } = attention;
  const { q, k, v, queryPositions, keyPositions } = CAUSAL_INPUTS;
  const width = attention.heads / kvHeads * headSize;
  const each = <T>(make: (head: number) => T) =>
    Array.from({ length: kvHeads }, (_, head) => make(head));
  const swap = { attributes: { perm: [1, 0, 2] } };
  const nodes = [
    ...maskNodes(attention),
    makeNode("Transpose", [q], ["by_head"], swap),
    makeNode("Reshape", ["by_head", "rows_shape"], ["rows"]),
    makeNode("Split", ["rows"], each((head) => `rows${head}`), { attributes: { axis: 0 } }),
    ...each((head) => headNodes(head, attention)).flat(),
    makeNode("Concat", each((head) => `out${head}`), ["outs"], { attributes: { axis: 0 } }),
    makeNode("Reshape", ["outs", "tokens_shape"], ["outs_by_head"]),
    makeNode("Transpose", ["outs_by_head"], ["out"], swap),
  ];
  const declare = (name: string, shape: readonly (number | string)[]) =>
    makeValueInfo(name, "float32", shape);
  return {
    irVersion: 8,
    operatorSets: [{ domain: "", version: 17 }, { domain: "com.microsoft", version: 1 }],
    graph: {
      name: "causal_attention",
      nodes,
      initializers: [
        int64Tensor("rows_shape", [3], [kvHeads, -1, headSize]),
        int64Tensor("tokens_shape", [3], [kvHeads, -1, width]),
        scalar("zero", 0),
        scalar("out_of_sight", OUT_OF_SIGHT),
        scalar("window", attention.window - 1),
        scalar("softcap", attention.softcap),
      ],
      inputs: [
        declare(q, ["tokens", kvHeads, width]),
        ...each((head) => declare(k(head), ["keys", headSize])),
        ...each((head) => declare(v(head), ["keys", headSize])),
        declare(queryPositions, ["rows", 1]),
        declare(keyPositions, [1, "keys"]),
      ],
      outputs: [declare("out", ["tokens", kvHeads, width])],
      valueInfos: [],
      rest: [],
    },
    rest: [],
  };
}

/** `mask`, `[rows, keys]`: 0 for keys that a row sees, and so low for others that their weight rounds to 0. */
function maskNodes({ window }: CausalAttention) {
  const { queryPositions, keyPositions } = CAUSAL_INPUTS;
  return [
    makeNode("Sub", [queryPositions, keyPositions], ["distance"]),
    makeNode("Mul", ["distance", "out_of_sight"], ["ahead"]),
    makeNode("Min", ["ahead", "zero"], [window > 0 ? "causal" : "mask"]),
    ...window > 0
      ? [
        makeNode("Sub", ["window", "distance"], ["left"]),
        makeNode("Mul", ["left", "out_of_sight"], ["behind"]),
        makeNode("Min", ["behind", "causal"], ["mask"]),
      ]
      : [],
  ];
}

/** Softmax of `scale * q k^T`, capped and masked, times the values. */
function headNodes(head: number, { scale, softcap }: CausalAttention) {
  const { k, v } = CAUSAL_INPUTS;
  const name = (tensor: string) => `${tensor}${head}`;
  const alpha = { float: softcap > 0 ? scale / softcap : scale };
  const product: Record<string, AttributeValue> = { alpha, transB: 1 };
  return [
    makeNode("FusedMatMul", [name("rows"), k(head)], [name("scores")], {
      domain: "com.microsoft",
      attributes: product,
    }),
    ...softcap > 0
      ? [
        makeNode("Tanh", [name("scores")], [name("tanh")]),
        makeNode("Mul", [name("tanh"), "softcap"], [name("capped")]),
      ]
      : [],
    makeNode("Add", [name(softcap > 0 ? "capped" : "scores"), "mask"], [name("seen")]),
    makeNode("Softmax", [name("seen")], [name("weights")], { attributes: { axis: -1 } }),
    makeNode("MatMul", [name("weights"), v(head)], [name("out")]),
  ];
}

function scalar(name: string, value: number): Tensor {
  const bytes = new Uint8Array(Float32Array.of(value).buffer);
  return { name, dtype: "float32", shape: [], data: { kind: "memory", bytes }, rest: [] };
}
