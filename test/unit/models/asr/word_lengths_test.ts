import assert from "node:assert/strict";
import { giveFrames } from "../../../../src/models/asr/frame_tokens.ts";

const FRAME = 0.02;

/** In frames. */
function give(spans: readonly (readonly [number, number])[], end: number): [number, number][] {
  const seconds = spans.map(([from, to]) => ({ start: from * FRAME, end: to * FRAME }));
  const options = { startSeconds: 0, endSeconds: end * FRAME, frameSeconds: FRAME };
  return giveFrames(seconds, options).map(({ start, end }) => [
    Number((start / FRAME).toFixed(6)),
    Number((end / FRAME).toFixed(6)),
  ]);
}

Deno.test("giveFrames() leaves words that have lengths as they are", () => {
  assert.deepEqual(give([[0, 3], [3, 5], [9, 10]], 12), [[0, 3], [3, 5], [9, 10]]);
});

Deno.test("giveFrames() gives words of no length a frame, and shifts what follows", () => {
  assert.deepEqual(give([[0, 3], [3, 3], [3, 3], [3, 8]], 9), [[0, 3], [3, 4], [4, 5], [5, 8]]);
});

Deno.test("giveFrames() moves words back from the segment's end", () => {
  assert.deepEqual(give([[0, 8], [8, 8], [8, 8]], 8), [[0, 6], [6, 7], [7, 8]]);
});

Deno.test("giveFrames() divides a segment that has fewer frames than words", () => {
  assert.deepEqual(give([[0, 0], [0, 1], [1, 1], [1, 1]], 1), [
    [0, 0.25],
    [0.25, 0.5],
    [0.5, 0.75],
    [0.75, 1],
  ]);
});

Deno.test("giveFrames() keeps any words in order, within the segment, each with a length", () => {
  let state = 1;
  const random = (limit: number) => (state = state * 48271 % 2147483647) % limit;
  for (let round = 0; round < 500; round++) {
    const end = 1 + random(20);
    const bounds = Array.from({ length: 2 + random(12) }, () => random(end + 1)).sort((a, b) =>
      a - b
    );
    const words = give(bounds.slice(1).map((to, i) => [bounds[i]!, to] as const), end);
    let last = 0;
    for (const [from, to] of words) {
      assert.ok(
        from >= last - 1e-6 && to > from && to <= end + 1e-6,
        JSON.stringify({ bounds, words }),
      );
      last = to;
    }
  }
});
