/**
 * The first stage of line OCR: finding the lines. A graph computes each pixel's probability of being text, and the
 * post-processing of DB ("Real-time Scene Text Detection with Differentiable Binarization", arXiv 1911.08947) converts
 * the probabilities to rectangles.
 *
 * @module
 */
import type { Pixels } from "../../media/pixels.ts";
import { resize } from "../../media/resample.ts";
import type { ChannelLevels, LineGraph } from "./line_graph.ts";
import {
  boxPoints,
  fromAxes,
  type LineBox,
  minAreaRect,
  type Point,
  type RotatedRectangle,
  toAxes,
} from "./line_boxes.ts";

export interface DetectionConfig {
  /** Path of the graph in the folder. */
  readonly file: string;
  readonly levels: ChannelLevels;
  /** The sides of the graph's input are multiples of this. */
  readonly multipleOf: number;
  /** Maximum number of pixels on a side of the graph's input. */
  readonly maxSide: number;
  /** Pixels with a higher probability belong to a region. */
  readonly threshold: number;
  /** Regions with a lower mean probability are dropped. */
  readonly boxThreshold: number;
  /**
   * The network marks only the middle of lines, so each region grows on all sides by `unclipRatio · area / perimeter`.
   */
  readonly unclipRatio: number;
}

/**
 * Finds the lines of an image, in no particular order.
 *
 * @param image an image of 3 channels.
 */
export async function detectLines(
  graph: LineGraph<DetectionConfig>,
  image: Pixels,
): Promise<LineBox[]> {
  // The size nearest to the image's own that the graph supports.
  const { multipleOf, maxSide } = graph.config;
  const factor = Math.min(1, maxSide / Math.max(image.width, image.height));
  const fit = (length: number) =>
    Math.max(multipleOf, Math.round(length * factor / multipleOf) * multipleOf);
  const [width, height] = [fit(image.width), fit(image.height)];
  const smaller = resize(image, { width, height, filter: "bilinear" });
  const { data } = await graph.run([smaller], width);
  const toImage: Point = [image.width / width, image.height / height];
  return findRegions({ width, height, data }, graph.config)
    .map((rectangle) => boxPoints(rectangle, toImage));
}

export interface ProbabilityMap {
  readonly width: number;
  readonly height: number;
  /** f32 `[height, width]`, 0 to 1. */
  readonly data: Float32Array;
}

/** A connected component of pixels: the topmost and the bottommost pixel of each column. */
type Columns = Map<number, { top: number; bottom: number }>;

/** A part of a line's edge that protrudes by more than this share of the line's height is a bump. */
const BUMP_HEIGHT = 0.25;
/** A bump is cut off if it spans at most this share of the columns. */
const BUMP_COLUMNS = 0.05;
/** Steeper lines are not searched for bumps, because their edges cross the columns. */
const MAX_SLOPE = 0.02;
/** Regions with a side of fewer pixels than this are dropped as noise. */
const MIN_SIDE = 3;
/** Maximum number of regions of an image; a page has about a hundred. */
const MAX_REGIONS = 1000;

/** Finds the regions, in coordinates of the map: pixel `x` reaches from `x` to `x + 1`. */
export function findRegions(
  map: ProbabilityMap,
  options: Pick<DetectionConfig, "threshold" | "boxThreshold" | "unclipRatio">,
): RotatedRectangle[] {
  const found: RotatedRectangle[] = [];
  for (const columns of findComponents(map, options.threshold)) {
    const corners = [...columns].flatMap(([x, { top, bottom }]): Point[] => [
      [x, top],
      [x + 1, top],
      [x, bottom + 1],
      [x + 1, bottom + 1],
    ]);
    const inner = removeBumps(minAreaRect(corners), columns);
    if (Math.min(inner.width, inner.height) < MIN_SIDE) continue;
    if (computeMeanInside(map, inner) < options.boxThreshold) continue;
    const { width, height } = inner;
    const margin = options.unclipRatio * width * height / (2 * (width + height));
    const rectangle = { ...inner, width: width + 2 * margin, height: height + 2 * margin };
    if (Math.min(rectangle.width, rectangle.height) < MIN_SIDE + 2) continue;
    found.push(rectangle);
    if (found.length === MAX_REGIONS) break;
  }
  return found;
}

