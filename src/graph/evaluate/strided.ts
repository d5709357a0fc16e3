/**
 * Row-major shapes: strides, broadcasting, and reading one tensor in the order of another.
 *
 * @module
 */
import { countElements } from "../file/dtype.ts";
import { UnknownValue } from "./value.ts";

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
function forEachOffset(
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
