/**
 * Finds spelled-out attentions that see all keys: `MatMul(softmax(scale * MatMul(q, kᵀ)), v)`, with heads split before
 * and joined after. They occur in encoders, in cross-attention, and in decoders that run one token at a time.
 *
 * Unlike `spelled_out.ts`, which feeds numbers through the graph, this module only follows shapes. These graphs have
 * axes of fixed length, and the numbers of 32 layers of 1,500 × 1,280 would take gigabytes. Attentions that are not
 * recognized, such as masked ones, are left out.
 *
 * @module
 */
import { countElements } from "../file/tensor.ts";
import { Evaluation } from "../evaluate/evaluation.ts";
import type { Value } from "../evaluate/value.ts";
import type { GraphIndex } from "../graph_index.ts";
import { type Node, readIntAttribute, readIntsAttribute } from "../file/proto.ts";

/** Keys or values of an attention. */
type WholeOperand =
  /** `[batch, tokens, heads * size]`. */
  | { readonly kind: "rows"; readonly tensor: string }
  /** An input of the graph, `[batch, heads, tokens, size]`. */
  | { readonly kind: "input"; readonly tensor: string }
  /** Rows as above, appended to what the input `past` holds, `[batch, heads, tokens, size]`. */
  | { readonly kind: "appended"; readonly tensor: string; readonly past: string };

/** An attention that sees all keys. */
export interface UnmaskedAttention {
  /** Queries, `[batch, tokens, heads * size]`. */
  readonly q: string;
  readonly k: WholeOperand;
  readonly v: WholeOperand;
  /** The rows of its result. */
  readonly output: string;
  readonly heads: number;
  readonly scale: number;
}

/** Sizes for symbolic axes, chosen to differ from the sizes in models. From the ninth symbol on, they repeat. */
const PROBE_SIZES = [7, 11, 13, 17, 19, 23, 29, 31];

interface Search extends Tracing {
  readonly batch: number;
}

type Sized = Search & { readonly sizes: AtomSizes };

/**
 * Finds the attentions of a graph, in the graph's order. The graph must not have `Constant` nodes. Also returns its
 * partial evaluation.
 *
 * @param isOnes selects inputs that are masks of ones.
 */
export function findUnmaskedAttentions(
  index: GraphIndex,
  isOnes: (input: string) => boolean = () => false,
): { readonly found: readonly UnmaskedAttention[]; readonly run: Evaluation } {
  const feeds = makeProbeFeeds(index);
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

/** Makes feeds for all inputs, without elements. Each symbol gets a size from `PROBE_SIZES`. */
export function makeProbeFeeds(index: GraphIndex): Map<string, Value> {
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
  const scores = followScales(softmax.inputs[0]!, search);
  const scoreProduct = index.producers.get(scores.tensor);
  const valueProduct = findReader(softmax.outputs[0]!, search);
  if (scoreProduct?.opType !== "MatMul" || valueProduct?.opType !== "MatMul") return undefined;
  const query = run.value(scoreProduct.inputs[0]!)?.shape;
  const numKeys = run.value(scoreProduct.inputs[1]!)?.shape.at(-1);
  const sizes = query && readSizes(query, batch);
  if (sizes === undefined || numKeys === undefined) return undefined;
  const rank = query!.length;
  const axis = readIntAttribute(softmax, "axis") ?? -1;
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

/** The sizes of the atoms of queries `[b, h, t, d]` or `[bh, t, d]`. */
function readSizes(shape: readonly number[], b: number): AtomSizes | undefined {
  const [t, d] = [shape.at(-2)!, shape.at(-1)!];
  if (shape.length === 4) return { b, h: shape[1]!, t, d };
  return shape.length === 3 && shape[0]! % b === 0 ? { b, h: shape[0]! / b, t, d } : undefined;
}

/** Finds the source of keys or values with these axes, and the factor by which they are scaled on the path. */
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
  const cache = followScales(past, search);
  const rows = behind(added, HEAD_AXES, { ...search, sizes: { ...sizes, t: numQueries } });
  if (!index.inputs.has(cache.tensor) || cache.factor !== 1) return undefined;
  if (rows?.axes !== ROW_AXES || rows.factor !== 1) return undefined;
  return { operand: { kind: "appended", tensor: rows.tensor, past: cache.tensor }, factor };
}

interface Source {
  readonly tensor: string;
  /** Rows; or heads, if the tensor is an input or a concatenation of two tensors along the tokens. */
  readonly axes: typeof ROW_AXES | typeof HEAD_AXES;
  readonly factor: number;
}

/** The rows or heads from which a tensor with these axes comes, and the factor by which they are scaled on the path. */
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
    const step = readScaleStep(node, search);
    if (step === undefined) return undefined;
    factor *= step.factor;
    name = step.source;
  }
}

function isAppending(node: Node): boolean {
  const axis = readIntAttribute(node, "axis");
  return node.opType === "Concat" && node.inputs.length === 2 && (axis === 2 || axis === -2);
}

