/**
 * The values of a partial evaluation (a tensor's shape and, if known, its elements), and functions that the operators'
 * rules share.
 *
 * @module
 */
import { countElements, type TensorType } from "../file/tensor.ts";
import { type Node, readIntsAttribute, type Tensor } from "../file/proto.ts";

/** The type and shape of a tensor, and its elements if they are known. */
export interface Value {
  readonly dtype: TensorType;
  readonly shape: readonly number[];
  /** The elements as numbers (bool: 0 and 1), row-major; absent when unknown or too many. */
  readonly data?: Float64Array | undefined;
}

/** One application of an operator. */
export interface Call {
  readonly node: Node;
  /** An input is `undefined` if it is absent or if nothing is known of it. */
  readonly inputs: readonly (Value | undefined)[];
}

/** Computes an operator's outputs from its inputs. An output is `undefined` if nothing is known of it. */
export type Rule = (call: Call) => readonly (Value | undefined)[];

/** Rules by operator. */
export type Rules = Readonly<Record<string, Rule>>;

/** Thrown by a rule whose inputs are unknown or invalid. Nothing is then known of the outputs. */
export class UnknownValue extends Error {
  override readonly name = "UnknownValue";
}

/** Tensors with more elements are not computed. A mask of 2,048 × 2,048 is small enough. */
const MAX_ELEMENTS = 2 ** 22;

/** Returns an input. @throws {UnknownValue} if nothing is known of it. */
export function need(call: Call, index: number): Value {
  const value = call.inputs[index];
  if (value === undefined) throw new UnknownValue(`input ${index} is not known`);
  return value;
}

/** Returns the elements of an input. @throws {UnknownValue} if they are unknown. */
export function needData(call: Call, index: number): Float64Array {
  const { data } = need(call, index);
  if (data === undefined) throw new UnknownValue(`the elements of input ${index} are not known`);
  return data;
}

/** The elements of an optional input of integers, or of the attribute that older operator sets have instead. */
export function readOptionalInts(
  call: Call,
  index: number,
  attribute?: string,
): number[] | undefined {
  if (call.node.inputs[index]) return [...needData(call, index)];
  return attribute === undefined ? undefined : readIntsAttribute(call.node, attribute);
}

/** Converts a negative axis to the axis counted from the front. @throws {UnknownValue} when there is no such axis. */
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
export function makeInt64Value(shape: readonly number[], numbers: Iterable<number>): Value {
  return { dtype: "int64", shape, data: Float64Array.from(numbers) };
}

/** Computes elements from their indices. */
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

/** Describes a constant. Its elements are read when they are first used; those of most constants never are. */
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

/** The distance in elements between neighbours along each axis, in row-major order. */
export function computeStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length).fill(1);
  for (let axis = shape.length - 2; axis >= 0; axis--) {
    strides[axis] = strides[axis + 1]! * shape[axis + 1]!;
  }
  return strides;
}

/** The shape to which some shapes broadcast. @throws {UnknownValue} when they do not broadcast. */
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

/** The strides that broadcast a tensor of `shape` to the shape `to`. */
export function broadcastStrides(shape: readonly number[], to: readonly number[]): number[] {
  const strides = computeStrides(shape);
  const lead = to.length - shape.length;
  return to.map((_, axis) => (shape[axis - lead] ?? 1) === 1 ? 0 : strides[axis - lead]!);
}

/** Calls `visit` for every element of `shape` in row-major order, with its offset by the strides and its number `i`. */
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

/** Copies the elements of a strided view of `data`, which begins at `start`, in row-major order. */
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
