/**
 * Text regions of an image, from a map of each pixel's probability of being text: the post-processing of DB ("Real-time
 * Scene Text Detection with Differentiable Binarization", arXiv 1911.08947). Pure.
 *
 * @module
 */
import { hullOf, type Point, type Rectangle, smallestRectangle } from "./smallest_rectangle.ts";

/** A map of probabilities. */
export interface ProbabilityMap {
  readonly width: number;
  readonly height: number;
  /** f32 `[height, width]`, 0 to 1. */
  readonly data: Float32Array;
}

/** A region, and the mean of its probabilities. */
interface TextRegion {
  readonly rectangle: Rectangle;
  readonly score: number;
}

/** The shape of a connected component of marked pixels. */
interface Outline {
  /** Of each of its rows. */
  readonly corners: readonly Point[];
  /** The upper end of each of its columns, and the lower one. */
  readonly tops: readonly Point[];
  readonly bottoms: readonly Point[];
}

/** A part of a line's edge that protrudes by more than this, times the line's height, is a bump … */
const BUMP_HEIGHT = 0.25;
/** … and is cut off if at most this share of the columns has it. */
const BUMP_COLUMNS = 0.05;
/** Steeper lines have no edges by column. */
const MAX_SLOPE = 0.02;
/** Regions with a shorter side are dropped as specks. */
const MIN_SIDE = 3;
/** Most regions; a page has some hundred. */
const MAX_REGIONS = 1000;

/** Finds the regions; coordinates are those of the map, pixel `x` reaching from `x` to `x + 1`. */
export function findRegions(map: ProbabilityMap, options: {
  /** What a pixel must exceed to belong to a region. */
  readonly threshold: number;
  /** What a region's mean must reach. */
  readonly boxThreshold: number;
  /**
   * DB's unclip ratio: the network marks the middle of lines, and a region grows by this times its area divided by its
   * perimeter.
   */
  readonly unclipRatio: number;
}): TextRegion[] {
  const found: TextRegion[] = [];
  for (const outline of outlinesOf(map, options.threshold)) {
    const inner = withoutBumps(smallestRectangle(hullOf(outline.corners)), outline);
    if (Math.min(inner.width, inner.height) < MIN_SIDE) continue;
    const score = meanInside(map, inner);
    if (score < options.boxThreshold) continue;
    const { width, height } = inner;
    const margin = options.unclipRatio * width * height / (2 * (width + height));
    const rectangle = { ...inner, width: width + 2 * margin, height: height + 2 * margin };
    if (Math.min(rectangle.width, rectangle.height) < MIN_SIDE + 2) continue;
    found.push({ rectangle, score });
    if (found.length === MAX_REGIONS) break;
  }
  return found;
}

/** Each 8-connected component of marked pixels. */
function* outlinesOf(
  { width, height, data }: ProbabilityMap,
  threshold: number,
): Generator<Outline> {
  const isSeen = new Uint8Array(width * height);
  const stack = new Int32Array(width * height);
  for (let start = 0; start < data.length; start++) {
    if (isSeen[start] === 1 || !(data[start]! > threshold)) continue;
    const rows = new Map<number, { left: number; right: number }>();
    const columns = new Map<number, { top: number; bottom: number }>();
    let depth = 0;
    stack[depth++] = start;
    isSeen[start] = 1;
    while (depth > 0) {
      const at = stack[--depth]!;
      const x = at % width;
      const y = (at - x) / width;
      const row = rows.get(y);
      if (row === undefined) rows.set(y, { left: x, right: x });
      else if (x < row.left) row.left = x;
      else if (x > row.right) row.right = x;
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
    if (rows.size < MIN_SIDE) continue;
    yield {
      corners: [...rows].flatMap(([y, { left, right }]): Point[] => [
        [left, y],
        [right + 1, y],
        [left, y + 1],
        [right + 1, y + 1],
      ]),
      tops: [...columns].map(([x, { top }]) => [x + 0.5, top]),
      bottoms: [...columns].map(([x, { bottom }]) => [x + 0.5, bottom + 1]),
    };
  }
}

/**
 * The rectangle of a line, its upper and lower side moved in if only a few columns extend to them: a part of one letter
 * must not make all letters small.
 */
function withoutBumps(rectangle: Rectangle, { tops, bottoms }: Outline): Rectangle {
  const { width, height, center: [x, y], direction: [ux, uy] } = rectangle;
  if (height > width || Math.abs(uy) > MAX_SLOPE) return rectangle;
  const outward = (points: readonly Point[], sign: 1 | -1) =>
    points.map(([px, py]) => sign * (py * ux - px * uy)).sort((a, b) => a - b);
  const middle = y * ux - x * uy;
  const [up, down] = [outward(tops, -1), outward(bottoms, 1)];
  const usualHeight = up[up.length >> 1]! + down[down.length >> 1]!;
  const edge = (ends: readonly number[], furthest: number) => {
    const isBump = furthest - ends[ends.length >> 1]! > BUMP_HEIGHT * usualHeight;
    return isBump ? ends[Math.floor((1 - BUMP_COLUMNS) * (ends.length - 1))]! : furthest;
  };
  const top = -edge(up, height / 2 - middle);
  const bottom = edge(down, height / 2 + middle);
  const [along, across] = [x * ux + y * uy, (top + bottom) / 2];
  return {
    ...rectangle,
    height: bottom - top,
    center: [along * ux - across * uy, along * uy + across * ux],
  };
}

/** The mean of the pixels whose centre is in the rectangle. */
function meanInside({ width, height, data }: ProbabilityMap, rectangle: Rectangle): number {
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
