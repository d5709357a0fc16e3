/**
 * `MultiHeadAttention` of ONNX Runtime's own operator set (com.microsoft).
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 * @module
 */
import {
  type FoundAttention,
  getName,
  inputName,
  knownShape,
  proveNodeMask,
  readScale,
  refuseInputs,
  requireCache,
  requireValues,
  rows,
  type Search,
} from "./attention.ts";
import { describeNode } from "../graph_index.ts";
import { int64Tensor, intAttribute, makeNode, type Node } from "../file/proto.ts";
import { Refusal } from "../refusal.ts";

/** q, k and v of a `MultiHeadAttention`: separate, or packed head by head as `[batch, tokens, heads, 2 or 3, size]`. */
function multiHeadOperands(
  node: Node,
  search: Search,
  heads: number,
): Required<Pick<FoundAttention, "q" | "k" | "v" | "headDim" | "vHeadDim">> & {
  readonly before: readonly Node[];
} {
  const [query, key, value] = node.inputs as [string, string?, string?];
  const shape = knownShape(search, query, node);
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
  const keyShape = key ? knownShape(search, key, node) : [];
  if (keyShape.length === 5) {
    const { before, parts } = unpack(key!, 2, headDim);
    return { before, q: rows(query), k: parts[0]!, v: parts[1]!, headDim, vHeadDim: headDim };
  }
  const valueShape = value ? knownShape(search, value, node) : [];
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

/** Adds the projections' bias as a node in front of the operator, which would otherwise apply it. */
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
 * A `MultiHeadAttention` node without its mask.
 *
 * @throws {Refusal}
 */
export function readMultiHead(node: Node, search: Search): Omit<FoundAttention, "maxPositions"> {
  const heads = intAttribute(node, "num_heads") ?? 0;
  const { before, headDim, vHeadDim, ...operands } = multiHeadOperands(node, search, heads);
  const bias = inputName(node, 3);
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

/** `MultiHeadAttention`: as many key-value heads as query heads, a mask as its bias. */
export function findMultiHeadAttention(
  node: Node,
  search: Search,
): FoundAttention | undefined {
  if (node.opType !== "MultiHeadAttention" || node.domain !== "com.microsoft") return undefined;
  requireCache(search, node, inputName(node, 6), inputName(node, 7));
  refuseInputs(node, { past_sequence_length: 8, cache_indirection: 9 });
  const padding = inputName(node, 4);
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
      mask: inputName(node, 5),
      isCausal: intAttribute(node, "unidirectional") === 1,
    }),
  };
}