/** The axes of a tensor after these nodes, as text; `undefined` if a node does more than regroup or reorder atoms. */
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

/** The tensor of rows to which a result with these axes is converted. */
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

/** The only node that reads a tensor, after casts. Nodes that read only its shape do not count. */
function findReader(tensor: string, search: Search): Node | undefined {
  const { index, run } = search;
  if (index.isOutput(tensor)) return undefined;
  const readers = index.consumers(tensor).filter(({ opType }) => opType !== "Shape");
  const [reader] = readers;
  if (readers.length !== 1 || reader!.inputs[0] !== tensor) return undefined;
  const isCast = reader!.opType === "Cast" && isFloat(reader!.outputs[0]!, run);
  return isCast ? findReader(reader!.outputs[0]!, search) : reader;
}

/** A graph, and its partial evaluation. */
interface Tracing {
  readonly index: GraphIndex;
  readonly run: Evaluation;
}

/** Follows a tensor back through nodes that only scale it. */
function followScales(tensor: string, search: Tracing): { tensor: string; factor: number } {
  const node = search.index.producers.get(tensor);
  const step = node && readScaleStep(node, search);
  if (step === undefined) return { tensor, factor: 1 };
  const behind = followScales(step.source, search);
  return { ...behind, factor: behind.factor * step.factor };
}

/** The input that a node scales and the factor, which is 1 for casts and copies; `undefined` for other nodes. */
function readScaleStep(
  { opType, inputs }: Node,
  { run }: Tracing,
): { source: string; factor: number } | undefined {
  // If a cache is empty, some exporters write a Concat of one tensor.
  const isCopy = opType === "Identity" || (opType === "Concat" && inputs.length === 1);
  if (isCopy || opType === "Cast") {
    return isFloat(inputs[0]!, run) ? { source: inputs[0]!, factor: 1 } : undefined;
  }
  if (opType === "Add") {
    // A mask that hides nothing.
    const isNothing = (name: string) => run.value(name)?.data?.every((x) => x === 0) === true;
    const [left, right] = inputs as [string, string];
    const getRank = (name: string) => run.value(name)?.shape.length ?? 0;
    if (isNothing(right) && getRank(left) >= getRank(right)) return { source: left, factor: 1 };
    return isNothing(left) && getRank(right) >= getRank(left)
      ? { source: right, factor: 1 }
      : undefined;
  }
  if (opType !== "Mul" && opType !== "Div") return undefined;
  const getNumber = (name: string) => {
    const value = run.value(name);
    return value && countElements(value.shape) === 1 ? value.data?.[0] : undefined;
  };
  const [left, right] = inputs as [string, string];
  const factor = getNumber(right);
  if (factor !== undefined) {
    return { source: left, factor: opType === "Mul" ? factor : 1 / factor };
  }
  const first = getNumber(left);
  return opType === "Mul" && first !== undefined ? { source: right, factor: first } : undefined;
}

/** Whether a tensor is of floats. */
function isFloat(tensor: string, run: Evaluation): boolean {
  const dtype = run.value(tensor)?.dtype;
  return dtype === "float32" || dtype === "float16";
}

/** Parts of which axes consist: batch, token, head, element of a head. */
type Atom = "b" | "t" | "h" | "d";

/** The axes of a tensor, each made of one or more atoms, outermost first. */
type Axes = readonly string[];

/** Sizes of the atoms. */
type AtomSizes = Readonly<Record<Atom, number>>;

/** Rows, which projections compute: `[batch, tokens, heads * size]`. */
export const ROW_AXES: Axes = ["b", "t", "hd"];

/** Heads: `[batch, heads, tokens, size]`. */
export const HEAD_AXES: Axes = ["b", "h", "t", "d"];

/**
 * The axes after a `Reshape` to `shape`. Since elements keep their order, it only regroups atoms.
 *
 * @returns `undefined` if it divides an atom.
 */
export function regroup(axes: Axes, shape: readonly number[], sizes: AtomSizes): Axes | undefined {
  const atoms = [...axes.join("")] as Atom[];
  const getSize = (group: string) =>
    [...group].reduce((product, atom) => product * sizes[atom as Atom], 1);
  const groups = shape.map((size) => {
    let group = "";
    while (atoms.length > 0 && getSize(group) < size) group += atoms.shift();
    return group;
  });
  const isWhole = groups.every((group, axis) => getSize(group) === shape[axis]);
  return atoms.length === 0 && isWhole ? groups : undefined;
}

/** The axes after a `Transpose`; `undefined` if its permutation has another number of axes. */
export function permute(axes: Axes, node: Node): Axes | undefined {
  const perm = readIntsAttribute(node, "perm") ?? [...axes.keys()].reverse();
  return perm.length === axes.length ? perm.map((axis) => axes[axis]!) : undefined;
}
