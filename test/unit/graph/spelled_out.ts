/**
 * Attention in ONNX's basic operators, like exporters write it, for tests of the cut.
 *
 * @module
 */
import { constant } from "../../fixtures/graphs/onnx_builder.ts";
import { type AddAttention, type DecoderBuilder, type Layer, projections } from "./test_decoder.ts";

const LOWEST = -3.4028234663852886e38;
const INT64_MAX = 9223372036854775807n;

function computeSize(graph: DecoderBuilder, tensor: string, axis: number): string {
  return graph.add("Gather", [graph.add("Shape", [tensor]), graph.ints([axis], [])], {
    attributes: { axis: 0 },
  });
}

function unsqueeze(graph: DecoderBuilder, tensor: string, axes: readonly number[]): string {
  return graph.add("Unsqueeze", [tensor, graph.ints(axes)]);
}

/** Joins sizes, some constant and some computed, to a vector. */
function sizes(graph: DecoderBuilder, parts: readonly (number | string)[]): string {
  const vectors = parts.map((part) =>
    typeof part === "number" ? graph.ints([part]) : unsqueeze(graph, part, [0])
  );
  return graph.add("Concat", vectors, { attributes: { axis: 0 } });
}

/** Splits rows into heads `[1, heads, tokens, size]`, by a shape computed at run time. */
export function splitHeads(graph: DecoderBuilder, rows: string, count: number): string {
  const shape = sizes(graph, [
    computeSize(graph, rows, 0),
    computeSize(graph, rows, 1),
    count,
    graph.sizes.headDim,
  ]);
  const split = graph.add("Reshape", [rows, shape]);
  return graph.add("Transpose", [split], { attributes: { perm: [0, 2, 1, 3] } });
}

/** Joins heads to rows `[1, tokens, heads * size]`. */
export function joinHeads(graph: DecoderBuilder, heads: string): string {
  const swapped = graph.add("Transpose", [heads], { attributes: { perm: [0, 2, 1, 3] } });
  const shape = sizes(graph, [
    computeSize(graph, swapped, 0),
    computeSize(graph, swapped, 1),
    graph.sizes.heads * graph.sizes.headDim,
  ]);
  return graph.add("Reshape", [swapped, shape]);
}

/** Appends to the cache, into the layer's present output. */
export function cached(
  graph: DecoderBuilder,
  past: string,
  added: string,
  present: string,
): string {
  return graph.add("Concat", [past, added], { attributes: { axis: -2 }, outputs: [present] });
}

/** Like {@linkcode cached}, for a float16 cache: the cache is cast before rows are appended, or the rows are cast. */
function castAndCached(
  graph: DecoderBuilder,
  what: "past" | "rows",
  [past, added, present]: readonly [string, string, string],
): string {
  const cast = (tensor: string, to: number, outputs?: string[]) =>
    graph.add("Cast", [tensor], { attributes: { to }, ...(outputs && { outputs }) });
  if (what === "rows") return cast(cached(graph, past, cast(added, 10), present), 1);
  const all = graph.add("Concat", [cast(past, 1), added], { attributes: { axis: -2 } });
  cast(all, 10, [present]);
  return all;
}

/** Repeats key-value heads for their query heads, like the export of PyTorch's `repeat_kv`. */
export function repeatHeads(graph: DecoderBuilder, tensor: string): string {
  const { heads, kvHeads, headDim } = graph.sizes;
  const [batch, length] = [computeSize(graph, tensor, 0), computeSize(graph, tensor, 2)];
  const wide = sizes(graph, [batch, kvHeads, heads / kvHeads, length, headDim]);
  const expanded = graph.add("Expand", [unsqueeze(graph, tensor, [2]), wide]);
  return graph.add("Reshape", [expanded, sizes(graph, [batch, heads, length, headDim])]);
}

/**
 * The additive mask `[1, 1, tokens, total]` as in recent exports: the triangle of a filled square, multiplied by 1 for
 * later keys and 0 for others, and filled again at padded keys.
 */
