/**
 * Finds the attentions of a decoder, and replaces attentions by kernel nodes, whose operands and results are
 * token-major.
 *
 * @module
 */
import type { FoundAttention, Layout, Operand, Search } from "./attention.ts";
import { proveMask } from "./attention_mask.ts";
import { findGroupQueryAttention } from "./attention_gqa.ts";
import { findMultiHeadAttention, findOnnxAttention } from "./attention_operators.ts";
import { findSpelledOut, type SpelledOutKind } from "./spelled_out.ts";
import { findLiveNodes } from "../graph_index.ts";
import {
  type Graph,
  int64Tensor,
  makeNode,
  type Node,
  readIntsAttribute,
  type Tensor,
} from "../file/proto.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { countElements, toDtypeCode } from "../file/tensor.ts";
import { followCache, skipMergedHeads } from "./traced_operand.ts";

/** Operator domain of kernel nodes. Only Hearth knows it. */
export const KERNEL_DOMAIN = "hearth";

/** Whether a node runs in Hearth's kernels: an attention, a recurrence or a mixture of experts. */
export function isKernelNode(node: Node): boolean {
  return node.domain === KERNEL_DOMAIN;
}

/**
 * An attention and the kernel node that replaces it: inputs q, k and v, and one output `[1, tokens, heads * vHeadDim]`.
 */
export interface ReplacedAttention {
  readonly found: FoundAttention;
  readonly node: Node;
}

/** A graph whose attentions are kernel nodes. */
export interface AttentionGraph {
  readonly graph: Graph;
  readonly attentions: readonly ReplacedAttention[];
}

/** Spelled-out attentions of decoders, which append their keys and values to a cache. */
const OF_CACHE: SpelledOutKind = {
  trace(search, { queries, keys, values, heads, of }) {
    const tensor = skipMergedHeads(search, queries, "operand");
    const run = search.probes.at(SHORT_LENGTHS[1]);
    const shape = run.value(tensor)?.shape;
    // Products may read one head for all queries without repeating it (Falcon).
    const countHeads = (name: string) => run.value(name)?.shape.at(-3) === 1 ? 1 : heads;
    const k = followCache(search, keys, { heads: countHeads(keys), isTransposed: true });
    const v = followCache(search, values, { heads: countHeads(values), isTransposed: false });
    if (k === undefined || v === undefined) return undefined;
    if (shape === undefined || shape.length < 3 || shape.length > 4) {
      throw new Refusal(
        `The heads of the attention around ${of} are not [1, heads, tokens, size].`,
      );
    }
    if (k === "changed" || v === "changed") {
      throw new Refusal(
        `Around ${of}, keys, values or weights are changed after they were cached.`,
      );
    }
    const operand = { tensor, layout: "head_major", offset: 0 } as const;
    return { q: { operand, heads, size: shape.at(-1)!, factor: 1 }, k, v };
  },
  takesBiases: true,
  prove: proveMask,
};

/** Finds every attention of a decoder, in the graph's order. @throws {Refusal} when Hearth cannot compute one. */
export function findAttentions(search: Search): FoundAttention[] {
  const finders = [
    findGroupQueryAttention,
    findMultiHeadAttention,
    findOnnxAttention,
    (node: Node) => findSpelledOut(node, search, OF_CACHE),
  ];
  const found: FoundAttention[] = [];
  for (const node of search.index.graph.nodes) {
    for (const find of finders) {
      const attention = find(node, search);
      if (attention === undefined) continue;
      found.push(attention);
      break;
    }
  }
  return found;
}

/** The permutation that swaps heads and tokens. */
function swap(rank: number): number[] {
  return rank === 4 ? [0, 2, 1, 3] : [1, 0, 2];
}

function isSwap(node: Node | undefined, rank: number): node is Node {
  return node?.opType === "Transpose" &&
    readIntsAttribute(node, "perm")?.join() === swap(rank).join();
}

/** Nodes and constants added with an attention. */
interface Additions {
  readonly before: Node[];
  readonly after: Node[];
  readonly constants: Tensor[];
  /** Tensors that were added for earlier attentions: two attentions may read the same keys. */
  readonly made: Set<string>;
}

