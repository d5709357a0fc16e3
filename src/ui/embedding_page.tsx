/**
 * Compares texts by their embeddings: a similarity matrix and a two-dimensional map.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Failure, formatMs, TextField } from "./controls.tsx";
import { RequestCode } from "./request_code.tsx";
import { type PageProps, post, useWork } from "./server.ts";

const EXAMPLE = [
  "How do I reset my password?",
  "I forgot my password",
  "The train leaves at nine",
  "When does the train depart?",
  "Bread is baked in the oven",
  "How is bread made?",
].join("\n");
const MOST_LINES = 100;

interface Result {
  readonly texts: readonly string[];
  readonly similarities: readonly (readonly number[])[];
  readonly points: readonly (readonly [number, number])[];
  readonly width: number;
}

export function EmbeddingPage({ info }: PageProps): JSX.Element {
  const [text, setText] = useState(EXAMPLE);
  const [result, setResult] = useState<Result>();
  const work = useWork();
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const texts = lines.slice(0, MOST_LINES);
  const request = { model: info.id, input: texts };
  const compare = () =>
    work.start(async (signal) => {
      const { data } = await (await post("v1/embeddings", request, signal)).json() as {
        data: { embedding: number[] }[];
      };
      const vectors = data.map(({ embedding }) => embedding);
      setResult({
        texts,
        similarities: computeCosines(vectors),
        points: project(vectors),
        width: vectors[0]!.length,
      });
    });
  return (
    <main class="wide">
      <h1>Compare texts</h1>
      <TextField
        label={`One text per line, at most ${MOST_LINES}`}
        rows={6}
        dir="auto"
        value={text}
        onInput={setText}
      />
      <div class="row">
        <button
          type="button"
          class="main"
          disabled={texts.length === 0 || work.isBusy}
          onClick={compare}
        >
          Compare
        </button>
        {lines.length > MOST_LINES && (
          <span class="soft">the first {MOST_LINES} of {lines.length} texts</span>
        )}
        {work.tookMs !== undefined && result && (
          <span class="soft">{result.width} dimensions · {formatMs(work.tookMs)}</span>
        )}
      </div>
      <Failure message={work.failure} />
      {result && (
        <div class="two">
          <HeatMap {...result} />
          <PointMap {...result} />
        </div>
      )}
      <RequestCode request={{ path: "v1/embeddings", json: request }} />
    </main>
  );
}

function HeatMap({ texts, similarities }: Result): JSX.Element {
  const showsFigures = texts.length <= 16;
  return (
    <div class="table" tabIndex={0}>
      <table class="heat">
        <caption>Cosine similarity</caption>
        <thead>
          <tr>
            <td />
            {texts.map((_, index) => <th key={index} scope="col">{index + 1}</th>)}
          </tr>
        </thead>
        <tbody>
          {texts.map((text, row) => (
            <tr key={row}>
              <th scope="row" title={text}>{row + 1} {text}</th>
              {similarities[row]!.map((value, column) => (
                <td
                  key={column}
                  title={value.toFixed(3)}
                  style={{ "--heat": `${Math.round(Math.max(0, value) * 100)}%` }}
                >
                  {showsFigures ? value.toFixed(2) : ""}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function PointMap({ texts, points }: Result): JSX.Element {
  const labels = placeLabels(points.map(([x, y], index) => ({
    x: x * 90,
    y: -y * 95,
    text: shorten(texts[index]!),
  })));
  return (
    <figure class="map">
      <figcaption>The two directions in which the texts differ most</figcaption>
      <svg viewBox="-130 -115 260 230" role="img" aria-label="Map of the texts">
        {labels.map(({ x, y, text, label }, index) => (
          <g key={index} transform={`translate(${x} ${y})`}>
            <circle r="4" />
            <title>{texts[index]}</title>
            {label && <text {...label}>{text}</text>}
          </g>
        ))}
      </svg>
    </figure>
  );
}

function shorten(text: string): string {
  return text.length > 24 ? `${text.slice(0, 23)}…` : text;
}

/** Computes the cosine similarities of all pairs of vectors, `[n][n]`. */
export function computeCosines(vectors: readonly (readonly number[])[]): number[][] {
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
  // Power iteration starts from any vector that is not orthogonal to the largest component.
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
/** Half of the drawing's width, and a little more, since widths of labels are estimates. */
const HALF_WIDTH = 132;

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
      return box[0] >= -HALF_WIDTH && box[2] <= HALF_WIDTH &&
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
