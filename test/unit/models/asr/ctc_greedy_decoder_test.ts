import assert from "node:assert/strict";
import { CtcGreedyDecoder } from "../../../../src/models/asr/ctc_load.ts";
import { FrameSegments, type FrameToken } from "../../../../src/models/asr/frame_tokens.ts";

const CLASSES = ["", " ", "a", "b", "c", ""];
const VOCABULARY = { blank: 0, texts: CLASSES };

/** Logits that favour one class in each frame: `_` the blank, `|` the space, `?` a special token. */
function makeLogits(path: string): Float32Array {
  const logits = new Float32Array(path.length * CLASSES.length);
  [...path].forEach((letter, frame) =>
    logits[frame * CLASSES.length + "_|abc?".indexOf(letter)] = 9
  );
  return logits;
}

/** Decodes a path in chunks of the given number of frames. */
function read(path: string, pieceFrames = path.length): FrameToken[] {
  const reader = new CtcGreedyDecoder(VOCABULARY);
  const tokens: FrameToken[] = [];
  for (let from = 0; from < path.length; from += pieceFrames) {
    const part = path.slice(from, from + pieceFrames);
    // The decoder must ignore two frames on either side.
    const logits = makeLogits(`cb${part}ac`);
    tokens.push(
      ...reader.push({ rows: logits, from: 2, to: 2 + part.length, firstFrame: from - 2 }),
    );
  }
  return [...tokens, ...reader.end()];
}

Deno.test("CtcGreedyDecoder joins repetitions to one token, drops blanks, and returns each token's frames", () => {
  const tokens = read("__aaa_ab__b||c");
  assert.deepEqual(
    tokens.map(({ text, startFrame, endFrame }) => [text, startFrame, endFrame]),
    [["a", 2, 5], ["a", 6, 7], ["b", 7, 8], ["b", 10, 11], [" ", 11, 13], ["c", 13, 14]],
  );
  for (const { logprob } of tokens) assert.ok(logprob < 0 && logprob > -0.01);
});

Deno.test("CtcGreedyDecoder decodes a recording in chunks to the same tokens as at once", () => {
  const path = "_aa__ab|||c__cccc_b_aabb__c";
  for (let pieceFrames = 1; pieceFrames <= path.length; pieceFrames++) {
    assert.deepEqual(read(path, pieceFrames), read(path), `${pieceFrames} frames at a time`);
  }
});

Deno.test("CtcGreedyDecoder gives a token its log-softmax in the frame where it is likeliest", () => {
  const reader = new CtcGreedyDecoder({ blank: 0, texts: ["", "a"] });
  const logits = Float32Array.of(0, Math.log(3), 0, Math.log(4));
  reader.push({ rows: logits, from: 0, to: 2, firstFrame: 0 });
  const [token] = reader.end();
  assert.ok(Math.abs(token!.logprob - Math.log(0.8)) < 1e-6);
});

function readSegments(path: string, rules = { pauseFrames: 5, maxFrames: 20 }): string[] {
  const segments = new FrameSegments(rules);
  const found = read(path).flatMap((token) => segments.push([token]));
  return [...found, ...segments.end()].map((tokens) => tokens.map(({ text }) => text).join(""));
}

Deno.test("FrameSegments starts a new segment after a pause, with a space at any position in the pause", () => {
  assert.deepEqual(readSegments("ab____c"), ["abc"]);
  assert.deepEqual(readSegments("ab_____c"), ["ab", "c"]);
  assert.deepEqual(readSegments("ab|____c"), ["ab ", "c"]);
  assert.deepEqual(readSegments("ab____|c"), ["ab ", "c"]);
  assert.deepEqual(readSegments("ab|a__|___c"), ["ab a ", "c"]);
});

Deno.test("FrameSegments divides long segments between words, never within one", () => {
  assert.deepEqual(readSegments("abcabc|abcabc|abcabc|abc"), ["abcabc abcabc abcabc ", "abc"]);
  assert.deepEqual(readSegments("abcabcabcabcabcabcabcabcabcabc"), [
    "abcabcabcabcabcabcabcabcabcabc",
  ]);
});

Deno.test("FrameSegments omits special tokens, and segments without text", () => {
  assert.deepEqual(readSegments("?a?b??"), ["ab"]);
  assert.deepEqual(readSegments("??||__|"), []);
  assert.deepEqual(readSegments(""), []);
});
