/**
 * Operators that move elements, and operators on shapes.
 *
 * @module
 */
import { countElements } from "../file/tensor.ts";
import { readIntAttribute, readIntsAttribute, readTensorAttribute } from "../file/proto.ts";
import { decodeTensorMessage } from "../file/proto_codec.ts";
import {
  broadcastShapes,
  broadcastStrides,
  type Call,
  computeStrides,
  gatherStrided,
  isComputable,
  makeInt64Value,
  need,
  needData,
  normalizeAxis,
  readOptionalInts,
  type Rules,
  toValue,
  UnknownValue,
  type Value,
} from "./value.ts";

/** The same elements in another shape. */
function reshaped(value: Value, shape: readonly number[]): readonly [Value] {
  if (countElements(shape) !== countElements(value.shape)) {
    throw new UnknownValue(`${value.shape} cannot become ${shape}`);
  }
  return [{ ...value, shape }];
}

/** The elements of a strided view of an input. */
function viewed(
  value: Value,
  shape: readonly number[],
  strides: readonly number[],
  start = 0,
): readonly [Value] {
  const { dtype, data } = value;
  if (data === undefined || !isComputable(shape)) return [{ dtype, shape }];
  return [{ dtype, shape, data: gatherStrided(data, shape, strides, start) }];
}

function reshape(call: Call): readonly [Value] {
  const input = need(call, 0);
  const target = [...needData(call, 1)];
  const keepZero = readIntAttribute(call.node, "allowzero") === 1;
  const shape = target.map((size, axis) => size === 0 && !keepZero ? input.shape[axis] ?? 1 : size);
  const open = shape.indexOf(-1);
  if (open >= 0) {
    const rest = countElements(shape.filter((_, axis) => axis !== open));
    shape[open] = countElements(input.shape) / rest;
    if (!Number.isInteger(shape[open])) throw new UnknownValue(`${input.shape} to ${target}`);
  }
  return reshaped(input, shape);
}

function unsqueeze(call: Call): readonly [Value] {
  const input = need(call, 0);
  const axes = readOptionalInts(call, 1, "axes") ?? [];
  const rank = input.shape.length + axes.length;
  const inserted = new Set(axes.map((axis) => normalizeAxis(axis, rank)));
  const sizes = input.shape.values();
  return reshaped(
    input,
    Array.from({ length: rank }, (_, axis) => inserted.has(axis) ? 1 : sizes.next().value!),
  );
}

function squeeze(call: Call): readonly [Value] {
  const input = need(call, 0);
  const axes = readOptionalInts(call, 1, "axes")?.map((axis) =>
    normalizeAxis(axis, input.shape.length)
  );
  return reshaped(
    input,
    input.shape.filter((size, axis) => axes ? !axes.includes(axis) : size !== 1),
  );
}

function flatten(call: Call): readonly [Value] {
  const input = need(call, 0);
  const axis = readIntAttribute(call.node, "axis") ?? 1;
  const split = axis < 0 ? axis + input.shape.length : axis;
  return reshaped(input, [
    countElements(input.shape.slice(0, split)),
    countElements(input.shape.slice(split)),
  ]);
}

function transpose(call: Call): readonly [Value] {
  const input = need(call, 0);
  const perm = readIntsAttribute(call.node, "perm") ?? input.shape.map((_, axis) => axis).reverse();
  const strides = computeStrides(input.shape);
  return viewed(input, perm.map((axis) => input.shape[axis]!), perm.map((axis) => strides[axis]!));
}

function expand(call: Call): readonly [Value] {
  const input = need(call, 0);
  const shape = broadcastShapes([input.shape, [...needData(call, 1)]]);
  return viewed(input, shape, broadcastStrides(input.shape, shape));
}

function tile(call: Call): readonly [Value] {
  const input = need(call, 0);
  const repeats = needData(call, 1);
  const strides = computeStrides(input.shape);
  // Each axis becomes two: one for the repetitions, with a stride of 0, and one for the elements.
  const [tiled] = viewed(
    input,
    input.shape.flatMap((size, axis) => [repeats[axis]!, size]),
    strides.flatMap((stride) => [0, stride]),
  );
  return reshaped(tiled, input.shape.map((size, axis) => size * repeats[axis]!));
}

