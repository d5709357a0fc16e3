import assert from "node:assert/strict";
import { FrameSegments, wordsOfTokens } from "../../../../src/models/asr/frame_tokens.ts";

/** Tokens of two frames each, a frame apart. */
function words(texts: readonly string[], hasSpaces = true) {
  const tokens = texts.map((text, i) => ({
    ...{ id: i, text, startFrame: 3 * i, endFrame: 3 * i + 2, logprob: 0 },
  }));
  return wordsOfTokens(tokens, { frameSeconds: 0.5, hasSpaces })
    .map(({ text, startSeconds, endSeconds }) => [text, startSeconds, endSeconds]);
}

Deno.test("wordsOfTokens() begins a word at a space, wherever a model puts it", () => {
  assert.deepEqual(words(["a", "b", " ", "c"]), [["ab", 0, 2.5], ["c", 4.5, 5.5]]);
  assert.deepEqual(words([" ab", "c", " d"]), [["abc", 0, 2.5], ["d", 3, 4]]);
  assert.deepEqual(words([" ", "a", " "]), [["a", 1.5, 2.5]]);
});

Deno.test("wordsOfTokens() takes tokens one by one where a language has no spaces", () => {
  assert.deepEqual(words(["今", "天"], false), [["今", 0, 1], ["天", 1.5, 2.5]]);
});

Deno.test("FrameSegments pass over tokens without text, and keep no segment of spaces alone", () => {
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
