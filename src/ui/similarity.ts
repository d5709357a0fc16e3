/**
 * Similarity of vectors, and their projection to a plane.
 *
 * @module
 */

/** Cosine similarities of all pairs, `[n][n]`. */
export function cosines(vectors: readonly (readonly number[])[]): number[][] {
  const norms = vectors.map((vector) => Math.sqrt(dot(vector, vector)) || 1);
  return vectors.map((a, i) => vectors.map((b, j) => dot(a, b) / (norms[i]! * norms[j]!)));
}

/**
 * Projects vectors to the two directions in which they differ most (principal component analysis), by power iteration
 * on their Gram matrix, which is small if there are few vectors.
 *
 * @returns a point per vector, within -1 to 1.
 */
export function project(vectors: readonly (readonly number[])[]): [number, number][] {
  const count = vectors.length;
  const width = vectors[0]?.length ?? 0;
  const mean = Array.from(
    { length: width },
    (_, at) => vectors.reduce((sum, vector) => sum + vector[at]!, 0) / count,
  );
  const centred = vectors.map((vector) => vector.map((value, at) => value - mean[at]!));
  const gram = centred.map((a) => centred.map((b) => dot(a, b)));
  const x = largestComponent(gram);
  const deflated = gram.map((row, i) =>
    row.map((value, j) => value - x.size * x.vector[i]! * x.vector[j]!)
  );
  const y = largestComponent(deflated);
  const scaled = [x, y].map(({ vector }) => {
    const most = Math.max(...vector.map(Math.abs)) || 1;
    return vector.map((value) => value / most);
  });
  return vectors.map((_, at) => [scaled[0]![at]!, scaled[1]![at]!]);
}

function largestComponent(matrix: readonly (readonly number[])[]): {
  vector: number[];
  size: number;
} {
  // Any start vector works that is not one of the other components.
  let vector = matrix.map((_, at) => Math.sin(at + 1));
  let size = 0;
  for (let round = 0; round < 100; round++) {
    const next = matrix.map((row) => dot(row, vector));
    size = Math.sqrt(dot(next, next));
    if (size < 1e-12) return { vector: matrix.map(() => 0), size: 0 };
    vector = next.map((value) => value / size);
  }
  return { vector, size };
}

function dot(a: readonly number[], b: readonly number[]): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at]! * b[at]!;
  return sum;
}

/** A point of a drawing with a label. */
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

/** Average width of a letter in the drawing's font. */
const LETTER_WIDTH = 4.1;
const LINE_HEIGHT = 9;
const RADIUS = 5;
/** Half of the drawing's size. */
const HALF_SIZE = 132;

/** Possible positions of a label: right, left, above, below. */
const POSITIONS: readonly Label[] = [
  { x: 7, y: 3, "text-anchor": "start" },
  { x: -7, y: 3, "text-anchor": "end" },
  { x: 0, y: -7, "text-anchor": "middle" },
  { x: 0, y: 13, "text-anchor": "middle" },
];

type Box = readonly [left: number, top: number, right: number, bottom: number];

/** Gives each point the first free position for its label; none if no position is free. */
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
