/**
 * How images are mapped to tensors, for `resize_normalize` and `composite_alpha`.
 *
 * @module
 */
import {
  computeWeights,
  nearestInputs,
  type ResampleFilter,
  type Weights,
} from "../../src/media/resample_filter.ts";

/** The format in which a model takes an image. */
export interface TensorFormat {
  /** Whether channels are separate planes (nchw) or interleaved (nhwc). */
  readonly layout: "nchw" | "nhwc";
  /** Width of the tensor. */
  readonly width: number;
  /** Height of the tensor. */
  readonly height: number;
  /** The size to which the image is resized. It is put into the upper left corner, and the rest of the tensor is 0. */
  readonly contentWidth: number;
  readonly contentHeight: number;
  readonly filter: ResampleFilter;
  /** Factor for each channel, red first: a level from 0 to 255 becomes `level · scale + offset`. */
  readonly scale: readonly [number, number, number];
  readonly offset: readonly [number, number, number];
}

/** The format of a mask made by a model: f32 `[height, width]`, of which the upper left part belongs to the image. */
export interface MaskFormat {
  readonly width: number;
  readonly height: number;
  /** Number of columns that belong to the image; may be a fraction. */
  readonly contentWidth: number;
  /** Number of rows that belong to the image; may be a fraction. */
  readonly contentHeight: number;
  readonly filter: ResampleFilter;
}

/** The weights for resizing an axis from `numInputs` to `numOutputs` pixels. */
export function weighAxis(
  numInputs: number,
  numOutputs: number,
  filter: ResampleFilter,
): Weights {
  const axis = { numInputs: Math.ceil(numInputs), start: 0, end: numInputs, numOutputs };
  if (filter !== "nearest") return computeWeights(axis, filter);
  return {
    first: nearestInputs(axis),
    count: new Int32Array(numOutputs).fill(1),
    stride: 1,
    values: new Float64Array(numOutputs).fill(1),
  };
}
