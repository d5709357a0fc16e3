/**
 * The shape of a tensor of images.
 *
 * @module
 */
import type { TensorRow } from "./images.ts";

const CHANNELS = 3;

/** Number of elements of one image. */
export function elementsPerRow([row]: readonly TensorRow[]): number {
  const { width, height } = row!.format;
  return CHANNELS * width * height;
}

/** Dimensions of the whole tensor. */
export function tensorDims(rows: readonly TensorRow[]): number[] {
  const { layout, width, height } = rows[0]!.format;
  const numRows = rows.length;
  return layout === "nchw"
    ? [numRows, CHANNELS, height, width]
    : [numRows, height, width, CHANNELS];
}