function concat(call: Call): readonly [Value] {
  const values = call.inputs.map((_, i) => need(call, i));
  const first = values[0]!;
  const axis = normalizeAxis(readIntAttribute(call.node, "axis") ?? 0, first.shape.length);
  const size = values.reduce((sum, { shape }) => sum + shape[axis]!, 0);
  const shape = first.shape.with(axis, size);
  if (values.some(({ data }) => data === undefined) || !isComputable(shape)) {
    return [{ dtype: first.dtype, shape }];
  }
  const outer = countElements(first.shape.slice(0, axis));
  const inner = countElements(first.shape.slice(axis + 1));
  const data = new Float64Array(countElements(shape));
  let column = 0;
  for (const value of values) {
    const run = value.shape[axis]! * inner;
    for (let row = 0; row < outer; row++) {
      data.set(value.data!.subarray(row * run, (row + 1) * run), row * size * inner + column);
    }
    column += run;
  }
  return [{ dtype: first.dtype, shape, data }];
}

function split(call: Call): readonly Value[] {
  const input = need(call, 0);
  const axis = normalizeAxis(readIntAttribute(call.node, "axis") ?? 0, input.shape.length);
  const parts = readIntAttribute(call.node, "num_outputs") ?? call.node.outputs.length;
  const even = Math.ceil(input.shape[axis]! / parts);
  const sizes = readOptionalInts(call, 1, "split") ??
    Array.from({ length: parts }, (_, i) => Math.min(even, input.shape[axis]! - i * even));
  const strides = computeStrides(input.shape);
  let start = 0;
  return sizes.flatMap((size) => {
    const part = viewed(input, input.shape.with(axis, size), strides, start * strides[axis]!);
    start += size;
    return part;
  });
}

function slice(call: Call): readonly [Value] {
  const input = need(call, 0);
  const starts = readOptionalInts(call, 1, "starts") ?? [];
  const ends = readOptionalInts(call, 2, "ends") ?? [];
  const axes = readOptionalInts(call, 3, "axes") ?? starts.map((_, i) => i);
  const steps = readOptionalInts(call, 4) ?? starts.map(() => 1);
  const shape = [...input.shape];
  const strides = computeStrides(input.shape);
  let first = 0;
  axes.forEach((signed, i) => {
    const axis = normalizeAxis(signed, shape.length);
    const size = input.shape[axis]!;
    const step = steps[i]!;
    const clamp = (index: number) => {
      const counted = index < 0 ? index + size : index;
      return step > 0
        ? Math.min(Math.max(counted, 0), size)
        : Math.min(Math.max(counted, -1), size - 1);
    };
    const start = clamp(starts[i]!);
    shape[axis] = Math.max(0, Math.ceil((clamp(ends[i]!) - start) / step));
    first += start * strides[axis]!;
    strides[axis]! *= step;
  });
  return viewed(input, shape, strides, first);
}

/** Rules of the layout operators. */
export const LAYOUT_RULES: Rules = {
  Reshape: reshape,
  Unsqueeze: unsqueeze,
  Squeeze: squeeze,
  Flatten: flatten,
  Transpose: transpose,
  Expand: expand,
  Tile: tile,
  Concat: concat,
  Split: split,
  Slice: slice,
  Shape: (call) => {
    const { shape } = need(call, 0);
    const wanted = shape.slice(
      readIntAttribute(call.node, "start") ?? 0,
      readIntAttribute(call.node, "end") ?? shape.length,
    );
    return [makeInt64Value([wanted.length], wanted)];
  },
  Size: (call) => [makeInt64Value([], [countElements(need(call, 0).shape)])],
  ConstantOfShape: (call) => {
    const shape = [...needData(call, 0)];
    const message = readTensorAttribute(call.node, "value");
    const fill = message && toValue(decodeTensorMessage(message));
    const dtype = fill?.dtype ?? "float32";
    if (!isComputable(shape)) return [{ dtype, shape }];
    return [{
      dtype,
      shape,
      data: new Float64Array(countElements(shape)).fill(fill?.data?.[0] ?? 0),
    }];
  },
};
