import assert from "node:assert/strict";
import { orderResults } from "../../../src/wire/rerank.ts";

const REQUEST = { query: "q", documents: ["a", "b", "c", "d"] };

/** A model's answer with these logits. */
function answer(logits: readonly number[]): { scores: Float32Array; logits: Float32Array } {
  const scores = Float32Array.from(logits, (logit) => 1 / (1 + Math.exp(-logit)));
  return { scores, logits: Float32Array.from(logits) };
}

function indices(logits: number[], top_n?: number): number[] {
  const request = { ...REQUEST, top_n };
  return orderResults(answer(logits), request, { hasDocuments: false })
    .map(({ index }) => index);
}

Deno.test("orderResults() sorts by logits where scores round to 1", () => {
  const saturated = answer([16.47, 17.07, 16.94, -2]);
  const results = orderResults(saturated, REQUEST, { hasDocuments: false });
  assert.deepEqual(results.map(({ index }) => index), [1, 2, 0, 3]);
  assert.equal(saturated.scores[1], saturated.scores[2]);
});

Deno.test("orderResults() returns logits if raw_scores, use_activation or activation requests them", () => {
  for (const wish of [{ raw_scores: true }, { use_activation: false }, { activation: false }]) {
    const results = orderResults(answer([0, 4, 2]), { ...REQUEST, ...wish, top_k: 2 }, {
      hasDocuments: false,
    });
    assert.deepEqual(results, [{ index: 1, relevance_score: 4 }, { index: 2, relevance_score: 2 }]);
  }
});

Deno.test("orderResults() sorts by descending score and keeps the order of equals", () => {
  assert.deepEqual(indices([0.1, 0.9, 0.5, 0.9]), [1, 3, 2, 0]);
  assert.deepEqual(indices([0.5, 0.5, 0.5, 0.5]), [0, 1, 2, 3]);
});

Deno.test("orderResults() limits results to top_n", () => {
  assert.deepEqual(indices([0.1, 0.9, 0.5, 0.9], 2), [1, 3]);
  assert.deepEqual(indices([0.1, 0.9, 0.5, 0.9], 9), [1, 3, 2, 0]);
});

Deno.test("orderResults() repeats documents on request", () => {
  const [first] = orderResults(answer([0, 0, 100, 0]), REQUEST, { hasDocuments: true });
  assert.deepEqual(first, { index: 2, relevance_score: 1, document: "c" });
});
