import assert from "node:assert/strict";
import { Detokenizer } from "../../../src/engine/detokenizer.ts";
import { Random } from "./random.ts";
import { type LoadedTokenizer, TOKENIZER_FOLDERS, tokenizerTest } from "./tokenizers.ts";

type Decode = (tokenIds: number[]) => string;

const SNIPPETS = [
  "Hello, world!",
  "it's, I've, we're , don't . ' t n't",
  "👩‍👩‍👧‍👦",
  "🏳️‍🌈",
  "👍🏽",
  "😀😃😄",
  "你好，世界",
  "日本語テキスト",
  "한국어",
  "नमस्ते",
  "مرحبا",
  "é à ü e\u0301",
  "𝔘𝔫𝔦",
  "\uFEFF",
  "\uFFFD",
  "   ",
  "\n\n  if (x) {\n\treturn 1;\n}\n",
];

/** Decodes bytes given as tokens, as byte-level tokenizers do. */
const utf8 = new TextDecoder();
const decodeBytes: Decode = (bytes) => utf8.decode(Uint8Array.from(bytes));

function detokenize(decode: Decode, tokenIds: readonly number[]): string[] {
  const detokenizer = new Detokenizer(decode);
  const fragments = tokenIds.map((tokenId) => detokenizer.push(tokenId));
  fragments.push(detokenizer.flush());
  assert.equal(detokenizer.length, fragments.join("").length);
  return fragments;
}

/** Tokens of sentences, of random characters, and random tokens, in turn. */
function randomTokens({ tokenizer, vocabSize }: LoadedTokenizer, random: Random, turn: number) {
  const length = random.between(1, 60);
  const encode = (text: string) => tokenizer.encode(text, { add_special_tokens: false }).ids;
  const many = <T>(make: () => T) => Array.from({ length }, make);
  switch (turn % 3) {
    case 0:
      return encode(many(() => random.pick(SNIPPETS)).slice(0, 8).join(""));
    case 1:
      return encode(many(() => randomChar(random)).join(""));
    default:
      return many(() => random.between(0, vocabSize - 1));
  }
}

function randomChar(random: Random): string {
  const [low, high] = random.pick([[0x20, 0x7e], [0x4e00, 0x9fff], [0x1f300, 0x1f6ff], [
    0x400,
    0x4ff,
  ]]);
  return String.fromCodePoint(random.between(low!, high!));
}

for (const folder of TOKENIZER_FOLDERS) {
  tokenizerTest("Detokenizer gives the text of the whole in whole characters", folder, (loaded) => {
    const random = new Random(4);
    for (let turn = 0; turn < 240; turn++) {
      const options = { skip_special_tokens: random.chance(0.5) };
      const decode: Decode = (ids) => loaded.tokenizer.decode(ids, options);
      const tokenIds = randomTokens(loaded, random, turn);
      if (tokenIds.length === 0) continue;
      const fragments = detokenize(decode, tokenIds);
      assert.equal(fragments.join(""), decode(tokenIds));
      for (const fragment of fragments) assert(fragment.isWellFormed(), "half a character");
    }
  });
}

Deno.test("Detokenizer.push() gives each character of split emoji whole, as soon as it is complete", () => {
  const text = "a👩‍👩‍👧‍👦é";
  const fragments = detokenize(decodeBytes, [...new TextEncoder().encode(text)]);
  assert.deepEqual(fragments.filter((fragment) => fragment !== ""), [...text]);
});

Deno.test("Detokenizer.push() gives plain words without delay", () => {
  const words = ["Once", " upon", " a", " time", "."];
  assert.deepEqual(detokenize((ids) => ids.map((id) => words[id]).join(""), [0, 1, 2, 3, 4]), [
    ...words,
    "",
  ]);
});

Deno.test("Detokenizer.flush() gives a character that was never completed, and a true U+FFFD", () => {
  assert.deepEqual(detokenize(decodeBytes, [0x61, 0xf0, 0x9f]), ["a", "", "", "\uFFFD"]);
  assert.equal(detokenize(decodeBytes, [0xef, 0xbf, 0xbd]).join(""), "\uFFFD");
});

Deno.test("Detokenizer.push() does not wait for ever on bytes that make no character", () => {
  for (const byte of [0xff, 0x80, 0xf0, 0xe2]) {
    let numDecoded = 0;
    const detokenizer = new Detokenizer((bytes) => {
      numDecoded = Math.max(numDecoded, bytes.length);
      return decodeBytes(bytes);
    });
    let numEmitted = 0;
    for (let i = 1; i <= 10_000; i++) {
      numEmitted += detokenizer.push(byte).length;
      assert(numEmitted >= i - 3, `${i - numEmitted} characters are held back`);
    }
    assert.equal(numEmitted + detokenizer.flush().length, 10_000);
    assert(numDecoded <= 16, `${numDecoded} tokens were decoded at once`);
  }
});

Deno.test("Detokenizer.push() does not slide its window over tokens that have no text", () => {
  // Like SentencePiece: special tokens (0) are left out, then the first space is.
  const decode: Decode = (ids) =>
    ids.filter((id) => id !== 0).map((id) => ` w${id}`).join("").replace(/^ /, "");
  const tokenIds = [1, ...new Array<number>(100).fill(0), 2, 0, 3];
  assert.equal(detokenize(decode, tokenIds).join(""), "w1 w2 w3");
});

Deno.test("Detokenizer.push() holds back what may still be contracted", () => {
  const pieces = [
    "a",
    " a",
    "n",
    " n",
    " n'",
    "t",
    "'",
    " '",
    " ",
    "s",
    "re",
    "'s",
    ".",
    " .",
    ",",
  ];
  const decode: Decode = (ids) => cleanUp(ids.map((id) => pieces[id]).join(""));
  const random = new Random(7);
  for (let i = 0; i < 20_000; i++) {
    const ids = Array.from({ length: random.between(1, 30) }, () => random.between(0, 14));
    assert.equal(detokenize(decode, ids).join(""), decode(ids));
  }
});

/** What tokenizers do under `clean_up_tokenization_spaces`. */
function cleanUp(text: string): string {
  return text.replace(/ ([.?!,])/g, "$1").replace(/ ' /g, "'").replace(/ n't/g, "n't")
    .replace(/ '(m|s|ve|re)/g, "'$1");
}

Deno.test("Detokenizer is right about random bytes, one U+FFFD for each or one for all that are incomplete", () => {
  const random = new Random(5);
  for (let i = 0; i < 3000; i++) {
    const bytes = Array.from(
      { length: random.between(1, 50) },
      () => random.pick([0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82, 0xac, 0xc3, 0x61, 0xff]),
    );
    for (const decode of [decodeBytes, decodeEachByte]) {
      assert.equal(detokenize(decode, bytes).join(""), decode(bytes));
    }
  }
});

/** Decodes like tokenizers that write one U+FFFD for every byte that is no part of a whole character. */
function decodeEachByte(bytes: number[]): string {
  let text = "";
  for (let i = 0; i < bytes.length;) {
    const length = [1, 2, 3, 4].find((n) => isCharacter(bytes.slice(i, i + n)));
    text += length === undefined ? "\uFFFD" : decodeBytes(bytes.slice(i, i + length));
    i += length ?? 1;
  }
  return text;
}

function isCharacter(bytes: number[]): boolean {
  return /^[^\uFFFD]$/u.test(decodeBytes(bytes));
}