/** Finds the token-major tensor behind an operand. If the graph has none, a `Transpose` is added. */
function tokenMajor(
  { index, probes }: Search,
  operand: { readonly tensor: string; readonly layout: Layout },
  additions: Additions,
): string {
  if (operand.layout === "token_major") return operand.tensor;
  const getShape = (name: string) => probes.at(SHORT_LENGTHS[0]).value(name)?.shape ?? [];
  const rank = getShape(operand.tensor).length;
  const producer = index.producers.get(operand.tensor);
  if (!isSwap(producer, rank)) {
    const swapped = `${operand.tensor}/token_major`;
    if (additions.made.has(swapped)) return swapped;
    additions.made.add(swapped);
    const attributes = { perm: swap(rank) };
    additions.before.push(makeNode("Transpose", [operand.tensor], [swapped], { attributes }));
    return swapped;
  }
  const swapped = producer.inputs[0]!;
  // A Reshape from rows to heads is skipped too.
  const reshape = index.producers.get(swapped);
  const source = reshape?.opType === "Reshape" ? reshape.inputs[0]! : swapped;
  const [batch, tokens] = getShape(source);
  return batch === 1 && tokens === SHORT_LENGTHS[0].numTokens && getShape(source).length === 3
    ? source
    : swapped;
}

/** Casts an operand to the type of the attention's result. The two types differ if a graph casts what it caches. */
function castTo(
  { index, probes }: Search,
  operand: Operand,
  output: string,
  additions: Additions,
): Operand {
  const getDtype = (name: string) => probes.at(SHORT_LENGTHS[0]).value(name)?.dtype;
  const [dtype, own] = [getDtype(output), getDtype(operand.tensor)];
  const isAlike = own === dtype || own === undefined;
  if (isAlike || (dtype !== "float32" && dtype !== "float16")) return operand;
  const producer = index.producers.get(operand.tensor);
  const source = producer?.opType === "Cast" ? producer.inputs[0]! : undefined;
  if (source !== undefined && getDtype(source) === dtype) return { ...operand, tensor: source };
  const cast = `${operand.tensor}/${dtype}`;
  if (!additions.made.has(cast)) {
    additions.made.add(cast);
    const attributes = { to: toDtypeCode(dtype) };
    additions.before.push(makeNode("Cast", [operand.tensor], [cast], { attributes }));
  }
  return { ...operand, tensor: cast };
}

/**
 * The tensor of rows to which the graph converts a head-major result, if nothing else reads the result. The tensor of
 * rows may lack the axis of the batch.
 */
function findResultRows(
  { index, probes }: Search,
  found: FoundAttention,
): { readonly name: string; readonly rank: number } | undefined {
  const getShape = (name: string) => probes.at(SHORT_LENGTHS[0]).value(name)?.shape ?? [];
  const transpose = index.onlyConsumer(found.output.tensor);
  if (!isSwap(transpose, getShape(found.output.tensor).length)) return undefined;
  const consumers = index.consumers(transpose.outputs[0]!).filter(({ opType }) =>
    opType !== "Shape"
  );
  const rows = consumers[0]?.outputs[0];
  const shape = getShape(rows ?? "");
  const width = found.heads * found.vHeadDim;
  const isOfRows = shape.slice(-2).join() === [SHORT_LENGTHS[0].numTokens, width].join() &&
    countElements(shape) === SHORT_LENGTHS[0].numTokens * width;
  return consumers.length === 1 && consumers[0]!.opType === "Reshape" && isOfRows
    ? { name: rows!, rank: shape.length }
    : undefined;
}

/**
 * Chooses the output of a kernel node, and adds nodes that convert the output to head-major if the graph reads it in
 * that layout.
 */
function addOutput(search: Search, found: FoundAttention, additions: Additions): string {
  const { tensor, layout } = found.output;
  if (layout === "token_major") return tensor;
  const own = findResultRows(search, found);
  const rows = own?.rank === 3 ? own.name : `${tensor}/rows`;
  const rank = search.probes.at(SHORT_LENGTHS[0]).value(tensor)?.shape.length ?? 4;
  const sizes = rank === 4
    ? [0, 0, found.heads, found.vHeadDim]
    : [-1, found.heads, found.vHeadDim];
  const constant = int64Tensor(`${tensor}/sizes`, [sizes.length], sizes);
  const heads = `${tensor}/heads`;
  additions.constants.push(constant);
  if (own?.rank === 2) {
    const flat = int64Tensor(`${own.name}/sizes`, [2], [-1, found.heads * found.vHeadDim]);
    additions.constants.push(flat);
    additions.after.push(makeNode("Reshape", [rows, flat.name], [own.name]));
  }
  additions.after.push(
    makeNode("Reshape", [rows, constant.name], [heads]),
    makeNode("Transpose", [heads], [tensor], { attributes: { perm: swap(rank) } }),
  );
  return rows;
}

