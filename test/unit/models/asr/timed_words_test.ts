import assert from "node:assert/strict";
import { timeWords, type WordSegment } from "../../../../src/models/asr/timed_words.ts";

const PLACE_SECONDS = 0.1;

/** A segment whose words have the given numbers of tokens. */
function segment(
  [startSeconds, endSeconds]: readonly [number, number],
  firstToken: number,
  words: Readonly<Record<string, number>>,
): WordSegment {
  const groups = Object.entries(words).map(([text, numTokens]) => ({ text, numTokens }));
  return { startSeconds, endSeconds, firstToken, words: groups };
}

/** Times words from tokens that each have a start and an end in seconds. */
function time(
  segments: readonly WordSegment[],
  tokens: readonly (readonly [number, number])[],
  numFrames = 100,
) {
  const values = new Float32Array(tokens.length * numFrames).fill(-1);
  tokens.forEach(([start, end], row) =>
    values.fill(
      5,
      row * numFrames + Math.round(start / PLACE_SECONDS),
      row * numFrames + Math.round(end / PLACE_SECONDS),
    )
  );
  return timeWords(segments, { values, numFrames, frameSeconds: PLACE_SECONDS }).map((words) =>
    words.map(({ text, startSeconds, endSeconds }) => [
      text,
      Number(startSeconds.toFixed(3)),
      Number(endSeconds.toFixed(3)),
    ])
  );
}

Deno.test("timeWords() gives a word the time from its first token to the first token of the next word", () => {
  const segments = [
    segment([0.1, 1], 1, { " one": 1, " two": 2 }),
    segment([1.1, 2], 6, { " three": 1, " four": 1 }),
  ];
  // Each segment has a timestamp before and after its words; the timestamp after them ends the last word.
  const tokens = [[0, 0], [0.1, 0.5], [0.5, 0.7], [0.7, 0.9], [0.9, 1], [1, 1], [1.1, 1.4]];
  tokens.push([1.4, 1.8], [1.8, 2], [2, 2]);
  assert.deepEqual(time(segments, tokens as [number, number][]), [
    [["one", 0.1, 0.5], ["two", 0.5, 0.9]],
    [["three", 1.1, 1.4], ["four", 1.4, 1.8]],
  ]);
  assert.deepEqual(time([segment([0, 1], 0, {})], [[0, 0]]), [[]]);
  assert.deepEqual(time([], [[0, 0]]), []);
});

Deno.test("timeWords() keeps words within their segment, and in order", () => {
  // The first token is aligned before its segment, the last one after it.
  const segments = [
    segment([0.5, 1], 0, { " a": 1, " b": 1 }),
    segment([1.2, 1.5], 3, { " c": 1 }),
  ];
  const tokens = [[0.1, 0.3], [0.6, 1], [1, 1.2], [3, 4], [4, 5]] as const;
  const words = time(segments, tokens).flat();
  assert.deepEqual(words.map(([text]) => text), ["a", "b", "c"]);
  const times = words.flatMap(([, start, end]) => [start as number, end as number]);
  assert.deepEqual(times, times.toSorted((a, b) => a - b));
  assert.deepEqual([times[0], times[2]], [0.5, 0.6]);
  assert.ok(times[3]! <= 1 && times[4]! >= 1.2 && times[5]! <= 1.5);
});

Deno.test("timeWords() accepts segments at or after the window's end", () => {
  const segments = [segment([0.9, 1.4], 0, { " a": 1 }), segment([1.4, 1.4], 2, { " b": 1 })];
  const words = time(segments, [[0, 0], [0, 0], [0, 0], [0, 0]], 10).flat();
  assert.deepEqual(words.map(([text]) => text), ["a", "b"]);
  assert.deepEqual(words[1]!.slice(1), [1.4, 1.4]);
});

Deno.test("timeWords() does not count a pause to the words next to it", () => {
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
  const begins = [0, 2, 2.1, 2.3, 2.6, 2.9, 3.2, 3.5, 3.6, 6, 7.9, 8.2, 10];
  const tokens = begins.map((begin, i) => [begin, begins[i + 1] ?? begin] as const);
  // The median is 0.3: no word next to a pause is longer than 0.6.
  assert.deepEqual(time([segment([0, 10], 0, words)], tokens), [[
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
  const alone = time([segment([1, 10], 0, { " Yes.": 2 })], [[1, 2], [2, 10], [10, 10]]);
  assert.deepEqual(alone, [[["Yes.", 1, 2.4]]]);
});