export function additiveMask(
  graph: DecoderBuilder,
  options: { readonly window?: number } = {},
): string {
  const name = "additive_mask";
  if (graph.nodes.some(({ outputs }) => outputs.includes(name))) return name;
  const [tokens, past] = [
    computeSize(graph, "input_ids", 1),
    computeSize(graph, "past_key_values.0.key", 2),
  ];
  const total = graph.add("Add", [tokens, past]);
  const [zero, one] = [graph.ints([0], []), graph.ints([1], [])];
  const filled = graph.add("Expand", [graph.float(LOWEST), sizes(graph, [tokens, total])]);
  const triangle = graph.add("Trilu", [filled, graph.ints([1], [])], { attributes: { upper: 1 } });
  const keys = graph.add("Range", [zero, total, one]);
  const queries = unsqueeze(graph, graph.add("Range", [past, total, one]), [1]);
  let hidden = graph.add("Greater", [keys, queries]);
  let square = triangle;
  if (options.window !== undefined) {
    const from = graph.add("Sub", [queries, graph.ints([options.window], [])]);
    hidden = graph.add("Or", [hidden, graph.add("LessOrEqual", [keys, from])]);
    square = filled;
  }
  const later = graph.add("Mul", [square, graph.add("Cast", [hidden], { attributes: { to: 1 } })]);
  const mask = unsqueeze(graph, later, [0, 1]);
  const padding = unsqueeze(graph, "attention_mask", [1, 2]);
  const both = graph.add("Add", [mask, graph.add("Cast", [padding], { attributes: { to: 1 } })]);
  const isPadding = graph.add("Equal", [both, graph.float(0)]);
  return graph.add("Where", [isPadding, graph.float(LOWEST), mask], { outputs: [name] });
}

/** Angles from `position_ids`, like in exports of Llama: cosines and sines `[1, 1, tokens, size]`. */
function angles(graph: DecoderBuilder): [string, string] {
  if (!graph.nodes.some(({ outputs }) => outputs.includes("cosines"))) {
    const half = graph.sizes.headDim / 2;
    const frequencies = Float32Array.from({ length: half }, (_, i) => 100 ** (-i / half));
    const table = graph.constant(constant("frequencies", [1, half, 1], frequencies));
    const wide = graph.add("Expand", [
      table,
      sizes(graph, [computeSize(graph, "position_ids", 0), half, 1]),
    ]);
    const places = graph.add("Cast", [unsqueeze(graph, "position_ids", [1])], {
      attributes: { to: 1 },
    });
    const product = graph.add("MatMul", [wide, places]);
    const turned = graph.add("Transpose", [product], { attributes: { perm: [0, 2, 1] } });
    const twice = graph.add("Concat", [turned, turned], { attributes: { axis: -1 } });
    graph.add("Unsqueeze", [graph.add("Cos", [twice]), graph.ints([1])], { outputs: ["cosines"] });
    graph.add("Unsqueeze", [graph.add("Sin", [twice]), graph.ints([1])], { outputs: ["sines"] });
  }
  return ["cosines", "sines"];
}

/** Rotates heads by their positions, with halves from slices to "the end". */
function rotateHeads(graph: DecoderBuilder, heads: string): string {
  const [cos, sin] = angles(graph);
  const half = graph.ints([graph.sizes.headDim / 2]);
  const end = graph.constant(constant("int64_max", [1], BigInt64Array.of(INT64_MAX)));
  const first = graph.add("Slice", [heads, graph.ints([0]), half, graph.ints([3])]);
  const second = graph.add("Slice", [heads, half, end, graph.ints([3])]);
  const turned = graph.add("Concat", [graph.add("Neg", [second]), first], {
    attributes: { axis: -1 },
  });
  const sum = [graph.add("Mul", [heads, cos]), graph.add("Mul", [turned, sin])];
  return graph.add("Add", sum);
}

/** How the parts of an attention are written. */
export interface Spelling {
  /** The tensor that is cast to append to a cache of float16. */
  readonly casts?: "past" | "rows";
  readonly rotary?: boolean;
  /** Changes the scores between the product of q and k and the softmax. */
  readonly scores?: (graph: DecoderBuilder, scores: string, layer: Layer) => string;
  /** Computes a factor by which both q and kᵀ are multiplied before their product. */
  readonly prescale?: (graph: DecoderBuilder, query: string) => string;
  /** Changes the weights between the softmax and the product with v. */
  readonly weights?: (graph: DecoderBuilder, weights: string) => string;
}

/** Attention of projections, repeated heads, cache and the given scores. */
export function spelledOut(spelling: Spelling): AddAttention {
  return (graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const [qRows, kRows, vRows] = projections(graph, layer);
    let q = splitHeads(graph, qRows, heads);
    let k = splitHeads(graph, kRows, kvHeads);
    const v = splitHeads(graph, vRows, kvHeads);
    if (spelling.rotary) [q, k] = [rotateHeads(graph, q), rotateHeads(graph, k)];
    const { casts } = spelling;
    const append = (...names: [past: string, added: string, present: string]) =>
      casts ? castAndCached(graph, casts, names) : cached(graph, ...names);
    const keys = repeatHeads(graph, append(layer.pastKey, k, layer.presentKey));
    const values = repeatHeads(graph, append(layer.pastValue, v, layer.presentValue));
    let turned = graph.add("Transpose", [keys], { attributes: { perm: [0, 1, 3, 2] } });
    if (spelling.prescale) {
      const factor = spelling.prescale(graph, q);
      [q, turned] = [graph.add("Mul", [q, factor]), graph.add("Mul", [turned, factor])];
    }
    const product = graph.add("MatMul", [q, turned]);
    const scores = spelling.scores?.(graph, product, layer) ?? product;
    const softmax = graph.add("Softmax", [scores], { attributes: { axis: -1 } });
    const weights = spelling.weights?.(graph, softmax) ?? softmax;
    return joinHeads(graph, graph.add("MatMul", [weights, values]));
  };
}