/**
 * Widens the heads of values to the size of keys, because the kernels need equal sizes, and narrows the heads of the
 * result. In latent attention (DeepSeek, MiniCPM3), values are smaller than keys.
 *
 * @param rows the token-major values.
 * @param output the result's rows.
 * @returns the wide values and the wide result; `undefined` if the values are only a part of their rows, or not floats.
 */
function widenValues(
  { probes }: Search,
  found: FoundAttention,
  { rows, output, additions }: {
    readonly rows: string;
    readonly output: string;
    readonly additions: Additions;
  },
): { readonly values: string; readonly result: string } | undefined {
  const { heads, kvHeads, headDim, vHeadDim } = found;
  const run = probes.at(SHORT_LENGTHS[0]);
  const dtype = run.value(found.output.tensor)?.dtype;
  const count = countElements(run.value(found.v.tensor)?.shape ?? []);
  const isWhole = count === SHORT_LENGTHS[0].numTokens * kvHeads * vHeadDim;
  if (!isWhole || (dtype !== "float32" && dtype !== "float16")) return undefined;
  const { before, after, constants } = additions;
  const name = (what: string) => `${output}/${what}`;
  const ints = (what: string, numbers: readonly number[]) => {
    constants.push(int64Tensor(name(what), [numbers.length], numbers));
    return name(what);
  };
  const unit = new (dtype === "float32" ? Float32Array : Float16Array)(vHeadDim * headDim);
  for (let i = 0; i < vHeadDim; i++) unit[i * headDim + i] = 1;
  constants.push({
    ...{ name: name("unit"), dtype, shape: [vHeadDim, headDim], rest: [] },
    data: { kind: "memory", bytes: new Uint8Array(unit.buffer) },
  });
  const joined = ints("joined", [0, 0, -1]);
  before.push(
    makeNode("Reshape", [rows, ints("parts", [1, -1, kvHeads, vHeadDim])], [name("split")]),
    makeNode("MatMul", [name("split"), name("unit")], [name("widened")]),
    makeNode("Reshape", [name("widened"), joined], [name("values")]),
  );
  const part = [ints("from", [0]), ints("to", [vHeadDim]), ints("axis", [-1])];
  after.unshift(
    makeNode("Reshape", [name("result"), ints("heads", [0, 0, heads, headDim])], [name("wide")]),
    makeNode("Slice", [name("wide"), ...part], [name("narrow")]),
    makeNode("Reshape", [name("narrow"), joined], [output]),
  );
  return { values: name("values"), result: name("result") };
}

/**
 * Replaces attentions by kernel nodes, and removes nodes that nothing reads any more, such as those of masks and
 * caches.
 *
 * @param wanted the outputs to keep.
 */
export function replaceAttentions(
  search: Search,
  attentions: readonly FoundAttention[],
  wanted: readonly string[],
): AttentionGraph {
  const { graph } = search.index;
  const constants: Tensor[] = [...graph.initializers];
  const nodesByProducer = new Map<Node, readonly Node[]>();
  const kernelNodes: ReplacedAttention[] = [];
  const replaced = new Set<string>();
  const made = new Set<string>();
  for (const found of attentions) {
    const additions: Additions = { before: [...found.before ?? []], after: [], constants, made };
    constants.push(...found.constants ?? []);
    const [q, k, v] = [found.q, found.k, found.v].map((operand) =>
      tokenMajor(search, castTo(search, operand, found.output.tensor, additions), additions)
    ) as [string, string, string];
    const output = addOutput(search, found, additions);
    const wide = found.vHeadDim < found.headDim
      ? widenValues(search, found, { rows: v, output, additions })
      : undefined;
    const node = makeNode("AttentionNode", [q, k, wide?.values ?? v], [wide?.result ?? output], {
      domain: KERNEL_DOMAIN,
      name: found.name,
    });
    kernelNodes.push({ found: wide ? { ...found, vHeadDim: found.headDim } : found, node });
    for (
      const name of [
        output,
        found.output.tensor,
        ...additions.after.flatMap((each) => each.outputs),
      ]
    ) {
      replaced.add(name);
    }
    const attention = search.index.producers.get(found.output.tensor)!;
    nodesByProducer.set(attention, [...additions.before, node, ...additions.after]);
  }
  const nodes = graph.nodes.flatMap((node) => {
    const added = nodesByProducer.get(node) ?? [];
    const isReplaced = node.outputs.some((output) => replaced.has(output));
    return isReplaced ? added : [...added, node];
  });
  const live = findLiveNodes(nodes, wanted);
  return {
    graph: { ...graph, nodes: live, initializers: constants },
    attentions: kernelNodes.filter(({ node }) => live.includes(node)),
  };
}
