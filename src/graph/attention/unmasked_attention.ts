/**
 * Finds attentions that see all keys where a graph spells them out, `MatMul(softmax(scale * MatMul(q, kᵀ)), v)` with
 * heads split before and joined after: in encoders, in cross-attention, and in decoders that run one token at a time.
 * Pure.
 *
 * This module follows shapes only, where `spelled_out.ts` feeds numbers through the graph: these graphs have axes of a
 * fixed length, and the numbers of 32 layers of 1,500 × 1,280 would take gigabytes. Attentions that it does not
 * recognise, such as masked ones, are left out.
 *
 * @module
 */
import { countElements } from "../file/dtype.ts";
import { Evaluation } from "../evaluate/evaluation.ts";
import type { Value } from "../evaluate/value.ts";
import type { GraphIndex } from "../graph_index.ts";
import {
  type AtomSizes,
  type Axes,
  behindScales,
  HEAD_AXES,
  isFloat,
  permute,
  regroup,
  ROW_AXES,
  scaleStep,
  type Tracing,
} from "./operand_steps.ts";
import { intAttribute, type Node } from "../file/proto.ts";

/** Keys or values of an attention. */
type WholeOperand =
  /** `[batch, tokens, heads * size]`. */
  | { readonly kind: "rows"; readonly tensor: string }
  /** An input of the graph, `[batch, heads, tokens, size]`. */
  | { readonly kind: "input"; readonly tensor: string }
  /** Rows as above, appended to what the input `past` holds, `[batch, heads, tokens, size]`. */
  | { readonly kind: "appended"; readonly tensor: string; readonly past: string };

/** One attention. */
export interface UnmaskedAttention {
  /** Rows. */
  readonly q: string;
  readonly k: WholeOperand;
  readonly v: WholeOperand;
  /** The rows of its result. */
  readonly output: string;
  readonly heads: number;
  readonly scale: number;
}

/** A distinct size for each symbol, unlike the sizes of models. */
const PROBE_SIZES = [7, 11, 13, 17, 19, 23, 29, 31];

interface Search extends Tracing {
  readonly batch: number;
}

type Sized = Search & { readonly sizes: AtomSizes };

/**
 * The attentions of a graph whose constants are lifted, in its order, and its partial evaluation.
 *
 * @param isOnes selects inputs that are all-ones masks.
 */
export function findUnmaskedAttentions(
  index: GraphIndex,
  isOnes: (input: string) => boolean = () => false,
): { readonly found: readonly UnmaskedAttention[]; readonly run: Evaluation } {
  const feeds = probeFeeds(index);
  for (const [name, value] of feeds) {
    if (!isOnes(name)) continue;
    feeds.set(name, { ...value, data: new Float64Array(countElements(value.shape)).fill(1) });
  }
  const run = new Evaluation(index, feeds);
  const [first] = feeds.values();
  const search = { index, run, batch: first?.shape[0] ?? 1 };
  const softmaxes = index.graph.nodes.filter(({ opType }) => opType === "Softmax");
  return { found: softmaxes.flatMap((node) => find(node, search) ?? []), run };
}

/** Feeds for every input: a distinct size for each symbolic axis, without elements. */
export function probeFeeds(index: GraphIndex): Map<string, Value> {
  const sizes = new Map<string, number>();
  const getSize = (symbol: string) => {
    const size = sizes.get(symbol) ?? PROBE_SIZES[sizes.size % PROBE_SIZES.length]!;
    sizes.set(symbol, size);
    return size;
  };
  const feeds = new Map<string, Value>();
  for (const { name, dtype, shape } of index.inputs.values()) {
    if (dtype === undefined || shape === undefined) continue;
    const known = shape.map((size, axis) =>
      typeof size === "number" ? size : getSize(size ?? `${name}/${axis}`)
    );
    feeds.set(name, { dtype, shape: known });
  }
  return feeds;
}

function find(softmax: Node, search: Search): UnmaskedAttention | undefined {
  const { index, run, batch } = search;
  const scores = behindScales(softmax.inputs[0]!, search);
  const scoreProduct = index.producers.get(scores.tensor);
  const valueProduct = findReader(softmax.outputs[0]!, search);
  if (scoreProduct?.opType !== "MatMul" || valueProduct?.opType !== "MatMul") return undefined;
  const query = run.value(scoreProduct.inputs[0]!)?.shape;
  const numKeys = run.value(scoreProduct.inputs[1]!)?.shape.at(-1);
  const sizes = query && readSizes(query, batch);
  if (sizes === undefined || numKeys === undefined) return undefined;
  const rank = query!.length;
  const axis = intAttribute(softmax, "axis") ?? -1;
  if (axis !== -1 && axis !== rank - 1) return undefined;
  const heads = rank === 4 ? ["b", "h"] : ["bh"];
  const ofQueries = { ...search, sizes };
  const ofKeys = { ...search, sizes: { ...sizes, t: numKeys } };
  const numQueries = sizes.t;
  const q = behind(scoreProduct.inputs[0]!, [...heads, "t", "d"], ofQueries);
  const k = operand(scoreProduct.inputs[1]!, [...heads, "d", "t"], ofKeys, numQueries);
  const v = operand(valueProduct.inputs[1]!, [...heads, "t", "d"], ofKeys, numQueries);
  const output = rowsAfter(valueProduct.outputs[0]!, [...heads, "t", "d"], ofQueries);
  if (q?.axes !== ROW_AXES || k === undefined || v?.factor !== 1 || output === undefined) {
    return undefined;
  }
  const scale = scores.factor * q.factor * k.factor;
  return { q: q.tensor, k: k.operand, v: v.operand, output, heads: sizes.h, scale };
}

