/**
 * Puts the lines of a page into reading order, even if the page is rotated by 90° or 180°. Pure.
 *
 * @module
 */
import { distance, isStanding, type LineBox, toUprightBox, type UprightBox } from "./line_boxes.ts";

/**
 * A line that runs down or up the page (a standing line) is in the margin if it is at least as high as this many rows.
 * A shorter one may be a single digit, which is also higher than wide.
 */
const MIN_MARGIN_ROWS = 3;

/** Whether most lines of a page run down or up. */
export function isPageStanding(boxes: readonly LineBox[]): boolean {
  return boxes.filter(isStanding).length * 2 > boxes.length;
}

/**
 * Groups lines into rows. Rows come from top to bottom and the lines of a row from left to right, column by column if
 * there are columns. If most of the text is rotated by 90°, rows come from right to left, as in text that runs down the
 * page. Rotated lines next to upright text, as in margins, are rows of their own: lines on the left come first, the
 * others last.
 */
export function orderPage(boxes: readonly LineBox[]): LineBox[][] {
  const isPage = isPageStanding(boxes);
  const skew = isPage ? 0 : estimateSkew(boxes.filter((box) => !isStanding(box)));
  const placed = boxes.map((line) => {
    const box = toUprightBox(line, skew);
    return { line, box: isPage ? rotateLeft(box) : box, isAcross: isStanding(line) !== isPage };
  });
  const heights = placed.filter(({ isAcross }) => !isAcross)
    .map(({ box }) => box.bottom - box.top).sort((a, b) => a - b);
  const leastHeight = MIN_MARGIN_ROWS * (heights[heights.length >> 1] ?? Infinity);
  const { margins = [], text = [] } = Object.groupBy(
    placed,
    ({ box, isAcross }) => isAcross && box.bottom - box.top >= leastHeight ? "margins" : "text",
  );
  const textLeft = Math.min(...text.map(({ box }) => box.left));
  const { left = [], right = [] } = Object.groupBy(
    margins.toSorted((a, b) => a.box.left - b.box.left),
    ({ box }) => (box.left + box.right) / 2 < textLeft ? "left" : "right",
  );
  const toRow = (margin: typeof margins[0]) => [margin];
  const rows = orderRows(text, ({ box }) => box);
  return [...left.map(toRow), ...rows, ...right.map(toRow)]
    .map((row) => row.map(({ line }) => line));
}

/** Computes the position of a box after the page is rotated counterclockwise by 90°. */
function rotateLeft({ left, top, right, bottom }: UprightBox): UprightBox {
  return { left: top, right: bottom, top: -right, bottom: -left };
}

/** Puts rows into the order for a page that is upside down. */
export function rotatePage<T>(rows: readonly (readonly T[])[]): T[][] {
  return rows.map((row) => row.toReversed()).reverse();
}

/** Boxes in one row overlap vertically by at least this share of the smaller one's height. */
const SHARED_HEIGHT = 0.5;

/**
 * Groups boxes into rows.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * const box = (left: number, top: number) => ({ left, top, right: left + 40, bottom: top + 10 });
 * const [price, below, name] = [box(60, 2), box(0, 20), box(0, 0)];
 * assert.deepEqual(groupRows([price, below, name], (it) => it), [[name, price], [below]]);
 * ```
 */
export function groupRows<T>(items: readonly T[], getBox: (item: T) => UprightBox): T[][] {
  const middle = (item: T) => getBox(item).top + getBox(item).bottom;
  const rows: T[][] = [];
  for (const item of items.toSorted((a, b) => middle(a) - middle(b))) {
    const row = rows.at(-1);
    if (row?.some((other) => isBeside(getBox(item), getBox(other)))) row.push(item);
    else rows.push([item]);
  }
  return rows.map((row) => row.toSorted((a, b) => getBox(a).left - getBox(b).left));
}

/** Whether two boxes are in one row. */
function isBeside(a: UprightBox, b: UprightBox): boolean {
  const shared = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  const lower = Math.min(a.bottom - a.top, b.bottom - b.top);
  return shared >= SHARED_HEIGHT * lower;
}

/** Estimates the rotation of a page in radians: the median over its lines, weighted by length. */
function estimateSkew(boxes: readonly LineBox[]): number {
  const lines = boxes.map(({ topLeft, topRight }) => ({
    angle: Math.atan2(topRight[1] - topLeft[1], topRight[0] - topLeft[0]),
    length: distance(topLeft, topRight),
  })).sort((a, b) => a.angle - b.angle);
  let rest = lines.reduce((sum, { length }) => sum + length, 0) / 2;
  return lines.find(({ length }) => (rest -= length) <= 0)?.angle ?? 0;
}

// Columns of running text are read one after the other, but tables and price lists row by row. The two differ in their
// lines: columns of a table hold short texts of many widths, and columns of running text hold long lines that mostly
// reach the edge of the column.

/** The least number of lines in a column. */
const MIN_LINES = 3;
/** The least gap between columns, in line heights. */
const MIN_GAP = 0.75;
/** The median line of running text is at least this many times as wide as it is high. */
const MIN_ASPECT = 5;
/** At least this share of a column's lines must be full. */
const FULL_LINES = 0.6;
/** A full line reaches across at least this share of its column. */
const FULL_WIDTH = 0.7;
/** Maximum number of gaps that are tried. */
const MAX_GAPS = 64;
/** Maximum number of levels of columns within columns. */
const MAX_DEPTH = 6;

