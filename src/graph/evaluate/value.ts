/**
 * What partial evaluation knows of a tensor, and helpers for the operators' rules: inputs, axes, row-major views.
 *
 * @module
 */
import { countElements, type TensorType } from "../file/dtype.ts";
import { intsAttribute, type Node, type Tensor } from "../file/proto.ts";

/** What is known of a tensor. */
export interface Value {
  readonly dtype: TensorType;
  readonly shape: readonly number[];
  /** The elements as numbers (bool: 0 and 1), row-major; absent when unknown or too many. */
  readonly data?: Float64Array | undefined;
}

/** One application of an operator. */
export interface Call {
  readonly node: Node;
  /** `undefined` where an optional input is absent or nothing is known of it. */
  readonly inputs: readonly (Value | undefined)[];
}

/** An operator's outputs, computed from its inputs; `undefined` if unknown. */
export type Rule = (call: Call) => readonly (Value | undefined)[];

/** Rules by operator. */
export type Rules = Readonly<Record<string, Rule>>;

/** Thrown by a rule whose inputs are unknown or invalid; the outputs are then unknown. */
export class UnknownValue extends Error {
  override readonly name = "UnknownValue";
}

/** More elements than this are not computed; a mask of 2,048 × 2,048 is. */
const MAX_ELEMENTS = 2 ** 22;

/** The input. @throws {UnknownValue} if it is unknown. */
export function need(call: Call, index: number): Value {
  const value = call.inputs[index];
  if (value === undefined) throw new UnknownValue(`input ${index} is not known`);
  return value;
}

/** The input's elements. @throws {UnknownValue} if they are unknown. */
export function needData(call: Call, index: number): Float64Array {
  const { data } = need(call, index);
  if (data === undefined) throw new UnknownValue(`the elements of input ${index} are not known`);
  return data;
}

/** The elements of an optional input of integers, or of the attribute that older operator sets have in its place. */
export function optionalInts(
  call: Call,
  index: number,
  attribute?: string,
): number[] | undefined {
  if (call.node.inputs[index]) return [...needData(call, index)];
  return attribute === undefined ? undefined : intsAttribute(call.node, attribute);
}

/** Counts an axis from the front. @throws {UnknownValue} when the rank has no such axis. */
export function normalizeAxis(axis: number, rank: number): number {
  const index = axis < 0 ? axis + rank : axis;
  if (index < 0 || index >= rank) throw new UnknownValue(`axis ${axis} of a rank-${rank} tensor`);
  return index;
}

/** Whether a value of this shape is small enough to compute. */
export function isComputable(shape: readonly number[]): boolean {
  return countElements(shape) <= MAX_ELEMENTS;
}

/** A value of int64 numbers. */
export function int64Value(shape: readonly number[], numbers: Iterable<number>): Value {
  return { dtype: "int64", shape, data: Float64Array.from(numbers) };
}

/** Elements by their index. */
export function makeData(length: number, element: (index: number) => number): Float64Array {
  const data = new Float64Array(length);
  for (let i = 0; i < length; i++) data[i] = element(i);
  return data;
}

function readElements({ dtype, data }: Tensor, count: number): Float64Array | undefined {
  if (data.kind !== "memory" || count > MAX_ELEMENTS) return undefined;
  const { buffer, byteOffset } = data.bytes;
  const view = new DataView(buffer, byteOffset, data.bytes.length);
  const read: Partial<Record<TensorType, (i: number) => number>> = {
    float32: (i) => view.getFloat32(i * 4, true),
    float16: (i) => view.getFloat16(i * 2, true),
    float64: (i) => view.getFloat64(i * 8, true),
    int64: (i) => Number(view.getBigInt64(i * 8, true)),
    int32: (i) => view.getInt32(i * 4, true),
    uint8: (i) => view.getUint8(i),
    int8: (i) => view.getInt8(i),
    bool: (i) => view.getUint8(i),
  };
  const element = read[dtype];
  return element && makeData(count, element);
}

/** What is known of a constant. Its elements are read when they are first needed: those of most constants never are. */
export function toValue(tensor: Tensor): Value {
  const { dtype, shape } = tensor;
  let elements: { readonly data: Float64Array | undefined } | undefined;
  return {
    dtype,
    shape,
    get data() {
      elements ??= { data: readElements(tensor, countElements(shape)) };
      return elements.data;
    },
  };
}

/** Distance in elements between neighbours along each axis. */
export function computeStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length).fill(1);
  for (let axis = shape.length - 2; axis >= 0; axis--) {
    strides[axis] = strides[axis + 1]! * shape[axis + 1]!;
  }
  return strides;
}

/** The shape that these broadcast to. @throws {UnknownValue} when they do not fit. */
export function broadcastShapes(shapes: readonly (readonly number[])[]): number[] {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    let size = 1;
    for (const shape of shapes) {
      const own = shape[axis - rank + shape.length] ?? 1;
      if (own === 1 || own === size) continue;
      if (size !== 1) throw new UnknownValue(`shapes ${shapes.join(" and ")} do not broadcast`);
      size = own;
    }
    return size;
  });
}

/** Strides with which a tensor of `shape` is read as one of the larger shape `to`. */
export function broadcastStrides(shape: readonly number[], to: readonly number[]): number[] {
  const strides = computeStrides(shape);
  const lead = to.length - shape.length;
  return to.map((_, axis) => (shape[axis - lead] ?? 1) === 1 ? 0 : strides[axis - lead]!);
}

/** Calls `visit` for every element of `shape` in order, with its offset in a tensor of these strides. */
export function forEachOffset(
  shape: readonly number[],
  strides: readonly number[],
  visit: (offset: number, i: number) => void,
): void {
  const count = countElements(shape);
  const index = new Array<number>(shape.length).fill(0);
  for (let i = 0, offset = 0; i < count; i++) {
    visit(offset, i);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      offset += strides[axis]!;
      if (++index[axis]! < shape[axis]!) break;
      offset -= strides[axis]! * shape[axis]!;
      index[axis] = 0;
    }
  }
}

/** The elements of a view: those of `data` from `start` on with these strides, packed. */
export function gatherStrided(
  data: Float64Array,
  shape: readonly number[],
  strides: readonly number[],
  start = 0,
): Float64Array {
  const packed = new Float64Array(countElements(shape));
  forEachOffset(shape, strides, (offset, i) => {
    packed[i] = data[start + offset]!;
  });
  return packed;
}
