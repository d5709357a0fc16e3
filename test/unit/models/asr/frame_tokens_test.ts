import assert from "node:assert/strict";
import {
  FrameSegments,
  type FrameToken,
  giveFrames,
  toWords,
} from "../../../../src/models/asr/frame_tokens.ts";
import { Random } from "../../engine/random.ts";

/** Joins tokens of two frames each, a frame apart. @returns the text, start and end of each word. */
function words(texts: readonly string[], hasSpaces = true) {
  const tokens = texts.map((text, i) => ({
    ...{ id: i, text, startFrame: 3 * i, endFrame: 3 * i + 2, logprob: 0 },
  }));
  return toWords(tokens, { frameSeconds: 0.5, hasSpaces })
    .map(({ text, startSeconds, endSeconds }) => [text, startSeconds, endSeconds]);
}

Deno.test("toWords() begins a word at a space, at any position in a token", () => {
  assert.deepEqual(words(["a", "b", " ", "c"]), [["ab", 0, 2.5], ["c", 4.5, 5.5]]);
  assert.deepEqual(words([" ab", "c", " d"]), [["abc", 0, 2.5], ["d", 3, 4]]);
  assert.deepEqual(words([" ", "a", " "]), [["a", 1.5, 2.5]]);
});

Deno.test("toWords() makes each token a word if a language has no spaces", () => {
  assert.deepEqual(words(["今", "天"], false), [["今", 0, 1], ["天", 1.5, 2.5]]);
});

Deno.test("FrameSegments skips tokens without text, and segments of only spaces", () => {
  const segments = new FrameSegments({ pauseFrames: 10, maxFrames: 100 });
  const token = (text: string, startFrame: number) => ({
    ...{ id: 0, text, startFrame, endFrame: startFrame + 1, logprob: 0 },
  });
  const [space, first, second] = [token(" ", 1), token("a", 2), token("b", 15)];
  assert.deepEqual(segments.push([token("", 0), space, first, token("", 14)]), []);
  assert.deepEqual(segments.push([token("", 14), second]), [[space, first]]);
  assert.deepEqual(segments.end(), [[second]]);
  assert.deepEqual(segments.push([token("", 16), token(" ", 17)]), []);
  assert.deepEqual(segments.end(), []);
});

/** Random tokens with a transducer's times: several tokens may begin in one frame. */
function randomTokens(random: Random): FrameToken[] {
  let frame = random.between(0, 5);
  return Array.from({ length: random.between(1, 12) }, (_, id) => {
    const startFrame = frame;
    frame += random.pick([0, 0, 0, 1, 2, 4]);
    return { id, text: random.chance(0.6) ? " a" : "b", startFrame, endFrame: frame, logprob: 0 };
  });
}

Deno.test("toWords() gives each word a frame of its own, in order, even if a model puts several words into one frame", () => {
  const random = new Random(7);
  const reading = { frameSeconds: 1, hasSpaces: true };
  for (let round = 0; round < 500; round++) {
    const tokens = randomTokens(random);
    const from = random.between(0, 8);
    const to = Math.max(from, tokens.at(-1)!.endFrame - random.between(0, 3));
    const found = toWords(tokens, reading, { from, to });
    const shown = JSON.stringify({ from, to, tokens, found });
    let last = from;
    for (const { startSeconds, endSeconds } of found) {
      assert.ok(startSeconds >= last && endSeconds >= startSeconds + 1, shown);
      last = endSeconds;
    }
    if (to - from >= found.length) assert.ok(last <= to, shown);
  }
  const token = { ...{ id: 0, startFrame: 3, endFrame: 3, logprob: 0 }, text: " a" };
  assert.deepEqual(toWords([token, { ...token, text: " b", endFrame: 9 }], reading), [
    { text: "a", startSeconds: 3, endSeconds: 4 },
    { text: "b", startSeconds: 4, endSeconds: 9 },
  ]);
});

const FRAME = 0.02;

/** Calls `giveFrames()` with times in frames, and returns times in frames. */
function give(spans: readonly (readonly [number, number])[], end: number): [number, number][] {
  const seconds = spans.map(([from, to]) => ({ start: from * FRAME, end: to * FRAME }));
  const options = { start: 0, end: end * FRAME, frameLength: FRAME };
  return giveFrames(seconds, options).map(({ start, end }) => [
    Number((start / FRAME).toFixed(6)),
    Number((end / FRAME).toFixed(6)),
  ]);
}

Deno.test("giveFrames() does not change words with a length", () => {
  assert.deepEqual(give([[0, 3], [3, 5], [9, 10]], 12), [[0, 3], [3, 5], [9, 10]]);
});

Deno.test("giveFrames() gives words without a length a frame, and shifts later ones", () => {
  assert.deepEqual(give([[0, 3], [3, 3], [3, 3], [3, 8]], 9), [[0, 3], [3, 4], [4, 5], [5, 8]]);
});

Deno.test("giveFrames() moves words back from the end of the segment", () => {
  assert.deepEqual(give([[0, 8], [8, 8], [8, 8]], 8), [[0, 6], [6, 7], [7, 8]]);
});

Deno.test("giveFrames() divides a segment evenly if it has fewer frames than words", () => {
  assert.deepEqual(give([[0, 0], [0, 1], [1, 1], [1, 1]], 1), [
    [0, 0.25],
    [0.25, 0.5],
    [0.5, 0.75],
    [0.75, 1],
  ]);
});

Deno.test("giveFrames() keeps words in order, within the segment, each with a length", () => {
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
