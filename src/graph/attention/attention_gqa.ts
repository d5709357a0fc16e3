/**
 * `GroupQueryAttention` of ONNX Runtime's own operator set (com.microsoft).
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 * @module
 */
import {
  type FoundAttention,
  getInputName,
  getName,
  holdsPositions,
  type Operand,
  positive,
  proveNodeMask,
  readScale,
  refuseBiasedSinks,
  refuseInputs,
  requireCache,
  requireConstant,
  requireKnownShape,
  requireValues,
  rows,
  type Search,
} from "./attention.ts";
import type { StoredTensor } from "../file/tensor.ts";
import { describeNode } from "../graph_index.ts";
import {
  type AttributeValue,
  int64Tensor,
  makeNode,
  type Node,
  readFloatAttribute,
  readIntAttribute,
  readStringAttribute,
  type Tensor,
} from "../file/proto.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";

function readRotary(node: Node, search: Search): FoundAttention["rotary"] {
  if (readIntAttribute(node, "do_rotary") !== 1) return undefined;
  const [cosName, sinName] = [getInputName(node, 7), getInputName(node, 8)];
  if (cosName === undefined || sinName === undefined) {
    throw new Refusal(`${describeNode(node)} has do_rotary set, but no cos_cache and sin_cache.`);
  }
  const positions = getInputName(node, 9);
  if (positions !== undefined) {
    requireValues(search, positions, node, { what: "positions", is: holdsPositions });
  }
  const cos = requireConstant(search, cosName, node);
  return {
    cos,
    sin: requireConstant(search, sinName, node),
    dim: readIntAttribute(node, "rotary_embedding_dim") || 2 * (cos.shape[1] ?? 0),
    interleaved: readIntAttribute(node, "rotary_interleaved") === 1,
  };
}

/** `head_sink`, or for `smooth_softmax` zeros, which have the same effect. */
function readSinks(node: Node, search: Search, heads: number): StoredTensor | undefined {
  const sink = getInputName(node, 11);
  if (sink !== undefined) return requireConstant(search, sink, node);
  if (readIntAttribute(node, "smooth_softmax") !== 1) return undefined;
  return {
    name: `${node.outputs[0]}/zero_sinks`,
    dtype: "float32",
    shape: [heads],
    data: { kind: "memory", bytes: new Uint8Array(heads * 4) },
  };
}

/**
 * Finds a causal `GroupQueryAttention`, with q, k and v packed or separate. Its bias may hide more keys, or be ALiBi.
 */
export function findGroupQueryAttention(
  node: Node,
  search: Search,
): FoundAttention | undefined {
  if (node.opType !== "GroupQueryAttention" || node.domain !== "com.microsoft") return undefined;
  const heads = readIntAttribute(node, "num_heads") ?? 0;
  const kvHeads = readIntAttribute(node, "kv_num_heads") ?? heads;
  // Hearth's own cache replaces a quantised one, whose scales are then not needed.
  const isQuantized = ["k_quant_type", "v_quant_type"].some((name) =>
    (readStringAttribute(node, name) ?? "NONE") !== "NONE"
  );
  if (!isQuantized) refuseInputs(node, { k_scale: 12, v_scale: 13 });
  if (readIntAttribute(node, "causal") === 0) {
    throw new Refusal(`${describeNode(node)} is not causal.`);
  }
  requireCache(search, node, getInputName(node, 3), getInputName(node, 4));
  requireValues(search, node.inputs[5]!, node, {
    what: "lengths",
    is: ({ data }, run) => {
      const { pastLength, numTokens } = SHORT_LENGTHS[run]!;
      return data?.length === 1 && data[0] === pastLength + numTokens - 1;
    },
  });
  const [query, key, value] = node.inputs as [string, string, string];
  const isPacked = !key;
  const width = requireKnownShape(search, query, node).at(-1)!;
  const headDim = width / (isPacked ? heads + 2 * kvHeads : heads);
  const vHeadDim = isPacked ? headDim : requireKnownShape(search, value, node).at(-1)! / kvHeads;
  const cached = isQuantized
    ? undefined
    : search.probes.at(SHORT_LENGTHS[0]).value(node.inputs[3]!)?.shape[3];
  if (!Number.isInteger(headDim) || (cached ?? headDim) !== headDim) {
    throw new Refusal(
      `${describeNode(node)} has heads of ${headDim} by its query and of ${cached} by its cache` +
        (isPacked ? "; it may read another layer's keys." : "."),
    );
  }
  const rotary = readRotary(node, search);
  const mask = proveNodeMask(node, search, { mask: getInputName(node, 10), isCausal: true });
  const window = Math.min(
    mask.localWindow ?? Infinity,
    positive(readIntAttribute(node, "local_window_size")) ?? Infinity,
  );
  const sinks = readSinks(node, search, heads);
  if (sinks !== undefined && mask.slopes !== undefined) refuseBiasedSinks(describeNode(node));
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
    localWindow: Number.isFinite(window) ? window : undefined,
    softcap: positive(readFloatAttribute(node, "softcap")),
    sinks,
    slopes: mask.slopes,
    maxPositions: Math.min(mask.maxPositions, rotary?.cos.shape[0] ?? Infinity),
  });
}

