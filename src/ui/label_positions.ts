/**
 * Places labels of points so that none overlap.
 *
 * @module
 */

/** A point of a drawing and its label. */
interface LabelledPoint {
  readonly x: number;
  readonly y: number;
  readonly text: string;
}

/** Offset of a label from its point, as SVG `text` attributes. */
interface Label {
  readonly x: number;
  readonly y: number;
  readonly "text-anchor": "start" | "middle" | "end";
}

/** Average width of a letter of the drawing's font. */
const LETTER_WIDTH = 4.1;
const LINE_HEIGHT = 9;
const RADIUS = 5;
/** Half of the drawing's size. */
const HALF_SIZE = 132;

/** Right, left, above, below. */
const POSITIONS: readonly Label[] = [
  { x: 7, y: 3, "text-anchor": "start" },
  { x: -7, y: 3, "text-anchor": "end" },
  { x: 0, y: -7, "text-anchor": "middle" },
  { x: 0, y: 13, "text-anchor": "middle" },
];

type Box = readonly [left: number, top: number, right: number, bottom: number];

/** The points with the first free position for their labels; without one if none is free. */
export function placeLabels<P extends LabelledPoint>(
  points: readonly P[],
): (P & { readonly label: Label | undefined })[] {
  const taken: Box[] = points.map(({ x, y }) => [x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS]);
  return points.map((point) => {
    const label = POSITIONS.find((position) => {
      const box = toBox(point, position);
      return box[0] >= -HALF_SIZE && box[2] <= HALF_SIZE &&
        !taken.some((other) => overlap(box, other));
    });
    if (label) taken.push(toBox(point, label));
    return { ...point, label };
  });
}

function toBox({ x, y, text }: LabelledPoint, position: Label): Box {
  const width = text.length * LETTER_WIDTH;
  const before = { start: 0, middle: width / 2, end: width }[position["text-anchor"]];
  const left = x + position.x - before;
  const bottom = y + position.y + 2;
  return [left, bottom - LINE_HEIGHT, left + width, bottom];
}

function overlap(a: Box, b: Box): boolean {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}
