/**
 * Each kind of component that a `tokenizer.json` may hold, in a small version, compared with the Rust library: all
 * characters up to Arabic and a sample of others. Characters that Unicode added after the library's tables were made
 * are excluded.
 */
import assert from "node:assert/strict";
import { Tokenizer } from "../../../src/tokenizer/tokenizer.ts";
import { Random } from "../../unit/engine/random.ts";
import { oddStrings } from "./odd_strings.ts";
import { RustTokenizer } from "./real_tokenizers.ts";

type Part = Readonly<Record<string, unknown>>;

const BYTES = Object.fromEntries(
  Array.from(
    { length: 256 },
    (_, byte) => [`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, byte],
  ),
);

/**
 * Tokens are the bytes of the normalized text; the first character of a word lacks the `##` that other characters have.
 */
function tokenizerWith(parts: Part): Part {
  return {
    ...{ version: "1.0", added_tokens: [], post_processor: null, decoder: null },
    ...{ normalizer: null, pre_tokenizer: null },
    model: {
      ...{ type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: "##" },
      ...{ end_of_word_suffix: null, fuse_unk: false, byte_fallback: true },
      ...{ vocab: BYTES, merges: [] },
    },
    ...parts,
  };
}

function split(Regex: string, behavior = "Isolated", invert = false): Part {
  return { pre_tokenizer: { type: "Split", pattern: { Regex }, behavior, invert } };
}

const bert = { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true };
const COMPONENTS: Readonly<Record<string, Part>> = {
  "BERT's normalizer": { normalizer: { ...bert, strip_accents: null, lowercase: true } },
  "BERT's normalizer with case": {
    normalizer: { ...bert, strip_accents: null, lowercase: false },
  },
  "Lowercase": { normalizer: { type: "Lowercase" } },
  "Strip": { normalizer: { type: "Strip", strip_left: true, strip_right: true } },
  "Nmt": { normalizer: { type: "Nmt" } },
  "ByteLevel as a normalizer": { normalizer: { type: "ByteLevel" } },
  "Prepend and Replace": {
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "Prepend", prepend: "▁" },
        { type: "Replace", pattern: { String: " " }, content: "▁" },
        { type: "Replace", pattern: { Regex: "a{2,}" }, content: "b" },
      ],
    },
  },
  "BERT's words": { pre_tokenizer: { type: "BertPreTokenizer" } },
  "Whitespace": { pre_tokenizer: { type: "Whitespace" } },
  "WhitespaceSplit": { pre_tokenizer: { type: "WhitespaceSplit" } },
  "Punctuation": { pre_tokenizer: { type: "Punctuation", behavior: "Contiguous" } },
  "Digits, each": { pre_tokenizer: { type: "Digits", individual_digits: true } },
  "Digits together": { pre_tokenizer: { type: "Digits", individual_digits: false } },
  "ByteLevel": {
    pre_tokenizer: {
      ...{ type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    },
  },
  "Metaspace, first": {
    pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: true },
  },
  "Metaspace, always, not split": {
    pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: false },
  },
  "Split merged with the text before it": split("\\s", "MergedWithPrevious"),
  "Split merged with the text after it": split("\\s", "MergedWithNext"),
  "Split at what does not match": split("\\p{L}+|\\p{N}", "Removed", true),
  "o200k's words": split(
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  ),
  "possessive words": split("[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++"),
  "\\w and \\b": split("\\b\\w"),
  "\\d, \\h, and their opposites": split("\\d\\D|\\h\\H|\\W"),
  "POSIX bracket expressions": split("[[:punct:]]|[[:upper:]][[:lower:]]|[[:space:]]"),
  "an intersection": split("[\\p{L}&&[^a-zA-Z]]+"),
  "scripts": split("\\p{Han}+|[\\p{Hiragana}\\p{Katakana}]|\\p{Latin}"),
  "ignored case": split("(?i:[a-z]{2}|ß|é|'s)"),
  "lookbehind and lookahead": split("(?<=[a-z])(?=[A-Z])|(?<![0-9])'(?!s)"),
};

/** Characters added to Unicode since 2016, in categories that the components above use. */
const RECENT =
  /[\u061d\u07fd\u0890\u0891\u0897-\u089f\u08ca-\u08e2\u09fe\u0afa-\u0aff\u0b55\u0c04\u0c3c]/u;

