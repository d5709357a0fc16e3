/**
 * Resizes images exactly as Pillow does, since models were trained with it: antialiased, in two passes with 8-bit
 * pixels between them, with fixed-point weights. Images with alpha are premultiplied first, as in Pillow.
 *
 * @module
 */
import type { Pixels } from "./pixels.ts";
import { premultiply, unpremultiply } from "./alpha.ts";
import { filterHorizontally, filterVertically } from "./resample_passes.ts";
import {
  type Axis,
  computeWeights,
  nearestInputs,
  type ResampleFilter,
} from "./resample_filter.ts";

export type { ResampleFilter };

/** How to resize. */
interface ResizeOptions {
  /** Width of the result in pixels, at least 1. */
  readonly width: number;
  /** Height of the result in pixels, at least 1. */
  readonly height: number;
  readonly filter: ResampleFilter;
  /**
   * The part to resize: left, top, right, bottom, in pixels of the source, which may be fractions. All of it if absent.
   */
  readonly box?: readonly [number, number, number, number] | undefined;
}

interface Axes {
  readonly x: Axis;
  readonly y: Axis;
}

/**
 * Resizes an image. The result has the same channels and equals Pillow's.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * const row = { width: 4, height: 1, channels: 1, data: Uint8Array.of(0, 100, 200, 250) } as const;
 * const half = resize(row, { width: 2, height: 1, filter: "box" });
 * assert.deepEqual([...half.data], [50, 225]);
 * ```
 *
 * @throws {RangeError} when a size is not a positive integer or the box leaves the image.
 */
export function resize(pixels: Pixels, options: ResizeOptions): Pixels {
  const { filter } = options;
  const axes = toAxes(pixels, options);
  const mixesPixels = filter !== "nearest" && !(isWhole(axes.x) && isWhole(axes.y));
  return mixesPixels && pixels.channels % 2 === 0
    ? unpremultiply(resample(premultiply(pixels), axes, filter))
    : resample(pixels, axes, filter);
}

/** As {@linkcode resize}, but treats alpha like the other channels, so that it does not change colours. */
export function resizeChannels(pixels: Pixels, options: ResizeOptions): Pixels {
  return resample(pixels, toAxes(pixels, options), options.filter);
}

function resample(pixels: Pixels, axes: Axes, filter: ResampleFilter): Pixels {
  if (isWhole(axes.x) && isWhole(axes.y)) return { ...pixels, data: pixels.data.slice() };
  return filter === "nearest" ? pickNearest(pixels, axes) : filterBoth(pixels, axes, filter);
}

function toAxes(
  { width, height }: { readonly width: number; readonly height: number },
  { width: toWidth, height: toHeight, box: [left, top, right, bottom] = [0, 0, width, height] }:
    ResizeOptions,
): Axes {
  for (const size of [toWidth, toHeight]) {
    if (Number.isInteger(size) && size >= 1) continue;
    throw new RangeError(`An image cannot be resized to ${toWidth} × ${toHeight} pixels.`);
  }
  const isInside = left >= 0 && top >= 0 && right <= width && bottom <= height && left < right &&
    top < bottom;
  if (!isInside) {
    const box = `${left}, ${top}, ${right}, ${bottom}`;
    throw new RangeError(`The box ${box} is not within ${width} × ${height} pixels.`);
  }
  // Pillow's boxes have 32-bit floats.
  const f = Math.fround;
  return {
    x: { numInputs: width, start: f(left), end: f(right), numOutputs: toWidth },
    y: { numInputs: height, start: f(top), end: f(bottom), numOutputs: toHeight },
  };
}

function isWhole({ numInputs, start, end, numOutputs }: Axis): boolean {
  return start === 0 && end === numInputs && numOutputs === numInputs;
}

function pickNearest({ width, channels, data: from }: Pixels, { x, y }: Axes): Pixels {
  const data = new Uint8Array(x.numOutputs * y.numOutputs * channels);
  const columns = nearestInputs(x);
  let to = 0;
  for (const row of nearestInputs(y)) {
    for (const column of columns) {
      const at = (row * width + column) * channels;
      for (let channel = 0; channel < channels; channel++) data[to++] = from[at + channel]!;
    }
  }
  return { width: x.numOutputs, height: y.numOutputs, channels, data };
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
  // Rows outside of the box and the filter's support are not needed.
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