/**
 * Joins the logits of sinks to the scores of keys and subtracts each row's largest, then drops the weights of sinks, as
 * in PyTorch's export of gpt-oss.
 */
export function joinSinks(place: "first" | "last"): Required<Pick<Spelling, "scores" | "weights">> {
  const end = (graph: DecoderBuilder) =>
    graph.constant(constant("int64_max", [1], BigInt64Array.of(INT64_MAX)));
  return {
    scores(graph, scores) {
      const { heads } = graph.sizes;
      const masked = graph.add("Add", [scores, additiveMask(graph)]);
      const shaped = graph.add("Reshape", [graph.weights([heads], 2), graph.ints([1, -1, 1, 1])]);
      const batch = computeSize(graph, "input_ids", 0);
      const shape = sizes(graph, [batch, heads, computeSize(graph, "input_ids", 1), 1]);
      const sinks = graph.add("Expand", [shaped, shape]);
      const joined = graph.add("Concat", place === "first" ? [sinks, masked] : [masked, sinks], {
        attributes: { axis: -1 },
      });
      const largest = graph.add("ReduceMax", [joined, graph.ints([-1])]);
      return graph.add("Sub", [joined, largest]);
    },
    weights(graph, weights) {
      const [from, to] = place === "first"
        ? [graph.ints([1]), end(graph)]
        : [graph.ints([0]), graph.ints([-1])];
      return graph.add("Slice", [weights, from, to, graph.ints([3])]);
    },
  };
}

/** Computes slopes for ALiBi, `[heads]`, that are not powers of two. */
export function computeSlopes(heads: number): Float32Array {
  return Float32Array.from({ length: heads }, (_, head) => 2 ** (-0.7 * (head + 1)));
}

/** Slopes times the positions of keys, `[1, heads, 1, total]`, from the mask as BLOOM and Falcon-RW compute them. */
export function alibi(graph: DecoderBuilder): string {
  const { heads } = graph.sizes;
  const slopes = graph.constant(constant("slopes", [heads, 1], computeSlopes(heads)));
  const sum = graph.add("CumSum", ["attention_mask", graph.ints([-1], [])]);
  const positions = graph.add("Sub", [sum, graph.ints([1], [])]);
  const ofTokens = graph.add("Mul", [positions, "attention_mask"]);
  const row = graph.add("Cast", [unsqueeze(graph, ofTokens, [1])], { attributes: { to: 1 } });
  return unsqueeze(graph, graph.add("Mul", [row, slopes]), [2]);
}

/**
 * Attention of BLOOM: heads on the batch's axis, and slopes that `baddbmm` adds to scaled products.
 *
 * @param options.scalesMerged whether queries are also scaled after heads were merged with the batch, unlike BLOOM's.
 * @param options.hasMergedCaches whether heads are merged with the batch before they are cached, as older exports do
 * it.
 */
export function bloomAttention(
  graph: DecoderBuilder,
  layer: Layer,
  { scalesMerged = false, hasMergedCaches = false } = {},
): string {
  const { heads, headDim } = graph.sizes;
  const [q, k, v] = projections(graph, layer).map((rows) => splitHeads(graph, rows, heads)) as [
    string,
    string,
    string,
  ];
  const merge = (tensor: string, shape: readonly number[]) =>
    graph.add("Reshape", [tensor, graph.ints(shape)]);
  const turn = (tensor: string) =>
    graph.add("Transpose", [tensor], { attributes: { perm: [0, 1, 3, 2] } });
  const append = (past: string, added: string, axis: number, present: string) =>
    graph.add("Concat", [past, added], { attributes: { axis }, outputs: [present] });
  const turned = hasMergedCaches
    ? append(layer.pastKey, merge(turn(k), [heads, headDim, -1]), 2, layer.presentKey)
    : turn(cached(graph, layer.pastKey, k, layer.presentKey));
  const values = hasMergedCaches
    ? append(layer.pastValue, merge(v, [heads, -1, headDim]), 1, layer.presentValue)
    : cached(graph, layer.pastValue, v, layer.presentValue);
  const queries = merge(q, [heads, -1, headDim]);
  const product = graph.add("MatMul", [
    scalesMerged ? graph.add("Mul", [queries, graph.float(2)]) : queries,
    merge(turned, [heads, headDim, -1]),
  ]);
  const scaled = graph.add("Mul", [product, graph.float(1 / Math.sqrt(headDim))]);
  const bias = graph.add("Reshape", [alibi(graph), graph.ints([heads, 1, -1])]);
  const biased = graph.add("Add", [scaled, graph.add("Mul", [bias, graph.float(1)])]);
  const shape = sizes(graph, [1, heads, computeSize(graph, "input_ids", 1), -1]);
  const scores = graph.add("Add", [
    graph.add("Reshape", [biased, shape]),
    additiveMask(graph),
  ]);
  const softmax = graph.add("Softmax", [scores], { attributes: { axis: -1 } });
  const merged = sizes(graph, [heads, computeSize(graph, "input_ids", 1), -1]);
  const weights = graph.add("Reshape", [softmax, merged]);
  const attended = graph.add("MatMul", [weights, merge(values, [heads, -1, headDim])]);
  const whole = sizes(graph, [1, heads, computeSize(graph, attended, 1), headDim]);
  return joinHeads(graph, graph.add("Reshape", [attended, whole]));
}

