import assert from "node:assert/strict";
import { timeWords, type WordSegment } from "../../../../src/models/asr/timed_words.ts";

/** A segment whose words have so many tokens each. */
function segment(
  startSeconds: number,
  endSeconds: number,
  words: Readonly<Record<string, number>>,
): WordSegment {
  const groups = Object.entries(words).map(([text, numTokens]) => ({ text, numTokens }));
  return { startSeconds, endSeconds, words: groups };
}

function time(segments: readonly WordSegment[], begins: readonly number[]) {
  return timeWords(segments, begins).map((words) =>
    words.map(({ text, startSeconds, endSeconds }) => [
      text,
      Number(startSeconds.toFixed(3)),
      Number(endSeconds.toFixed(3)),
    ])
  );
}

Deno.test("timeWords() gives a word the time from its first token to the next word's", () => {
  const segments = [
    segment(0, 1, { " one": 1, " two": 2 }),
    segment(1, 2, { " three": 1, " four": 1 }),
  ];
  assert.deepEqual(time(segments, [0.1, 0.5, 0.7, 1.1, 1.4, 1.8]), [
    [["one", 0.1, 0.5], ["two", 0.5, 1]],
    [["three", 1.1, 1.4], ["four", 1.4, 1.8]],
  ]);
  assert.deepEqual(time([segment(0, 1, {})], [0]), [[]]);
  assert.deepEqual(time([], [0]), []);
});

Deno.test("timeWords() keeps words within their segment", () => {
  const segments = [segment(0.5, 1, { " a": 1, " b": 1 }), segment(1.2, 1.5, { " c": 1 })];
  assert.deepEqual(time(segments, [0.2, 0.4, 1.1, 1.9]), [
    [["a", 0.5, 0.5], ["b", 0.5, 1]],
    [["c", 1.2, 1.5]],
  ]);
});

Deno.test("timeWords() gives a pause to no word beside it", () => {
  const words = {
    " a": 1,
    " b,": 2,
    " c": 1,
    " x": 1,
    " y": 1,
    " z": 1,
    " d.": 2,
    " e": 1,
    " f.": 2,
  };
  // The median is 0.3: nothing beside a pause is longer than 0.6.
  const begins = [0, 2, 2.1, 2.3, 2.6, 2.9, 3.2, 3.5, 3.6, 6, 7.9, 8.2, 20];
  assert.deepEqual(time([segment(0, 20, words)], begins), [[
    ["a", 1.4, 2],
    ["b,", 2, 2.3],
    ["c", 2.3, 2.6],
    ["x", 2.6, 2.9],
    ["y", 2.9, 3.2],
    ["z", 3.2, 3.5],
    ["d.", 3.5, 4.1],
    ["e", 7.3, 7.9],
    ["f.", 7.9, 8.5],
  ]]);
  assert.deepEqual(time([segment(1, 20, { " Yes.": 2 })], [0, 9, 20])[0]![0]!.slice(0, 2), [
    "Yes.",
    1,
  ]);
});
