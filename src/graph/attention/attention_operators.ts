/**
 * Attention operators with a mask input: `MultiHeadAttention` of ONNX Runtime's own operator set (com.microsoft), and
 * `Attention` of ONNX since opset 23.
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 * @see https://onnx.ai/onnx/operators/onnx__Attention.html
 * @module
 */
import {
  type FoundAttention,
  getInputName,
  getName,
  type Layout,
  type Operand,
  positive,
  proveNodeMask,
  readScale,
  refuseInputs,
  requireCache,
  requireKnownShape,
  requireValues,
  rows,
  type Search,
} from "./attention.ts";
import { describeNode } from "../graph_index.ts";
import {
  int64Tensor,
  makeNode,
  type Node,
  readFloatAttribute,
  readIntAttribute,
} from "../file/proto.ts";
import { Refusal } from "../refusal.ts";
import type { ProvenMask } from "./attention_mask.ts";
import { followCache, type SpelledOutOperand } from "./traced_operand.ts";

/** q, k and v of a `MultiHeadAttention`: separate, or packed head by head as `[batch, tokens, heads, 2 or 3, size]`. */
function readMultiHeadOperands(
  node: Node,
  search: Search,
  heads: number,
): Required<Pick<FoundAttention, "q" | "k" | "v" | "headDim" | "vHeadDim">> & {
  readonly before: readonly Node[];
} {
  const [query, key, value] = node.inputs as [string, string?, string?];
  const shape = requireKnownShape(search, query, node);
  const unpack = (tensor: string, parts: number, size: number) => {
    const unpacked = `${tensor}/unpacked`;
    const node = makeNode("Transpose", [tensor], [unpacked], {
      attributes: { perm: [0, 1, 3, 2, 4] },
    });
    const at = (part: number) => rows(unpacked, part * heads * size);
    return { before: [node], parts: Array.from({ length: parts }, (_, part) => at(part)) };
  };
  if (shape.length === 5) {
    const { before, parts } = unpack(query, 3, shape[4]!);
    return {
      before,
      q: parts[0]!,
      k: parts[1]!,
      v: parts[2]!,
      headDim: shape[4]!,
      vHeadDim: shape[4]!,
    };
  }
  const headDim = shape.at(-1)! / heads;
  const keyShape = key ? requireKnownShape(search, key, node) : [];
  if (keyShape.length === 5) {
    const { before, parts } = unpack(key!, 2, headDim);
    return { before, q: rows(query), k: parts[0]!, v: parts[1]!, headDim, vHeadDim: headDim };
  }
  const valueShape = value ? requireKnownShape(search, value, node) : [];
  if (
    !key || !value || keyShape.length !== 3 || keyShape[1] !== shape[1] || valueShape.length !== 3
  ) {
    throw new Refusal(
      `${describeNode(node)} attends to keys that are not those of its own tokens.`,
    );
  }
  const vHeadDim = valueShape[2]! / heads;
  return { before: [], q: rows(query), k: rows(key), v: rows(value), headDim, vHeadDim };
}

/** Replaces the operator's bias by nodes that add the bias before the operator. */
function addBias(
  name: string,
  operands: Pick<FoundAttention, "q" | "k" | "v">,
  { bias, heads, headDim, vHeadDim }: {
    readonly bias: string;
    readonly heads: number;
    readonly headDim: number;
    readonly vHeadDim: number;
  },
): Pick<FoundAttention, "q" | "k" | "v" | "before" | "constants"> {
  const edges = [0, headDim, 2 * headDim, 2 * headDim + vHeadDim].map((edge) => edge * heads);
  const constants = edges.map((edge) => int64Tensor(`${name}/bias_edge_${edge}`, [1], [edge]));
  const before: Node[] = [];
  const [q, k, v] = (["q", "k", "v"] as const).map((part, i) => {
    const [own, sum] = [`${name}/${part}_bias`, `${name}/${part}_biased`];
    before.push(
      makeNode("Slice", [bias, constants[i]!.name, constants[i + 1]!.name], [own]),
      makeNode("Add", [operands[part].tensor, own], [sum]),
    );
    return rows(sum);
  });
  return { q: q!, k: k!, v: v!, before, constants };
}

/**
 * Reads a `MultiHeadAttention` node except for its mask.
 *
 * @throws {Refusal} when it reads keys of other tokens, or has packed operands and a bias.
 */
export function readMultiHead(node: Node, search: Search): Omit<FoundAttention, "maxPositions"> {
  const heads = readIntAttribute(node, "num_heads") ?? 0;
  const { before, headDim, vHeadDim, ...operands } = readMultiHeadOperands(node, search, heads);
  const bias = getInputName(node, 3);
  if (bias !== undefined && before.length > 0) {
    throw new Refusal(`${describeNode(node)} has packed operands and a bias at once.`);
  }
  return {
    name: getName(node),
    ...operands,
    before,
    ...(bias ? addBias(node.outputs[0]!, operands, { bias, heads, headDim, vHeadDim }) : {}),
    output: { tensor: node.outputs[0]!, layout: "token_major" },
    heads,
    kvHeads: heads,
    headDim,
    vHeadDim,
    scale: readScale(node, headDim),
  };
}