/** Epsilon that is added to a head's mean square, if the node has no attribute for it. */
const DEFAULT_EPSILON = 1e-6;

/** The heads of an operand that are normalised. */
interface Heads {
  readonly operand: Operand;
  readonly count: number;
  readonly headDim: number;
  /** Whether the operand's tensor also holds heads of other operands. */
  readonly isPacked: boolean;
}

/** Nodes and constants that normalise heads. */
class HeadNorms {
  readonly before: Node[] = [];
  readonly constants: Tensor[] = [];
  readonly #name: string;
  readonly #attributes: Record<string, AttributeValue>;

  constructor(node: Node) {
    this.#name = node.outputs[0]!;
    const epsilon = readFloatAttribute(node, "qk_norm_epsilon") ?? DEFAULT_EPSILON;
    this.#attributes = { axis: -1, epsilon: { float: epsilon }, stash_type: 1 };
  }

  /** Adds a norm, and returns its output. Without a weight it returns the operand itself. */
  add(kind: "q" | "k", weight: string | undefined, heads: Heads): Operand {
    if (weight === undefined) return heads.operand;
    const name = `${this.#name}/${kind}`;
    const input = heads.isPacked ? this.#slice(`${name}_rows`, heads) : heads.operand.tensor;
    const sizes = this.#ints(`${name}_sizes`, [0, 0, heads.count, heads.headDim]);
    const norm = makeNode(
      "SimplifiedLayerNormalization",
      [`${name}_heads`, weight],
      [`${name}_normalised`],
      { attributes: this.#attributes },
    );
    this.before.push(makeNode("Reshape", [input, sizes], [`${name}_heads`]), norm);
    return rows(`${name}_normalised`);
  }

  #slice(name: string, { operand: { tensor, offset }, count, headDim }: Heads): string {
    const bounds = [
      this.#ints(`${name}_start`, [offset]),
      this.#ints(`${name}_end`, [offset + count * headDim]),
      this.#ints(`${name}_axis`, [2]),
    ];
    this.before.push(makeNode("Slice", [tensor, ...bounds], [name]));
    return name;
  }

  #ints(name: string, values: readonly number[]): string {
    this.constants.push(int64Tensor(name, [values.length], values));
    return name;
  }
}

/** Replaces the inputs `q_norm_weight` and `k_norm_weight` of a node by norms in front of it. */
function normaliseHeads(node: Node, found: FoundAttention): FoundAttention {
  const weights = { q: getInputName(node, 14), k: getInputName(node, 15) };
  if (weights.q === undefined && weights.k === undefined) return found;
  const { q, k, heads, kvHeads, headDim } = found;
  const isPacked = getInputName(node, 1) === undefined;
  const norms = new HeadNorms(node);
  return {
    ...found,
    q: norms.add("q", weights.q, { operand: q, count: heads, headDim, isPacked }),
    k: norms.add("k", weights.k, { operand: k, count: kvHeads, headDim, isPacked }),
    before: norms.before,
    constants: norms.constants,
  };
}