interface Placed<T> {
  readonly item: T;
  readonly box: UprightBox;
}

/**
 * Groups the lines of a page into rows, column by column if it has columns of running text. A line that reaches across
 * columns separates the columns above it from the columns below it.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * const line = (left: number, top: number) => ({ left, top, right: left + 90, bottom: top + 10 });
 * const title = { left: 0, top: 0, right: 190, bottom: 10 };
 * const [a, b, c] = [line(0, 20), line(0, 40), line(0, 60)];
 * const [d, e, f] = [line(100, 20), line(100, 40), line(100, 60)];
 * assert.deepEqual(orderRows([a, d, f, title, b, e, c], (box) => box), [
 *   [title], [a], [b], [c], [d], [e], [f],
 * ]);
 * ```
 */
export function orderRows<T>(items: readonly T[], getBox: (item: T) => UprightBox): T[][] {
  const placed = items.map((item) => ({ item, box: getBox(item) }));
  return readRows(placed, MAX_DEPTH).map((row) => row.map(({ item }) => item));
}

function readRows<T>(placed: readonly Placed<T>[], depth: number): Placed<T>[][] {
  const rows = groupRows(placed, ({ box }) => box);
  const blocks = depth === 0 ? undefined : findColumns(rows);
  if (blocks === undefined) return rows;
  return blocks.flatMap(({ rows, columns }) =>
    columns === undefined ? rows : columns.flatMap((column) => readRows(column, depth - 1))
  );
}

/** Some consecutive rows, and the two columns that they form, if they form columns. */
interface Block<T> {
  readonly rows: Placed<T>[][];
  readonly columns?: readonly [Placed<T>[], Placed<T>[]];
}

/**
 * Divides the page into blocks at one gap: the one that puts the most lines into columns. Returns `undefined` if there
 * are no columns.
 */
function findColumns<T>(rows: Placed<T>[][]): Block<T>[] | undefined {
  let best: { readonly blocks: Block<T>[]; readonly numLines: number } | undefined;
  for (const gap of listGaps(rows)) {
    const blocks = divide(rows, gap);
    const numLines = blocks.reduce((sum, { columns }) => sum + (columns?.flat().length ?? 0), 0);
    if (numLines > (best?.numLines ?? 0)) best = { blocks, numLines };
  }
  return best?.blocks;
}

/** Lists the middles of the gaps between neighbouring lines. */
function listGaps<T>(rows: readonly Placed<T>[][]): number[] {
  const gaps = new Set<number>();
  for (const row of rows) {
    for (const [i, { box: { left } }] of row.entries()) {
      if (i > 0) gaps.add(Math.round((row[i - 1]!.box.right + left) / 2));
    }
  }
  return [...gaps].slice(0, MAX_GAPS);
}

/** Makes blocks of consecutive rows. Rows that leave the gap free become columns if they are running text. */
function divide<T>(rows: readonly Placed<T>[][], gap: number): Block<T>[] {
  const crosses = (row: readonly Placed<T>[]) =>
    row.some(({ box }) => box.left < gap && box.right > gap);
  const blocks: Block<T>[] = [];
  for (let from = 0; from < rows.length;) {
    const isCrossed = crosses(rows[from]!);
    let end = from + 1;
    while (end < rows.length && crosses(rows[end]!) === isCrossed) end++;
    const some = rows.slice(from, end);
    blocks.push(isCrossed ? { rows: some } : splitColumns(some, gap));
    from = end;
  }
  return blocks;
}

function splitColumns<T>(rows: Placed<T>[][], gap: number): Block<T> {
  const all = rows.flat();
  const left = all.filter(({ box }) => box.right <= gap);
  const right = all.filter(({ box }) => box.left >= gap);
  if (Math.min(left.length, right.length) < MIN_LINES) return { rows };
  const height = computeMedian(all.map(({ box }) => box.bottom - box.top));
  const width = Math.min(...right.map(({ box }) => box.left)) -
    Math.max(...left.map(({ box }) => box.right));
  const areColumns = width >= MIN_GAP * height && isRunningText(left) && isRunningText(right);
  return areColumns ? { rows, columns: [left, right] } : { rows };
}

/**
 * Whether lines are running text. As they may form several columns, each line is compared only with lines that overlap
 * it horizontally.
 */
function isRunningText<T>(lines: readonly Placed<T>[]): boolean {
  const boxes = lines.map(({ box }) => box);
  const aspects = boxes.map(({ left, right, top, bottom }) => (right - left) / (bottom - top));
  if (computeMedian(aspects) < MIN_ASPECT) return false;
  const isFull = (box: UprightBox) => {
    const column = boxes.filter(({ left, right }) => left < box.right && right > box.left);
    const widest = Math.max(...column.map(({ left, right }) => right - left));
    return box.right - box.left >= FULL_WIDTH * widest;
  };
  return boxes.filter(isFull).length >= FULL_LINES * boxes.length;
}

function computeMedian(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}
