/**
 * Resizes pictures exactly as Pillow does, which the models' training did: antialiased, in two passes with 8-bit
 * pixels between them, weights in fixed point. Pictures with alpha are premultiplied meanwhile, as Pillow does it.
 *
 * @module
 */
import type { Pixels } from "./pixels.ts";
import { premultiply, unpremultiply } from "./premultiply.ts";
import { filterHorizontally, filterVertically } from "./resample_passes.ts";
import {
  type Axis,
  computeWeights,
  nearestInputs,
  type ResampleFilter,
  type Weights,
} from "./resample_filter.ts";

export type { ResampleFilter };

/** How to resize. */
export interface ResizeOptions {
  /** Pixels of the result, at least 1. */
  readonly width: number;
  /** Pixels of the result, at least 1. */
  readonly height: number;
  readonly filter: ResampleFilter;
  /** The part to take: left, top, right, bottom, in pixels of the source, fractions included. All of it if absent. */
  readonly box?: readonly [number, number, number, number] | undefined;
}

/** One channel of floats, such as a mask. */
export interface Plane {
  readonly width: number;
  readonly height: number;
  /** f32 `[height, width]`. */
  readonly data: Float32Array<ArrayBuffer>;
}

interface Axes {
  readonly x: Axis;
  readonly y: Axis;
}

/**
 * Resizes a picture; the result is new, of the same channels, equal to Pillow's.
 *
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const row = { width: 4, height: 1, channels: 1, data: Uint8Array.of(0, 100, 200, 250) } as const;
 * const half = resize(row, { width: 2, height: 1, filter: "box" });
 * assert.deepEqual([...half.data], [50, 225]);
 * ```
 *
 * @throws {RangeError} when a size is not a positive integer or the box leaves the picture.
 */
export function resize(pixels: Pixels, options: ResizeOptions): Pixels {
  const axes = toAxes(pixels, options);
  if (isWhole(axes.x) && isWhole(axes.y)) return { ...pixels, data: pixels.data.slice() };
  if (options.filter === "nearest") {
    const data = new Uint8Array(options.width * options.height * pixels.channels);
    pickNearest(pixels, { axes, channels: pixels.channels, output: data });
    return { width: options.width, height: options.height, channels: pixels.channels, data };
  }
  const hasAlpha = pixels.channels % 2 === 0;
  const resized = filterBoth(hasAlpha ? premultiply(pixels) : pixels, axes, options.filter);
  return hasAlpha ? unpremultiply(resized) : resized;
}

/**
 * Resizes a plane of floats; the result is new, equal to Pillow's for its mode `F`.
 *
 * @throws {RangeError} when a size is not a positive integer or the box leaves the plane.
 */
export function resizePlane(plane: Plane, options: ResizeOptions): Plane {
  const { x, y } = toAxes(plane, options);
  const { width, height, filter } = options;
  if (isWhole(x) && isWhole(y)) return { ...plane, data: plane.data.slice() };
  if (filter === "nearest") {
    const data = new Float32Array(width * height);
    pickNearest(plane, { axes: { x, y }, channels: 1, output: data });
    return { width, height, data };
  }
  const wide = isWhole(x) ? plane : filterRow(plane, computeWeights(x, filter));
  return isWhole(y) ? wide : filterColumn(wide, computeWeights(y, filter));
}

function toAxes(
  { width, height }: { readonly width: number; readonly height: number },
  { width: toWidth, height: toHeight, box: [left, top, right, bottom] = [0, 0, width, height] }:
    ResizeOptions,
): Axes {
  for (const size of [toWidth, toHeight]) {
    if (Number.isInteger(size) && size >= 1) continue;
    throw new RangeError(`A picture cannot be resized to ${toWidth} × ${toHeight} pixels.`);
  }
  const isInside = left >= 0 && top >= 0 && right <= width && bottom <= height && left < right &&
    top < bottom;
  if (!isInside) {
    const box = `${left}, ${top}, ${right}, ${bottom}`;
    throw new RangeError(`The box ${box} is not within ${width} × ${height} pixels.`);
  }
  // Pillow's boxes are of 32-bit floats.
  const f = Math.fround;
  return {
    x: { numInputs: width, start: f(left), end: f(right), numOutputs: toWidth },
    y: { numInputs: height, start: f(top), end: f(bottom), numOutputs: toHeight },
  };
}

function isWhole({ numInputs, start, end, numOutputs }: Axis): boolean {
  return start === 0 && end === numInputs && numOutputs === numInputs;
}

function pickNearest<T extends Uint8Array | Float32Array>(
  source: { readonly width: number; readonly data: T },
  { axes, channels, output }: { axes: Axes; channels: number; output: T },
): void {
  const columns = nearestInputs(axes.x);
  let to = 0;
  for (const row of nearestInputs(axes.y)) {
    for (const column of columns) {
      const from = (row * source.width + column) * channels;
      for (let channel = 0; channel < channels; channel++) {
        output[to++] = source.data[from + channel]!;
      }
    }
  }
}

function filterBoth(
  pixels: Pixels,
  { x, y }: Axes,
  filter: Exclude<ResampleFilter, "nearest">,
): Pixels {
  const down = isWhole(y) ? undefined : computeWeights(y, filter);
  if (isWhole(x)) return filterVertically(pixels, down!);
  const across = computeWeights(x, filter);
  if (down === undefined) return filterHorizontally(pixels, across);
  // Rows outside of the box, and further away than the filter reaches, are never looked at.
  const firstRow = down.first[0]!;
  const endRow = down.first.at(-1)! + down.count.at(-1)!;
  const rowBytes = pixels.width * pixels.channels;
  const rows = {
    ...pixels,
    height: endRow - firstRow,
    data: pixels.data.subarray(firstRow * rowBytes, endRow * rowBytes),
  };
  const wide = filterHorizontally(rows, across);
  return filterVertically(wide, { ...down, first: down.first.map((row) => row - firstRow) });
}

function filterRow(plane: Plane, { first, count, stride, values }: Weights): Plane {
  const width = first.length;
  const data = new Float32Array(width * plane.height);
  for (let y = 0, to = 0; y < plane.height; y++) {
    for (let x = 0; x < width; x++, to++) {
      const from = y * plane.width + first[x]!;
      let sum = 0;
      for (let k = 0; k < count[x]!; k++) sum += plane.data[from + k]! * values[x * stride + k]!;
      data[to] = sum;
    }
  }
  return { width, height: plane.height, data };
}

function filterColumn(plane: Plane, { first, count, stride, values }: Weights): Plane {
  const { width } = plane;
  const height = first.length;
  const data = new Float32Array(width * height);
  const sums = new Float64Array(width);
  for (let y = 0; y < height; y++) {
    sums.fill(0);
    for (let k = 0; k < count[y]!; k++) {
      const weight = values[y * stride + k]!;
      const from = (first[y]! + k) * width;
      for (let x = 0; x < width; x++) sums[x]! += plane.data[from + x]! * weight;
    }
    data.set(sums, y * width);
  }
  return { width, height, data };
}
