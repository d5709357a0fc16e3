/**
 * Where labels of points go so that none lies on another.
 *
 * @module
 */

/** A point of a drawing, and what is written beside it. */
export interface LabelledPoint {
  readonly x: number;
  readonly y: number;
  readonly text: string;
}

/** How a label lies from its point, as an SVG `text` takes it. */
interface Label {
  readonly x: number;
  readonly y: number;
  readonly "text-anchor": "start" | "middle" | "end";
}

/** Of a letter of the drawing's font, on average. */
const LETTER_WIDTH = 4.1;
const LINE_HEIGHT = 9;
const RADIUS = 5;
/** What the drawing shows from its middle to the sides. */
const REACH = 132;

/** Right, left, above, below. */
const PLACES: readonly Label[] = [
  { x: 7, y: 3, "text-anchor": "start" },
  { x: -7, y: 3, "text-anchor": "end" },
  { x: 0, y: -7, "text-anchor": "middle" },
  { x: 0, y: 13, "text-anchor": "middle" },
];

type Box = readonly [left: number, top: number, right: number, bottom: number];

/** The points with the first place for their labels that is free, without one where none is. */
export function placeLabels<P extends LabelledPoint>(
  points: readonly P[],
): (P & { readonly label: Label | undefined })[] {
  const taken: Box[] = points.map(({ x, y }) => [x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS]);
  return points.map((point) => {
    const label = PLACES.find((place) => {
      const box = boxOf(point, place);
      return box[0] >= -REACH && box[2] <= REACH && !taken.some((other) => overlap(box, other));
    });
    if (label) taken.push(boxOf(point, label));
    return { ...point, label };
  });
}

function boxOf({ x, y, text }: LabelledPoint, place: Label): Box {
  const width = text.length * LETTER_WIDTH;
  const before = { start: 0, middle: width / 2, end: width }[place["text-anchor"]];
  const left = x + place.x - before;
  const bottom = y + place.y + 2;
  return [left, bottom - LINE_HEIGHT, left + width, bottom];
}

function overlap(a: Box, b: Box): boolean {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}
