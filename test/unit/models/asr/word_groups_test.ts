import assert from "node:assert/strict";
import { groupWords } from "../../../../src/models/asr/timed_words.ts";

/** Tokens from pieces of text, given as bytes if they are not whole characters. */
function group(pieces: readonly (string | readonly number[])[], hasSpaces = true): string[] {
  const bytes = pieces.map((piece) =>
    typeof piece === "string" ? [...new TextEncoder().encode(piece)] : [...piece]
  );
  const groups = groupWords([...pieces.keys()], {
    hasSpaces,
    decode: (tokens) =>
      new TextDecoder().decode(Uint8Array.from(tokens.flatMap((token) => bytes[token]!))),
  });
  assert.equal(groups.reduce((sum, { numTokens }) => sum + numTokens, 0), pieces.length);
  return groups.map(({ text }) => text);
}

Deno.test("groupWords() begins a word at each space", () => {
  assert.deepEqual(group([" Set", " an", " al", "arm"]), [" Set", " an", " alarm"]);
  assert.deepEqual(group([" forty", "-", "one", " 3", ".", "5", "%"]), [" forty-one", " 3.5%"]);
  assert.deepEqual(group([]), []);
});

Deno.test("groupWords() leaves punctuation with its word", () => {
  assert.deepEqual(group([" Yes", ",", " he", " said", ".", '"']), [" Yes,", " he", ' said."']);
  assert.deepEqual(group([' "', "Go", '!"', " (", "now", ")", " ..."]), [' "Go!"', " (now) ..."]);
  assert.deepEqual(group([" -", " Hello", " -", " ¿", "Qué", "?"]), [" - Hello", " - ¿Qué?"]);
  assert.deepEqual(group(["-", " Hello", " f", "(", "x", ")"]), ["- Hello", " f(x)"]);
  assert.deepEqual(group(["..."]), ["..."]);
});

Deno.test("groupWords() makes each character a word if a language has no spaces", () => {
  assert.deepEqual(
    group(["今", "天", "，", "好", "。", "「", "是", "」"], false),
    ["今", "天，", "好。", "「是」"],
  );
});

Deno.test("groupWords() divides no character, and keeps bytes that form none", () => {
  const [a, b, c] = [[0xe4, 0xbb], [0x8a, 0xe5, 0xa4], [0xa9]];
  assert.deepEqual(group([a, b, c, "好"], false), ["今天", "好"]);
  const broken = [0xff];
  assert.deepEqual(
    group([" a", broken, broken, broken, broken, " b"]),
    [" a\uFFFD\uFFFD\uFFFD\uFFFD", " b"],
  );
  assert.deepEqual(group([" a", a]), [" a\uFFFD"]);
});