/** Scores of Falcon-RW: slopes are added to products, and the sum is scaled. */
export function addFalconBias(graph: DecoderBuilder, products: string): string {
  const sum = graph.add("Add", [products, alibi(graph)]);
  const scaled = graph.add("Mul", [sum, graph.float(1 / Math.sqrt(graph.sizes.headDim))]);
  return graph.add("Add", [scaled, additiveMask(graph)]);
}

/** Slopes times the distances of keys from the last one, `[1, heads, 1, total]`, as MPT computes them. */
function biasByDistance(graph: DecoderBuilder): string {
  const { heads } = graph.sizes;
  const slopes = graph.constant(constant("slopes", [1, heads, 1, 1], computeSlopes(heads)));
  const total = computeSize(graph, "attention_mask", 1);
  const first = graph.add("Sub", [graph.ints([1], []), total]);
  const distances = graph.add("Range", [first, graph.ints([1], []), graph.ints([1], [])]);
  const row = graph.add("Cast", [unsqueeze(graph, distances, [0, 1, 2])], {
    attributes: { to: 1 },
  });
  return graph.add("Mul", [row, slopes]);
}

/** Positions in the table of {@linkcode biasOfTable}, which then has more than 4 KB. */
const TABLE_POSITIONS = 300;

/** Like {@linkcode biasByDistance}, `[heads, 1, total]`, from a constant table that ends with the last key. */
function biasOfTable(graph: DecoderBuilder): string {
  const { heads } = graph.sizes;
  const table = computeSlopes(heads).reduce<number[]>((all, slope) => {
    for (let i = 1 - TABLE_POSITIONS; i <= 0; i++) all.push(slope * i);
    return all;
  }, []);
  const name = graph.constant(
    constant("biases", [heads, 1, TABLE_POSITIONS], Float32Array.from(table)),
  );
  const total = unsqueeze(graph, computeSize(graph, "attention_mask", 1), [0]);
  const unused = graph.add("Sub", [graph.ints([TABLE_POSITIONS]), total]);
  const start = graph.add("Max", [unused, graph.ints([0])]);
  return graph.add("Slice", [name, start, graph.ints([TABLE_POSITIONS]), graph.ints([2])]);
}

/** Scores of MPT: biases by distance are added to scaled products, and later keys are hidden. */
export function addMptBias(graph: DecoderBuilder, products: string): string {
  return addBias(graph, products, biasByDistance(graph));
}

/** Like {@linkcode addMptBias}, with the biases in a constant, as `torch.onnx.export` folds them. */
export function addMptTable(graph: DecoderBuilder, products: string): string {
  return addBias(graph, products, biasOfTable(graph));
}

function addBias(graph: DecoderBuilder, products: string, bias: string): string {
  const scaled = graph.add("Mul", [products, graph.float(1 / Math.sqrt(graph.sizes.headDim))]);
  const biased = graph.add("Add", [scaled, bias]);
  const isHidden = graph.add("Less", [additiveMask(graph), graph.float(0)]);
  return graph.add("Where", [isHidden, graph.float(LOWEST), biased]);
}

/** `sqrt(1 / sqrt(size))` computed from the query's shape, like in PyTorch's export of scaled_dot_product_attention. */
export function rootOfScale(graph: DecoderBuilder, query: string): string {
  const end = graph.constant(constant("int64_max", [1], BigInt64Array.of(INT64_MAX)));
  const size = graph.add("Slice", [graph.add("Shape", [query]), graph.ints([-1]), end]);
  const root = graph.add("Sqrt", [graph.add("Cast", [size], { attributes: { to: 1 } })]);
  return graph.add("Sqrt", [
    graph.add("Div", [graph.constant(constant("one", [1], Float32Array.of(1))), root]),
  ]);
}
