/**
 * `GroupQueryAttention` of ONNX Runtime's own operator set (com.microsoft).
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 * @module
 */
import {
  arePositions,
  type FoundAttention,
  getName,
  inputName,
  knownShape,
  positive,
  readScale,
  refuseInputs,
  requireCache,
  requireConstant,
  requireValues,
  rows,
  type Search,
} from "./attention.ts";
import { normaliseHeads } from "./head_norms.ts";
import type { StoredTensor } from "../file/stored_tensor.ts";
import { describeNode } from "../graph_index.ts";
import { floatAttribute, intAttribute, type Node, stringAttribute } from "../file/proto.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";

function readRotary(node: Node, search: Search): FoundAttention["rotary"] {
  if (intAttribute(node, "do_rotary") !== 1) return undefined;
  const [cosName, sinName] = [inputName(node, 7), inputName(node, 8)];
  if (cosName === undefined || sinName === undefined) {
    throw new Refusal(`${describeNode(node)} is to rotate but has no cos_cache and sin_cache.`);
  }
  const positions = inputName(node, 9);
  if (positions !== undefined) {
    requireValues(search, positions, node, { what: "positions", is: arePositions });
  }
  const cos = requireConstant(search, cosName, node);
  return {
    cos,
    sin: requireConstant(search, sinName, node),
    dim: intAttribute(node, "rotary_embedding_dim") || 2 * (cos.shape[1] ?? 0),
    interleaved: intAttribute(node, "rotary_interleaved") === 1,
  };
}

/** `head_sink`, or zeros for `smooth_softmax`, which has the same effect. */
function readSinks(node: Node, search: Search, heads: number): StoredTensor | undefined {
  const sink = inputName(node, 11);
  if (sink !== undefined) return requireConstant(search, sink, node);
  if (intAttribute(node, "smooth_softmax") !== 1) return undefined;
  return {
    name: `${node.outputs[0]}/zero_sinks`,
    dtype: "float32",
    shape: [heads],
    data: { kind: "memory", bytes: new Uint8Array(heads * 4) },
  };
}

/** `GroupQueryAttention`: always causal, q, k and v packed or separate. */
export function findGroupQueryAttention(
  node: Node,
  search: Search,
): FoundAttention | undefined {
  if (node.opType !== "GroupQueryAttention" || node.domain !== "com.microsoft") return undefined;
  const heads = intAttribute(node, "num_heads") ?? 0;
  const kvHeads = intAttribute(node, "kv_num_heads") ?? heads;
  refuseInputs(node, { attention_bias: 10, k_scale: 12, v_scale: 13 });
  if (intAttribute(node, "causal") === 0) {
    throw new Refusal(`${describeNode(node)} is not causal.`);
  }
  for (const name of ["k_quant_type", "v_quant_type"]) {
    if ((stringAttribute(node, name) ?? "NONE") !== "NONE") {
      throw new Refusal(`${describeNode(node)} keeps its cache quantised.`);
    }
  }
  requireCache(search, node, inputName(node, 3), inputName(node, 4));
  requireValues(search, node.inputs[5]!, node, {
    what: "lengths",
    is: ({ data }, run) => {
      const { pastLength, numTokens } = SHORT_LENGTHS[run]!;
      return data?.length === 1 && data[0] === pastLength + numTokens - 1;
    },
  });
  const [query, key, value] = node.inputs as [string, string, string];
  const isPacked = !key;
  const width = knownShape(search, query, node).at(-1)!;
  const headDim = width / (isPacked ? heads + 2 * kvHeads : heads);
  const vHeadDim = isPacked ? headDim : knownShape(search, value, node).at(-1)! / kvHeads;
  const cached = search.probes.at(SHORT_LENGTHS[0]).value(node.inputs[3]!)?.shape[3];
  if (!Number.isInteger(headDim) || (cached ?? headDim) !== headDim) {
    throw new Refusal(
      `${describeNode(node)} has heads of ${headDim} by its query and of ${cached} by its cache` +
        (isPacked ? "; it may read another layer's keys." : "."),
    );
  }
  const rotary = readRotary(node, search);
  return normaliseHeads(node, {
    name: getName(node),
    q: rows(query),
    k: isPacked ? rows(query, heads * headDim) : rows(key),
    v: isPacked ? rows(query, (heads + kvHeads) * headDim) : rows(value),
    output: { tensor: node.outputs[0]!, layout: "token_major" },
    heads,
    kvHeads,
    headDim,
    vHeadDim,
    scale: readScale(node, headDim),
    rotary,
    localWindow: positive(intAttribute(node, "local_window_size")),
    softcap: positive(floatAttribute(node, "softcap")),
    sinks: readSinks(node, search, heads),
    maxPositions: rotary?.cos.shape[0] ?? Infinity,
  });
}
