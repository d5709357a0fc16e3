import assert from "node:assert/strict";
import { orderResults } from "../../../src/api/rerank_response.ts";

const REQUEST = { query: "q", documents: ["a", "b", "c", "d"] };

function indices(scores: number[], top_n?: number): number[] {
  const request = { ...REQUEST, top_n };
  return orderResults(Float32Array.from(scores), request, { hasDocuments: false })
    .map(({ index }) => index);
}

Deno.test("orderResults() puts the highest score first and keeps the order of equals", () => {
  assert.deepEqual(indices([0.1, 0.9, 0.5, 0.9]), [1, 3, 2, 0]);
  assert.deepEqual(indices([0.5, 0.5, 0.5, 0.5]), [0, 1, 2, 3]);
});

Deno.test("orderResults() cuts to top_n", () => {
  assert.deepEqual(indices([0.1, 0.9, 0.5, 0.9], 2), [1, 3]);
  assert.deepEqual(indices([0.1, 0.9, 0.5, 0.9], 9), [1, 3, 2, 0]);
});

Deno.test("orderResults() repeats documents where they are wanted", () => {
  const [first] = orderResults(Float32Array.of(0, 0, 1, 0), REQUEST, { hasDocuments: true });
  assert.deepEqual(first, { index: 2, relevance_score: 1, document: "c" });
});
