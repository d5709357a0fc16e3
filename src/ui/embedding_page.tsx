/**
 * Compares texts: a similarity matrix and a map.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { Failure, formatMs } from "./controls.tsx";
import { RequestCode } from "./request_code.tsx";
import { type PageProps, post } from "./server.ts";
import { cosines, placeLabels, project } from "./similarity.ts";
import { useWork } from "./observed.ts";

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
  readonly alike: readonly (readonly number[])[];
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
        alike: cosines(vectors),
        points: project(vectors),
        width: vectors[0]!.length,
      });
    });
  return (
    <main class="wide">
      <h1>Compare texts</h1>
      <label>
        One text a line, at most {MOST_LINES}
        <textarea
          rows={6}
          dir="auto"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
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

function HeatMap({ texts, alike }: Result): JSX.Element {
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
              {alike[row]!.map((value, column) => (
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
      <figcaption>The two directions in which they differ most</figcaption>
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
