/**
 * `Attention` of ONNX's own operator set, since opset 23.
 *
 * @see https://onnx.ai/onnx/operators/onnx__Attention.html
 * @module
 */
import {
  type FoundAttention,
  getName,
  inputName,
  knownShape,
  type Layout,
  type Operand,
  positive,
  proveNodeMask,
  readScale,
  refuseInputs,
  requireCache,
  type Search,
} from "./attention.ts";
import type { ProvenMask } from "./attention_mask.ts";
import { followCache, type SpelledOutOperand } from "./traced_operand.ts";
import { describeNode } from "../graph_index.ts";
import { floatAttribute, intAttribute, type Node } from "../file/proto.ts";
import { Refusal } from "../refusal.ts";

/** Causal by attribute, by mask or both; since opset 25 a window may come by attribute, too. */
function proveMask(node: Node, search: Search, hasPast: boolean): ProvenMask {
  const isCausal = intAttribute(node, "is_causal") === 1 ||
    intAttribute(node, "right_window_size") === 0;
  if (isCausal && !hasPast) {
    // Without a past its first query is aligned with the first key.
    throw new Refusal(`${describeNode(node)} is causal by attribute, but has no past.`);
  }
  const { localWindow, maxPositions } = proveNodeMask(node, search, {
    mask: inputName(node, 3),
    isCausal,
  });
  const left = intAttribute(node, "left_window_size") ?? -1;
  if (left < 0) return { localWindow, maxPositions };
  return { localWindow: Math.min(localWindow ?? Infinity, left + 1), maxPositions };
}

/** The operands q, k and v; keys are cached by the operator itself or by nodes in front of it. */
interface Operands {
  readonly k: Operand;
  readonly v: Operand;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vHeadDim: number;
  /** The factor applied to keys between the cache and the product. */
  readonly factor: number;
}

/** Keys and values of the step's tokens, cached by the operator. */
function operandsWithPast(node: Node, search: Search, layout: Layout): Operands {
  requireCache(search, node, inputName(node, 4), inputName(node, 5));
  const [, key, value] = node.inputs as [string, string, string];
  const [keyShape, valueShape] = [key, value].map((tensor) => knownShape(search, tensor, node)) as [
    readonly number[],
    readonly number[],
  ];
  const isHeadMajor = layout === "head_major";
  const kvHeads = isHeadMajor ? keyShape[1]! : intAttribute(node, "kv_num_heads") ?? 0;
  return {
    k: { tensor: key, layout, offset: 0 },
    v: { tensor: value, layout, offset: 0 },
    kvHeads,
    headDim: isHeadMajor ? keyShape[3]! : keyShape[2]! / kvHeads,
    vHeadDim: isHeadMajor ? valueShape[3]! : valueShape[2]! / kvHeads,
    factor: 1,
  };
}

/** Keys and values that the graph has already appended to its cache. */
function operandsWithCache(node: Node, search: Search): Operands {
  const [, key, value] = node.inputs as [string, string, string];
  const [keys, values] = [key, value].map((tensor) => {
    const heads = knownShape(search, tensor, node)[1]!;
    const cached = followCache(search, tensor, { heads, isTransposed: false });
    if (cached !== undefined && cached !== "changed") return cached;
    throw new Refusal(
      `${describeNode(node)} reads "${tensor}", which is ` +
        (cached ? "changed after it was cached." : "no cache of past keys or values."),
    );
  }) as [SpelledOutOperand, SpelledOutOperand];
  if (values.factor !== 1) throw new Refusal(`${describeNode(node)} reads scaled values.`);
  return {
    k: keys.operand,
    v: values.operand,
    kvHeads: keys.heads,
    headDim: keys.size,
    vHeadDim: values.size,
    factor: keys.factor,
  };
}

/** ONNX's own `Attention`, with operands of rank 3 (token-major) or 4 (head-major). */
export function findOnnxAttention(
  node: Node,
  search: Search,
): FoundAttention | undefined {
  if (node.opType !== "Attention" || node.domain !== "") return undefined;
  refuseInputs(node, { nonpad_kv_seqlen: 6 });
  const query = node.inputs[0]!;
  const shape = knownShape(search, query, node);
  const layout: Layout = shape.length === 4 ? "head_major" : "token_major";
  const hasPast = inputName(node, 4) !== undefined || layout === "token_major";
  const { factor, ...operands } = hasPast
    ? operandsWithPast(node, search, layout)
    : operandsWithCache(node, search);
  return {
    name: getName(node),
    q: { tensor: query, layout, offset: 0 },
    ...operands,
    output: { tensor: node.outputs[0]!, layout },
    heads: layout === "head_major" ? shape[1]! : intAttribute(node, "q_num_heads") ?? 0,
    scale: readScale(node, operands.headDim) * factor,
    softcap: positive(floatAttribute(node, "softcap")),
    ...proveMask(node, search, hasPast),
  };
}
