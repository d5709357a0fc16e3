import assert from "node:assert/strict";
import { Detokenizer, type GetTokenBytes } from "../../../src/engine/detokenizer.ts";
import { Random } from "./random.ts";
import { type LoadedTokenizer, TOKENIZER_FOLDERS, tokenizerTest } from "./tokenizers.ts";

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

/** Tokens that are single bytes. */
const getBytes: GetTokenBytes = (byte) => Uint8Array.of(byte);
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const decodeBytes = (bytes: readonly number[]) => utf8.decode(Uint8Array.from(bytes));

function detokenize(detokenizer: Detokenizer, tokenIds: readonly number[]): string[] {
  const fragments = tokenIds.map((tokenId) => detokenizer.push(tokenId));
  fragments.push(detokenizer.flush());
  assert.equal(detokenizer.length, fragments.join("").length);
  return fragments;
}

/** Makes, by turns, the tokens of snippets, the tokens of random characters, and random tokens. */
function randomTokens({ tokenizer, vocabSize }: LoadedTokenizer, random: Random, turn: number) {
  const length = random.between(1, 60);
  const encode = (text: string) => tokenizer.encode(text);
  const many = <T>(make: () => T) => Array.from({ length }, make);
  switch (turn % 3) {
    case 0:
      return encode(many(() => random.pick(SNIPPETS)).slice(0, 8).join(""));
    case 1:
      return encode(many(() => randomChar(random)).join(""));
    default:
      return many(() => randomToken(tokenizer, vocabSize, random));
  }
}

/** Picks a token that is no byte: another test decodes random bytes. */
function randomToken(
  tokenizer: LoadedTokenizer["tokenizer"],
  vocabSize: number,
  random: Random,
): number {
  for (;;) {
    const id = random.between(0, vocabSize - 1);
    if (!tokenizer.idToToken(id)?.startsWith("<0x")) return id;
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
  tokenizerTest("Detokenizer returns the text that tokens add to a prompt", folder, (loaded) => {
    const { tokenizer, texts } = loaded;
    const random = new Random(4);
    for (let turn = 0; turn < 240; turn++) {
      const isFirst = random.chance(0.5);
      const prompt = isFirst ? [] : tokenizer.encode("a b");
      const tokenIds = randomTokens(loaded, random, turn);
      const detokenizer = new Detokenizer(
        (id, isFirst) => isFirst ? texts.getFirstBytes(id) : texts.getBytes(id),
        { isFirst },
      );
      const fragments = detokenize(detokenizer, tokenIds);
      const whole = tokenizer.decode([...prompt, ...tokenIds]);
      const added = whole.slice(tokenizer.decode(prompt).length);
      assert.equal(joinBroken(fragments.join("")), joinBroken(added));
      for (const fragment of fragments) assert(fragment.isWellFormed(), "half a character");
    }
  });
}

/** Shortens each run of U+FFFD to one: how many replace broken characters depends on the tokenizer's decoder. */
function joinBroken(text: string): string {
  return text.replaceAll(/\uFFFD+/g, "\uFFFD");
}

Deno.test("Detokenizer.push() returns each character of split emoji as soon as it is complete", () => {
  const text = "a👩‍👩‍👧‍👦é";
  const fragments = detokenize(new Detokenizer(getBytes), [...new TextEncoder().encode(text)]);
  assert.deepEqual(fragments.filter((fragment) => fragment !== ""), [...text]);
});

Deno.test("Detokenizer.push() returns plain words without delay, and no text for hidden tokens", () => {
  const words = ["Once", " upon", undefined, " a", " time", "."];
  const encoder = new TextEncoder();
  const detokenizer = new Detokenizer((id) => {
    const word = words[id];
    return word === undefined ? undefined : encoder.encode(word);
  });
  assert.deepEqual(detokenize(detokenizer, [0, 1, 2, 3, 4, 5]), [
    ...words.map((word) => word ?? ""),
    "",
  ]);
});

Deno.test("Detokenizer passes isFirst only for the first visible token", () => {
  const seen: boolean[] = [];
  const detokenizer = new Detokenizer((id, isFirst) => {
    if (id === 0) return undefined;
    seen.push(isFirst);
    return new Uint8Array(0);
  }, { isFirst: true });
  detokenize(detokenizer, [0, 0, 1, 0, 1]);
  assert.deepEqual(seen, [true, false]);
});

Deno.test("Detokenizer returns U+FFFD for an incomplete character at the end, and for a real U+FFFD", () => {
  assert.deepEqual(detokenize(new Detokenizer(getBytes), [0x61, 0xf0, 0x9f]), [
    "a",
    "",
    "",
    "\uFFFD",
  ]);
  assert.equal(detokenize(new Detokenizer(getBytes), [0xef, 0xbf, 0xbd]).join(""), "\uFFFD");
});

Deno.test("Detokenizer.push() holds back at most three bytes that form no character", () => {
  for (const byte of [0xff, 0x80, 0xf0, 0xe2]) {
    const detokenizer = new Detokenizer(getBytes);
    let numEmitted = 0;
    for (let i = 1; i <= 10_000; i++) {
      numEmitted += detokenizer.push(byte).length;
      assert(numEmitted >= i - 3, `${i - numEmitted} characters are held back`);
    }
    assert.equal(numEmitted + detokenizer.flush().length, 10_000);
  }
});

Deno.test("Detokenizer decodes random bytes like the Encoding Standard", () => {
  const random = new Random(5);
  for (let i = 0; i < 3000; i++) {
    const bytes = Array.from(
      { length: random.between(1, 50) },
      () => random.pick([0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82, 0xac, 0xc3, 0x61, 0xff]),
    );
    assert.equal(detokenize(new Detokenizer(getBytes), bytes).join(""), decodeBytes(bytes));
  }
});
