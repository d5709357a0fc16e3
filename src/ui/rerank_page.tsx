/**
 * Reranking: sorts documents by their relevance to a query.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { Failure, formatMs, TextField } from "./controls.tsx";
import { RequestCode } from "./request_code.tsx";
import { type PageProps, post, useWork } from "./server.ts";

const EXAMPLE = {
  query: "What is the capital of France?",
  documents: [
    "Berlin is the capital of Germany.",
    "France is a country in Europe.",
    "Paris is the capital of France.",
    "The oven bakes bread.",
  ].join("\n"),
};

interface Ranked {
  readonly index: number;
  readonly relevance_score: number;
  readonly document: string;
}

export function RerankPage({ info }: PageProps): JSX.Element {
  const [query, setQuery] = useState(EXAMPLE.query);
  const [text, setText] = useState(EXAMPLE.documents);
  const [results, setResults] = useState<readonly Ranked[]>([]);
  const work = useWork();
  const documents = text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const request = { model: info.id, query, documents };
  const rank = () =>
    work.start(async (signal) => {
      const answer = await (await post("v1/rerank", request, signal)).json() as {
        results: Ranked[];
      };
      setResults(answer.results);
    });
  return (
    <main class="narrow">
      <h1>Rank documents</h1>
      <TextField label="Query" dir="auto" value={query} onInput={setQuery} />
      <TextField
        label="Documents, one per line"
        rows={6}
        dir="auto"
        value={text}
        onInput={setText}
      />
      <div class="row">
        <button
          type="button"
          class="main"
          disabled={query.trim() === "" || documents.length === 0 || work.isBusy}
          onClick={rank}
        >
          Rank
        </button>
        {work.tookMs !== undefined && <span class="soft">{formatMs(work.tookMs)}</span>}
      </div>
      <Failure message={work.failure} />
      <ol class="bars" aria-live="polite" hidden={results.length === 0}>
        {results.map(({ index, relevance_score: score, document }) => (
          <li key={index}>
            <span dir="auto">{document}</span>
            <span
              class="meter"
              role="meter"
              aria-label={`Relevance of ${document}`}
              aria-valuemin={0}
              aria-valuemax={1}
              aria-valuenow={score}
            >
              <i style={{ width: `${Math.min(1, Math.max(0, score)) * 100}%` }} />
            </span>
            <output>{score.toFixed(3)}</output>
          </li>
        ))}
      </ol>
      <RequestCode request={{ path: "v1/rerank", json: request }} />
    </main>
  );
}