function sampleTexts(): readonly string[] {
  const random = new Random(9);
  const texts = [...oddStrings()];
  const add = (codePoint: number) => {
    const char = String.fromCodePoint(codePoint);
    if (/\p{Cn}/u.test(char) || RECENT.test(char)) return;
    texts.push(`a${char}b ${char}'${char}${char}1`);
  };
  for (let codePoint = 0; codePoint < 0x870; codePoint++) add(codePoint);
  for (let codePoint = 0x2000; codePoint < 0x2e00; codePoint += 3) add(codePoint);
  for (let codePoint = 0x3000; codePoint < 0x3200; codePoint += 2) add(codePoint);
  for (let codePoint = 0xff00; codePoint < 0x10000; codePoint += 2) add(codePoint);
  for (let i = 0; i < 200; i++) add(random.between(0x4e00, 0xd7a3));
  for (let i = 0; i < 200; i++) add(random.between(0x1f300, 0x1f64f));
  for (let i = 0; i < 200; i++) add(random.between(0x20000, 0x2a6d0));
  return texts;
}

const TEXTS = sampleTexts();

for (const [name, parts] of Object.entries(COMPONENTS)) {
  Deno.test(`words of ${name} equal the Rust library's`, async () => {
    const json = tokenizerWith(parts);
    const ours = new Tokenizer(json);
    const right = await new RustTokenizer(json).encodeAll(TEXTS);
    const wrong = TEXTS.filter((text, index) => String(ours.encode(text)) !== String(right[index]));
    assert.deepEqual(wrong, []);
  });
}

/** Added tokens of white space, of letters, and one that is normalized. */
const ADDED = ["  ", "\n\n", "tok en", "Éa", "<|x|>"];

/** Added tokens with random flags. The library panics where one strips the left side of what another has stripped. */
function addTokens(random: Random): Part[] {
  const side = random.pick(["lstrip", "rstrip"]);
  return ADDED.map((content, at) => ({
    ...{ id: 256 + at, content, special: false, lstrip: false, rstrip: false },
    ...{ single_word: random.chance(0.5), normalized: random.chance(0.5) },
    [side]: random.chance(0.5),
  }));
}

const ADDED_DECODERS: Readonly<Record<string, readonly Part[]>> = {
  "bytes, then words": [{ type: "ByteFallback" }, {
    type: "WordPiece",
    prefix: "##",
    cleanup: true,
  }],
  "bytes": [{ type: "ByteFallback" }, { type: "Fuse" }],
};

for (const [name, decoders] of Object.entries(ADDED_DECODERS)) {
  Deno.test(`added tokens with any flags are found and decoded as by the Rust library: ${name}`, async () => {
    const random = new Random(23);
    const parts = ["  ", "\n\n", "tok en", "Éa", "éa", "<|x|>", "K", " ", "\n", "\t", "é", "_"];
    for (let round = 0; round < 60; round++) {
      const json = tokenizerWith({
        normalizer: { type: "Lowercase" },
        decoder: { type: "Sequence", decoders },
        added_tokens: addTokens(random),
      });
      const ours = new Tokenizer(json);
      const rust = new RustTokenizer(json);
      for (let each = 0; each < 20; each++) {
        const length = random.between(1, 8);
        const text = Array.from({ length }, () => random.pick(parts)).join("");
        const ids = await rust.encode(text);
        const shown = `${JSON.stringify(text)} ${JSON.stringify(json["added_tokens"])}`;
        assert.deepEqual(ours.encode(text), ids, shown);
        assert.equal(ours.decode(ids), await rust.decode(ids), shown);
      }
    }
  });
}

Deno.test("an added token with single_word is found only as a whole word, as by the Rust library", async () => {
  const json = {
    ...tokenizerWith({}),
    added_tokens: [{
      ...{ id: 5, content: "ab", special: false, normalized: false },
      ...{ single_word: true, lstrip: false, rstrip: false },
    }],
    model: {
      ...{ type: "WordPiece", unk_token: "?", continuing_subword_prefix: "" },
      ...{ max_input_chars_per_word: 100, vocab: { "?": 0, a: 1, b: 2, c: 3, cabca: 4 } },
    },
  };
  for (const text of ["abc", "cab", "ab", "c ab"]) {
    assert.deepEqual(new Tokenizer(json).encode(text), await new RustTokenizer(json).encode(text));
  }
});
