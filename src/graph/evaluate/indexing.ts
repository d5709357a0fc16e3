/**
 * Operators that pick, scatter, count or sum elements. Exporters build masks and positions from them.
 *
 * @module
 */
import { countElements } from "../file/tensor.ts";
import { readIntAttribute, readStringAttribute } from "../file/proto.ts";
import {
  type Call,
  computeStrides,
  forEachOffset,
  isComputable,
  makeData,
  makeInt64Value,
  need,
  needData,
  normalizeAxis,
  readOptionalInts,
  type Rule,
  type Rules,
  UnknownValue,
  type Value,
} from "./value.ts";

/** Computes each element of a result by its index. Without `element`, only the shape is known. */
function computed(
  like: Value,
  shape: readonly number[],
  element: ((i: number) => number) | undefined,
): readonly [Value] {
  const { dtype } = like;
  if (element === undefined || !isComputable(shape)) return [{ dtype, shape }];
  return [{ dtype, shape, data: makeData(countElements(shape), element) }];
}

function gather(call: Call): readonly [Value] {
  const [source, indices] = [need(call, 0), need(call, 1)];
  const axis = normalizeAxis(readIntAttribute(call.node, "axis") ?? 0, source.shape.length);
  const size = source.shape[axis]!;
  const inner = countElements(source.shape.slice(axis + 1));
  const shape = [...source.shape.slice(0, axis), ...indices.shape, ...source.shape.slice(axis + 1)];
  const count = countElements(indices.shape);
  const { data } = source;
  if (data === undefined || indices.data === undefined) return computed(source, shape, undefined);
  const picks = indices.data.map((index) => index < 0 ? index + size : index);
  if (picks.some((pick) => pick < 0 || pick >= size)) throw new UnknownValue("index out of range");
  return computed(source, shape, (i) => {
    const outer = Math.floor(i / (count * inner));
    const pick = picks[Math.floor(i / inner) % count]!;
    return data[(outer * size + pick) * inner + i % inner]!;
  });
}

function gatherElements(call: Call): readonly [Value] {
  const [source, indices] = [need(call, 0), need(call, 1)];
  const axis = normalizeAxis(readIntAttribute(call.node, "axis") ?? 0, source.shape.length);
  const { data } = source;
  const picks = indices.data;
  if (data === undefined || picks === undefined) {
    return computed(source, indices.shape, undefined);
  }
  const [from, to] = [computeStrides(source.shape), computeStrides(indices.shape)];
  return computed(source, indices.shape, (i) => {
    let offset = 0;
    for (let at = 0; at < to.length; at++) {
      const index = at === axis ? picks[i]! : Math.floor(i / to[at]!) % indices.shape[at]!;
      offset += (index < 0 ? index + source.shape[at]! : index) * from[at]!;
    }
    return data[offset]!;
  });
}

/** The shape of a `OneHot`: one element for each class on a new last axis. */
function oneHot(call: Call): readonly [Value] {
  const { shape } = need(call, 0);
  const [depth] = needData(call, 1);
  if ((readIntAttribute(call.node, "axis") ?? -1) !== -1) throw new UnknownValue("axis");
  return [{ dtype: need(call, 2).dtype, shape: [...shape, depth!] }];
}

/** `ScatterElements`. Its indices are distinct, so if it updates all elements with one value, the result is known. */
function scattered(call: Call): readonly [Value] {
  const [{ dtype, shape }, updates] = [need(call, 0), need(call, 2)];
  const isOfAll = updates.shape.join() === shape.join() &&
    (readStringAttribute(call.node, "reduction") ?? "none") === "none";
  const isEqual = updates.data?.every((each) => each === updates.data![0]);
  return [{ dtype, shape, data: isOfAll && isEqual ? updates.data : undefined }];
}

function gatherNd(call: Call): readonly [Value] {
  const [source, indices] = [need(call, 0), need(call, 1)];
  if (readIntAttribute(call.node, "batch_dims")) throw new UnknownValue("batch_dims");
  const depth = indices.shape.at(-1) ?? 0;
  const tail = source.shape.slice(depth);
  const inner = countElements(tail);
  const shape = [...indices.shape.slice(0, -1), ...tail];
  const { data } = source;
  const picks = indices.data;
  if (data === undefined || picks === undefined) return computed(source, shape, undefined);
  const strides = computeStrides(source.shape);
  return computed(source, shape, (i) => {
    let offset = i % inner;
    for (let at = 0, row = Math.floor(i / inner) * depth; at < depth; at++) {
      const index = picks[row + at]!;
      offset += (index < 0 ? index + source.shape[at]! : index) * strides[at]!;
    }
    return data[offset]!;
  });
}