/** Sizes of the atoms of queries `[b, h, t, d]` or `[bh, t, d]`. */
function readSizes(shape: readonly number[], b: number): AtomSizes | undefined {
  const [t, d] = [shape.at(-2)!, shape.at(-1)!];
  if (shape.length === 4) return { b, h: shape[1]!, t, d };
  return shape.length === 3 && shape[0]! % b === 0 ? { b, h: shape[0]! / b, t, d } : undefined;
}

/** Where keys or values with these axes come from, and the factor applied on the path. */
function operand(
  tensor: string,
  axes: Axes,
  search: Sized,
  numQueries: number,
): { readonly operand: WholeOperand; readonly factor: number } | undefined {
  const found = behind(tensor, axes, search);
  if (found === undefined) return undefined;
  const { factor } = found;
  if (found.axes === ROW_AXES) return { operand: { kind: "rows", tensor: found.tensor }, factor };
  const { index, sizes } = search;
  if (index.inputs.has(found.tensor)) {
    return { operand: { kind: "input", tensor: found.tensor }, factor };
  }
  const [past, added] = index.producers.get(found.tensor)!.inputs as [string, string];
  const cache = behindScales(past, search);
  const rows = behind(added, HEAD_AXES, { ...search, sizes: { ...sizes, t: numQueries } });
  if (!index.inputs.has(cache.tensor) || cache.factor !== 1) return undefined;
  if (rows?.axes !== ROW_AXES || rows.factor !== 1) return undefined;
  return { operand: { kind: "appended", tensor: rows.tensor, past: cache.tensor }, factor };
}

interface Source {
  readonly tensor: string;
  /** Rows, or heads: of an input, or of two tensors that are joined token by token. */
  readonly axes: typeof ROW_AXES | typeof HEAD_AXES;
  readonly factor: number;
}

/** The rows or heads that a tensor with these axes comes from, and the factor applied on the path. */
function behind(tensor: string, axes: Axes, search: Sized): Source | undefined {
  const { index, run, sizes: { b, h, t, d } } = search;
  const path: Node[] = [];
  let factor = 1;
  for (let name = tensor;;) {
    const shape = run.value(name)?.shape.join();
    const isShapedAs = (from: Axes, sizes: readonly number[]) =>
      shape === sizes.join() && follow(from, path, search) === axes.join();
    if (isShapedAs(ROW_AXES, [b, t, h * d])) return { tensor: name, axes: ROW_AXES, factor };
    const node = index.producers.get(name);
    if (node === undefined || isAppending(node)) {
      const isHeads = (node || index.inputs.has(name)) && isShapedAs(HEAD_AXES, [b, h, t, d]);
      return isHeads ? { tensor: name, axes: HEAD_AXES, factor } : undefined;
    }
    if (node.opType === "Transpose" || node.opType === "Reshape") {
      path.unshift(node);
      name = node.inputs[0]!;
      continue;
    }
    const step = scaleStep(node, search);
    if (step === undefined) return undefined;
    factor *= step.factor;
    name = step.source;
  }
}

function isAppending(node: Node): boolean {
  const axis = intAttribute(node, "axis");
  return node.opType === "Concat" && node.inputs.length === 2 && (axis === 2 || axis === -2);
}

/** The result's axes after these nodes, as text. */
function follow(axes: Axes, path: readonly Node[], { run, sizes }: Sized): string | undefined {
  let now: Axes | undefined = axes;
  for (const node of path) {
    if (now === undefined) return undefined;
    const shape = run.value(node.outputs[0]!)?.shape;
    if (node.opType === "Transpose") now = permute(now, node);
    else now = shape && regroup(now, shape, sizes);
  }
  return now?.join();
}

/** The rows that a result with these axes is converted to. */
function rowsAfter(result: string, axes: Axes, search: Sized): string | undefined {
  const path: Node[] = [];
  for (let name = result;;) {
    if (follow(axes, path, search) === ROW_AXES.join()) return name;
    const reader = findReader(name, search);
    if (reader?.opType !== "Transpose" && reader?.opType !== "Reshape") return undefined;
    path.push(reader);
    name = reader.outputs[0]!;
  }
}

/** The only node that computes with a tensor, casts aside; reading its shape does not count. */
function findReader(tensor: string, search: Search): Node | undefined {
  const { index, run } = search;
  if (index.isOutput(tensor)) return undefined;
  const readers = index.consumers(tensor).filter(({ opType }) => opType !== "Shape");
  const [reader] = readers;
  if (readers.length !== 1 || reader!.inputs[0] !== tensor) return undefined;
  const isCast = reader!.opType === "Cast" && isFloat(reader!.outputs[0]!, run);
  return isCast ? findReader(reader!.outputs[0]!, search) : reader;
}
