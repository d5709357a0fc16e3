/**
 * `Attention` of ONNX's own operator set, since opset 23.
 *
 * @see https://onnx.ai/onnx/operators/onnx__Attention.html
 * @module
 */
import {
  type FoundAttention,
  inputName,
  knownShape,
  type Layout,
  positive,
  proveNodeMask,
  refuseInputs,
  requireCache,
  scaleOf,
  type Search,
} from "./attention.ts";
import type { ProvenMask } from "./attention_mask.ts";
import { floatAttribute, intAttribute, type Node } from "./proto.ts";

/** Causal by attribute, by mask or both; since opset 25 a window may come by attribute, too. */
function maskOf(node: Node, search: Search): ProvenMask {
  const { localWindow, maxPositions } = proveNodeMask(node, search, {
    mask: inputName(node, 3),
    isCausal: intAttribute(node, "is_causal") === 1 ||
      intAttribute(node, "right_window_size") === 0,
  });
  const left = intAttribute(node, "left_window_size") ?? -1;
  if (left < 0) return { localWindow, maxPositions };
  return { localWindow: Math.min(localWindow ?? Infinity, left + 1), maxPositions };
}

/** ONNX's own `Attention`, with operands of rank 3 (token-major) or 4 (head-major). */
export function findOnnxAttention(
  node: Node,
  search: Search,
): FoundAttention | undefined {
  if (node.opType !== "Attention" || node.domain !== "") return undefined;
  requireCache(search, node, inputName(node, 4), inputName(node, 5));
  refuseInputs(node, { nonpad_kv_seqlen: 6 });
  const [query, key, value] = node.inputs as [string, string, string];
  const [queryShape, keyShape, valueShape] = [query, key, value].map((tensor) =>
    knownShape(search, tensor, node)
  ) as [readonly number[], readonly number[], readonly number[]];
  const isHeadMajor = queryShape.length === 4;
  const heads = isHeadMajor ? queryShape[1]! : intAttribute(node, "q_num_heads") ?? 0;
  const kvHeads = isHeadMajor ? keyShape[1]! : intAttribute(node, "kv_num_heads") ?? 0;
  const headDim = isHeadMajor ? queryShape[3]! : queryShape[2]! / heads;
  const vHeadDim = isHeadMajor ? valueShape[3]! : valueShape[2]! / kvHeads;
  const layout: Layout = isHeadMajor ? "head_major" : "token_major";
  return {
    name: node.name,
    q: { tensor: query, layout, offset: 0 },
    k: { tensor: key, layout, offset: 0 },
    v: { tensor: value, layout, offset: 0 },
    output: { tensor: node.outputs[0]!, layout },
    heads,
    kvHeads,
    headDim,
    vHeadDim,
    scale: scaleOf(node, headDim),
    softcap: positive(floatAttribute(node, "softcap")),
    ...maskOf(node, search),
  };
}
