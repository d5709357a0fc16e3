/**
 * The attentions of encoder graphs, as operators of ONNX Runtime or of ONNX, or spelled out.
 *
 * @module
 */
import {
  type FoundAttention,
  getInputName,
  getName,
  type Operand,
  positive,
  readScale,
  refuseInputs,
  requireConstant,
  requireKnownShape,
  requireValues,
  rows,
  type Search,
} from "./attention.ts";
import { type MaskReader, readVisibility, type Visibility } from "./attention_mask.ts";
import { readMultiHead } from "./attention_operators.ts";
import { describeNode } from "../graph_index.ts";
import {
  makeNode,
  type Node,
  readFloatAttribute,
  readIntAttribute,
  readIntsAttribute,
} from "../file/proto.ts";
import { type Lengths, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { findSpelledOut, type SpelledOutKind } from "./spelled_out.ts";
import { findRows } from "./traced_operand.ts";

/** The window that a node's mask input shows; `undefined` if every token sees all others. */
function findWindow(node: Node, search: Search, mask: string | undefined): number | undefined {
  if (mask === undefined) return undefined;
  const of = describeNode(node);
  const read = (lengths: Lengths) =>
    readVisibility(search.probes.at(lengths).value(mask), lengths, of);
  return proveWindow(read, search.contextLength, of);
}

function refuseCausal(node: Node, attribute: string): void {
  if (readIntAttribute(node, attribute) !== 1) return;
  throw new Refusal(`${describeNode(node)} is causal.`);
}

/**
 * @throws {Refusal} unless the padding mask of a text without padding hides nothing. It may be given as ones or as
 * lengths.
 */
function requireNoPadding(search: Search, node: Node, mask: string | undefined): void {
  if (mask === undefined) return;
  requireValues(search, mask, node, {
    what: "padding mask",
    is: ({ data, shape }, run) => {
      const wanted = shape.length === 1 ? SHORT_LENGTHS[run]!.numTokens : 1;
      return shape[0] === 1 && shape.length <= 2 && data?.every((x) => x === wanted) === true;
    },
  });
}

/** `MultiHeadAttention` of com.microsoft without a cache. */
function findMultiHead(node: Node, search: Search): FoundAttention | undefined {
  if (node.opType !== "MultiHeadAttention" || node.domain !== "com.microsoft") return undefined;
  refuseInputs(node, { past_key: 6, past_value: 7, past_sequence_length: 8, cache_indirection: 9 });
  refuseCausal(node, "unidirectional");
  requireNoPadding(search, node, getInputName(node, 4));
  return {
    ...readMultiHead(node, search),
    window: findWindow(node, search, getInputName(node, 5)),
    maxPositions: Infinity,
  };
}

/** `Attention` of com.microsoft, which projects queries, keys and values itself. */
function findProjecting(node: Node, search: Search): FoundAttention | undefined {
  if (node.opType !== "Attention" || node.domain !== "com.microsoft") return undefined;
  refuseInputs(node, { past: 4, past_sequence_length: 6 });
  refuseCausal(node, "unidirectional");
  if (readIntAttribute(node, "do_rotary") === 1) {
    throw new Refusal(`${describeNode(node)} rotates its queries and keys itself.`);
  }
  requireNoPadding(search, node, getInputName(node, 3));
  const [input, weights, bias] = node.inputs as [string, string, string?];
  const [, width] = requireConstant(search, weights, node).shape as [number, number];
  const sizes = readIntsAttribute(node, "qkv_hidden_sizes") ?? [width / 3, width / 3, width / 3];
  const [query, key, value] = sizes as [number, number, number];
  const heads = readIntAttribute(node, "num_heads") ?? 0;
  const [product, sum] = [`${node.outputs[0]}/projected`, `${node.outputs[0]}/biased`];
  const before = [makeNode("MatMul", [input, weights], [product])];
  if (bias) before.push(makeNode("Add", [product, bias], [sum]));
  const packed = bias ? sum : product;
  return {
    name: getName(node),
    q: rows(packed),
    k: rows(packed, query),
    v: rows(packed, query + key),
    before,
    output: { tensor: node.outputs[0]!, layout: "token_major" },
    heads,
    kvHeads: heads,
    headDim: query / heads,
    vHeadDim: value / heads,
    scale: readScale(node, query / heads),
    window: findWindow(node, search, getInputName(node, 5)),
    maxPositions: Infinity,
  };
}

/** `Attention` of ONNX's own operator set, since opset 23, without a cache. */
function findOnnx(node: Node, search: Search): FoundAttention | undefined {
  if (node.opType !== "Attention" || node.domain !== "") return undefined;
  refuseInputs(node, { past_key: 4, past_value: 5, nonpad_kv_seqlen: 6 });
  refuseCausal(node, "is_causal");
  const shapes = node.inputs.slice(0, 3).map((name) => requireKnownShape(search, name, node));
  const [query, key, value] = shapes as [readonly number[], readonly number[], readonly number[]];
  const layout = query.length === 4 ? "head_major" : "token_major";
  const isHeadMajor = layout === "head_major";
  const heads = isHeadMajor ? query[1]! : readIntAttribute(node, "q_num_heads") ?? 0;
  const kvHeads = isHeadMajor ? key[1]! : readIntAttribute(node, "kv_num_heads") ?? 0;
  const getSize = (shape: readonly number[]) => isHeadMajor ? shape[3]! : shape[2]! / kvHeads;
  const operands = node.inputs.map((tensor): Operand => ({ tensor, layout, offset: 0 }));
  return {
    name: getName(node),
    q: operands[0]!,
    k: operands[1]!,
    v: operands[2]!,
    output: { tensor: node.outputs[0]!, layout },
    heads,
    kvHeads,
    headDim: getSize(key),
    vHeadDim: getSize(value),
    scale: readScale(node, getSize(key)),
    softcap: positive(readFloatAttribute(node, "softcap")),
    window: findWindow(node, search, getInputName(node, 3)),
    maxPositions: Infinity,
  };
}

/** Spelled-out attentions of encoders, whose operands are rows of tokens. */
const OF_ROWS: SpelledOutKind = {
  trace(search, { queries, keys, values, heads, of }) {
    const q = findRows(search, queries, { heads, isTransposed: false });
    const k = findRows(search, keys, { heads, isTransposed: true });
    const v = findRows(search, values, { heads, isTransposed: false });
    if (q !== undefined && k !== undefined && v !== undefined && q.heads === heads) {
      return { q, k, v };
    }
    throw new Refusal(
      `The operands of the attention around ${of} cannot be traced back to the rows of tokens.`,
    );
  },
  takesBiases: false,
  prove: (read, contextLength, of) => ({
    window: proveWindow(read, contextLength, of),
    maxPositions: Infinity,
  }),
};

/** Finds every attention of an encoder, in the graph's order. @throws {Refusal} when Hearth cannot compute one. */
export function findEncoderAttentions(search: Search): FoundAttention[] {
  const ofRows = (node: Node) => findSpelledOut(node, search, OF_ROWS);
  const finders = [findMultiHead, findProjecting, findOnnx, ofRows];
  return search.index.graph.nodes.flatMap((node) => {
    for (const find of finders) {
      const found = find(node, search);
      if (found !== undefined) return [found];
    }
    return [];
  });
}

/** Tokens of the longest text that is evaluated: the time grows with their square. Windows of encoders are shorter. */
const MAX_TOKENS = 600;
const SHORT_TEXTS = [1, 3, 5];

/** The mask of a text. */
interface EvaluatedMask {
  readonly numTokens: number;
  readonly visible: Visibility;
}

function sees({ visible, numTokens }: EvaluatedMask, window: number): boolean {
  for (let query = 0, i = 0; query < numTokens; query++) {
    for (let key = 0; key < numTokens; key++, i++) {
      if (visible[i] !== (Math.abs(key - query) <= window ? 1 : 0)) return false;
    }
  }
  return true;
}

/**
 * The mask of the longest text of up to `limit` tokens for which it can be computed: position tables may be shorter.
 */
function longestMask(read: MaskReader, limit: number): EvaluatedMask | undefined {
  const evaluate = (numTokens: number): EvaluatedMask | undefined => {
    const visible = read({ pastLength: 0, numTokens });
    return visible && { numTokens, visible };
  };
  let found = evaluate(limit);
  if (found !== undefined) return found;
  for (let [known, unknown] = [0, limit]; unknown - known > 1;) {
    const middle = Math.floor((known + unknown) / 2);
    const seen = evaluate(middle);
    found = seen ?? found;
    if (seen) known = middle;
    else unknown = middle;
  }
  return found;
}

/**
 * Proves that each token of a text sees all tokens, or those within a window on either side.
 *
 * @param read computes the mask of a text without padding.
 * @param contextLength tokens of the longest text that will be run.
 * @param of the attention, for messages.
 * @returns the window; `undefined` if each token sees all tokens.
 * @throws {Refusal} when the mask cannot be computed, or is of another kind.
 */
function proveWindow(
  read: MaskReader,
  contextLength: number,
  of: string,
): number | undefined {
  const longest = longestMask(read, Math.min(contextLength, MAX_TOKENS));
  if (longest === undefined || longest.numTokens < SHORT_TEXTS.at(-1)!) {
    throw new Refusal(`The mask of ${of} cannot be computed by partial evaluation.`);
  }
  const hidden = longest.visible.subarray(0, longest.numTokens).indexOf(0);
  const window = hidden < 0 ? Infinity : hidden - 1;
  const short = SHORT_TEXTS.map((numTokens) => ({
    numTokens,
    visible: read({ pastLength: 0, numTokens })!,
  }));
  for (const looked of [...short, longest]) {
    if (window >= 0 && sees(looked, window)) continue;
    throw new Refusal(
      `In a text of ${looked.numTokens} tokens, the mask of ${of} hides some keys, but not as a window would.`,
    );
  }
  return window === Infinity ? undefined : window;
}