/** Yields each 8-connected component. */
function* findComponents(
  { width, height, data }: ProbabilityMap,
  threshold: number,
): Generator<Columns> {
  const isSeen = new Uint8Array(width * height);
  const stack = new Int32Array(width * height);
  for (let start = 0; start < data.length; start++) {
    if (isSeen[start] === 1 || !(data[start]! > threshold)) continue;
    const columns: Columns = new Map();
    // Pixels are visited row by row, so the first pixel of a component is in its topmost row.
    const firstRow = Math.floor(start / width);
    let lastRow = firstRow;
    let depth = 0;
    stack[depth++] = start;
    isSeen[start] = 1;
    while (depth > 0) {
      const at = stack[--depth]!;
      const x = at % width;
      const y = (at - x) / width;
      lastRow = Math.max(lastRow, y);
      const column = columns.get(x);
      if (column === undefined) columns.set(x, { top: y, bottom: y });
      else if (y < column.top) column.top = y;
      else if (y > column.bottom) column.bottom = y;
      for (let ny = Math.max(0, y - 1); ny <= Math.min(height - 1, y + 1); ny++) {
        for (let nx = Math.max(0, x - 1); nx <= Math.min(width - 1, x + 1); nx++) {
          const next = ny * width + nx;
          if (isSeen[next] === 1 || !(data[next]! > threshold)) continue;
          isSeen[next] = 1;
          stack[depth++] = next;
        }
      }
    }
    if (lastRow - firstRow + 1 >= MIN_SIDE) yield columns;
  }
}

/**
 * Removes bumps at the upper and lower side from the rectangle of a line. Otherwise a protruding part of one letter
 * would make all letters small.
 */
function removeBumps(rectangle: RotatedRectangle, columns: Columns): RotatedRectangle {
  const { width, height, center, direction } = rectangle;
  if (height > width || Math.abs(direction[1]) > MAX_SLOPE) return rectangle;
  /** Lists how far the columns reach across the line in one direction, in ascending order. */
  const findReach = (y: (column: { top: number; bottom: number }) => number, sign: 1 | -1) =>
    [...columns].map(([x, column]) => sign * toAxes([x + 0.5, y(column)], direction)[1])
      .sort((a, b) => a - b);
  const [along, middle] = toAxes(center, direction);
  const up = findReach(({ top }) => top, -1);
  const down = findReach(({ bottom }) => bottom + 1, 1);
  const usualHeight = up[up.length >> 1]! + down[down.length >> 1]!;
  const edge = (ends: readonly number[], furthest: number) => {
    const isBump = furthest - ends[ends.length >> 1]! > BUMP_HEIGHT * usualHeight;
    return isBump ? ends[Math.floor((1 - BUMP_COLUMNS) * (ends.length - 1))]! : furthest;
  };
  const top = -edge(up, height / 2 - middle);
  const bottom = edge(down, height / 2 + middle);
  return {
    ...rectangle,
    height: bottom - top,
    center: fromAxes([along, (top + bottom) / 2], direction),
  };
}

/** Computes the mean of the pixels whose centre is inside the rectangle. */
function computeMeanInside(
  { width, height, data }: ProbabilityMap,
  rectangle: RotatedRectangle,
): number {
  const { center: [centerX, centerY], direction: [ux, uy] } = rectangle;
  const [halfWidth, halfHeight] = [rectangle.width / 2, rectangle.height / 2];
  const reachX = Math.abs(ux) * halfWidth + Math.abs(uy) * halfHeight;
  const reachY = Math.abs(uy) * halfWidth + Math.abs(ux) * halfHeight;
  let [sum, count] = [0, 0];
  const lastRow = Math.min(height - 1, Math.floor(centerY + reachY));
  const lastColumn = Math.min(width - 1, Math.floor(centerX + reachX));
  for (let y = Math.max(0, Math.floor(centerY - reachY)); y <= lastRow; y++) {
    for (let x = Math.max(0, Math.floor(centerX - reachX)); x <= lastColumn; x++) {
      const [dx, dy] = [x + 0.5 - centerX, y + 0.5 - centerY];
      if (Math.abs(dx * ux + dy * uy) > halfWidth) continue;
      if (Math.abs(dy * ux - dx * uy) > halfHeight) continue;
      sum += data[y * width + x]!;
      count++;
    }
  }
  return count === 0 ? 0 : sum / count;
}