/** Finds a `MultiHeadAttention` over a cache. */
export function findMultiHeadAttention(
  node: Node,
  search: Search,
): FoundAttention | undefined {
  if (node.opType !== "MultiHeadAttention" || node.domain !== "com.microsoft") return undefined;
  requireCache(search, node, getInputName(node, 6), getInputName(node, 7));
  refuseInputs(node, { past_sequence_length: 8, cache_indirection: 9 });
  const padding = getInputName(node, 4);
  if (padding !== undefined) {
    requireValues(search, padding, node, {
      what: "padding mask",
      is: ({ data, shape }) =>
        shape.length === 2 && data !== undefined && data.every((x) => x === 1),
    });
  }
  return {
    ...readMultiHead(node, search),
    ...proveNodeMask(node, search, {
      mask: getInputName(node, 5),
      isCausal: readIntAttribute(node, "unidirectional") === 1,
    }),
  };
}

/**
 * Proves the mask of an `Attention` that is causal by its attribute, by its mask or by both. Opset 25 adds attributes
 * for a window.
 */
function proveMask(node: Node, search: Search, hasPast: boolean): ProvenMask {
  const isCausal = readIntAttribute(node, "is_causal") === 1 ||
    readIntAttribute(node, "right_window_size") === 0;
  if (isCausal && !hasPast) {
    // Without a past, the operator aligns the first query with the first key.
    throw new Refusal(`${describeNode(node)} is causal by attribute, but has no past.`);
  }
  const mask = proveNodeMask(node, search, { mask: getInputName(node, 3), isCausal });
  const left = readIntAttribute(node, "left_window_size") ?? -1;
  if (left < 0) return mask;
  return { ...mask, localWindow: Math.min(mask.localWindow ?? Infinity, left + 1) };
}

/** Keys and values of `Attention`, which the operator caches itself, or which nodes in front of it cache. */
interface Operands {
  readonly k: Operand;
  readonly v: Operand;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vHeadDim: number;
  /** The factor that scales cached keys before the product. */
  readonly factor: number;
}

/** Reads the keys and values if the operator caches them. */
function readOperandsWithPast(node: Node, search: Search, layout: Layout): Operands {
  requireCache(search, node, getInputName(node, 4), getInputName(node, 5));
  const [, key, value] = node.inputs as [string, string, string];
  const [keyShape, valueShape] = [key, value].map((tensor) =>
    requireKnownShape(search, tensor, node)
  ) as [
    readonly number[],
    readonly number[],
  ];
  const isHeadMajor = layout === "head_major";
  const kvHeads = isHeadMajor ? keyShape[1]! : readIntAttribute(node, "kv_num_heads") ?? 0;
  return {
    k: { tensor: key, layout, offset: 0 },
    v: { tensor: value, layout, offset: 0 },
    kvHeads,
    headDim: isHeadMajor ? keyShape[3]! : keyShape[2]! / kvHeads,
    vHeadDim: isHeadMajor ? valueShape[3]! : valueShape[2]! / kvHeads,
    factor: 1,
  };
}

/** Reads the keys and values if nodes in front of the operator append them to a cache. */
function readOperandsWithCache(node: Node, search: Search): Operands {
  const [, key, value] = node.inputs as [string, string, string];
  const [keys, values] = [key, value].map((tensor) => {
    const heads = requireKnownShape(search, tensor, node)[1]!;
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

/** Finds an `Attention` over a cache, with operands of rank 3 (token-major) or 4 (head-major). */
export function findOnnxAttention(
  node: Node,
  search: Search,
): FoundAttention | undefined {
  if (node.opType !== "Attention" || node.domain !== "") return undefined;
  refuseInputs(node, { nonpad_kv_seqlen: 6 });
  const query = node.inputs[0]!;
  const shape = requireKnownShape(search, query, node);
  const layout: Layout = shape.length === 4 ? "head_major" : "token_major";
  const hasPast = getInputName(node, 4) !== undefined || layout === "token_major";
  const { factor, ...operands } = hasPast
    ? readOperandsWithPast(node, search, layout)
    : readOperandsWithCache(node, search);
  return {
    name: getName(node),
    q: { tensor: query, layout, offset: 0 },
    ...operands,
    output: { tensor: node.outputs[0]!, layout },
    heads: layout === "head_major" ? shape[1]! : readIntAttribute(node, "q_num_heads") ?? 0,
    scale: readScale(node, operands.headDim) * factor,
    softcap: positive(readFloatAttribute(node, "softcap")),
    ...proveMask(node, search, hasPast),
  };
}