function scatterNd(call: Call): readonly [Value] {
  const [source, indices, updates] = [need(call, 0), need(call, 1), need(call, 2)];
  const { data } = source;
  const picks = indices.data;
  if (data === undefined || picks === undefined || updates.data === undefined) {
    return computed(source, source.shape, undefined);
  }
  if ((readStringAttribute(call.node, "reduction") ?? "none") !== "none") {
    throw new UnknownValue("reduction");
  }
  const depth = indices.shape.at(-1) ?? 0;
  const inner = countElements(source.shape.slice(depth));
  const strides = computeStrides(source.shape);
  const scattered = data.slice();
  for (let row = 0; row < picks.length / depth; row++) {
    let offset = 0;
    for (let at = 0; at < depth; at++) {
      const index = picks[row * depth + at]!;
      offset += (index < 0 ? index + source.shape[at]! : index) * strides[at]!;
    }
    scattered.set(updates.data.subarray(row * inner, (row + 1) * inner), offset);
  }
  return [{ ...source, data: scattered }];
}

function range(call: Call): readonly [Value] {
  const [start, limit, delta] = [0, 1, 2].map((i) => needData(call, i)[0]!) as [
    number,
    number,
    number,
  ];
  const length = Math.max(0, Math.ceil((limit - start) / delta));
  return computed(need(call, 0), [length], (i) => start + i * delta);
}

function trilu(call: Call): readonly [Value] {
  const input = need(call, 0);
  const { shape, data } = input;
  const diagonal = readOptionalInts(call, 1)?.[0] ?? 0;
  const upper = (readIntAttribute(call.node, "upper") ?? 1) === 1;
  const [rows, columns] = [shape.at(-2)!, shape.at(-1)!];
  return computed(
    input,
    shape,
    data && ((i) => {
      const distance = i % columns - Math.floor(i / columns) % rows;
      return (upper ? distance >= diagonal : distance <= diagonal) ? data[i]! : 0;
    }),
  );
}

function cumSum(call: Call): readonly [Value] {
  const input = need(call, 0);
  const axis = normalizeAxis(needData(call, 1)[0]!, input.shape.length);
  if (input.data === undefined) return computed(input, input.shape, undefined);
  if (readIntAttribute(call.node, "exclusive") || readIntAttribute(call.node, "reverse")) {
    throw new UnknownValue("exclusive or reverse");
  }
  const inner = countElements(input.shape.slice(axis + 1));
  const sums = input.data.slice();
  for (let i = inner; i < sums.length; i++) {
    if (Math.floor(i / inner) % input.shape[axis]! > 0) sums[i]! += sums[i - inner]!;
  }
  return [{ ...input, data: sums }];
}

/** The axes that a reduction reduces. */
function listReducedAxes(call: Call): number[] {
  const rank = need(call, 0).shape.length;
  const axes = readOptionalInts(call, 1, "axes") ?? [];
  if (axes.length > 0) return axes.map((axis) => normalizeAxis(axis, rank));
  return readIntAttribute(call.node, "noop_with_empty_axes") === 1
    ? []
    : Array.from({ length: rank }, (_, axis) => axis);
}

function reduction(
  initial: number,
  combine: (sum: number, x: number) => number,
  mean = false,
): Rule {
  return (call) => {
    const { dtype, shape, data } = need(call, 0);
    const axes = new Set(listReducedAxes(call));
    const kept = shape.map((size, axis) => axes.has(axis) ? 1 : size);
    const keeps = (readIntAttribute(call.node, "keepdims") ?? 1) === 1;
    const outer = keeps ? kept : shape.filter((_, axis) => !axes.has(axis));
    if (data === undefined) return [{ dtype, shape: outer }];
    const strides = computeStrides(kept).map((stride, axis) => kept[axis] === 1 ? 0 : stride);
    const sums = new Float64Array(countElements(kept)).fill(initial);
    forEachOffset(shape, strides, (offset, i) => {
      sums[offset] = combine(sums[offset]!, data[i]!);
    });
    const count = data.length / sums.length;
    return [{ dtype, shape: outer, data: mean ? sums.map((sum) => sum / count) : sums }];
  };
}

function nonZero(call: Call): readonly [Value] {
  const { shape } = need(call, 0);
  const hits = [...needData(call, 0).entries()].filter(([, x]) => x !== 0).map(([i]) => i);
  const strides = computeStrides(shape);
  return [makeInt64Value(
    [shape.length, hits.length],
    shape.flatMap((size, axis) => hits.map((i) => Math.floor(i / strides[axis]!) % size)),
  )];
}

/** Rules of the indexing operators. */
export const INDEXING_RULES: Rules = {
  Gather: gather,
  GatherElements: gatherElements,
  GatherND: gatherNd,
  OneHot: oneHot,
  ScatterElements: scattered,
  ScatterND: scatterNd,
  Range: range,
  Trilu: trilu,
  CumSum: cumSum,
  NonZero: nonZero,
  ReduceSum: reduction(0, (sum, x) => sum + x),
  ReduceSumSquare: reduction(0, (sum, x) => sum + x * x),
  ReduceMean: reduction(0, (sum, x) => sum + x, true),
  ReduceProd: reduction(1, (product, x) => product * x),
  ReduceMax: reduction(-Infinity, Math.max),
  ReduceMin: reduction(Infinity, Math.min),
};
