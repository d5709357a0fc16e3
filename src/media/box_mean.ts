/**
 * Means over squares, at a cost that does not depend on their size.
 *
 * @module
 */
import type { Plane } from "./plane.ts";

/** The mean of all pixels at most `radius` away along either axis, those outside of the plane aside. The result is new. */
export function boxMean(plane: Plane, radius: number): Plane {
  return meanOfColumns(meanOfRows(plane, radius), radius);
}

/** The sum of a window follows from that of the one before. */
function meanOfRows({ width, height, data }: Plane, radius: number): Plane {
  const means = new Float32Array(data.length);
  for (let y = 0; y < height; y++) {
    const start = y * width;
    let sum = 0;
    for (let x = 0; x < Math.min(radius, width); x++) sum += data[start + x]!;
    for (let x = 0; x < width; x++) {
      if (x + radius < width) sum += data[start + x + radius]!;
      if (x > radius) sum -= data[start + x - radius - 1]!;
      means[start + x] = sum / countWithin(x, width, radius);
    }
  }
  return { width, height, data: means };
}

/** All columns side by side, so that memory is read in its order. */
function meanOfColumns({ width, height, data }: Plane, radius: number): Plane {
  const means = new Float32Array(data.length);
  const sums = new Float64Array(width);
  const add = (row: number, sign: number) => {
    for (let x = 0, at = row * width; x < width; x++, at++) sums[x]! += sign * data[at]!;
  };
  for (let y = 0; y < Math.min(radius, height); y++) add(y, 1);
  for (let y = 0; y < height; y++) {
    if (y + radius < height) add(y + radius, 1);
    if (y > radius) add(y - radius - 1, -1);
    const share = 1 / countWithin(y, height, radius);
    for (let x = 0, at = y * width; x < width; x++, at++) means[at] = sums[x]! * share;
  }
  return { width, height, data: means };
}

/** Number of positions of a line at most `radius` away from one. */
function countWithin(position: number, length: number, radius: number): number {
  return Math.min(length - 1, position + radius) - Math.max(0, position - radius) + 1;
}
