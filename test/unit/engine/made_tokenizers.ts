/**
 * Tokenizers of types that no built-in model has, in the format of `tokenizer.json`.
 *
 * @module
 */
import { LLAMA_DECODER, tokenizerJson } from "../../fixtures/text/tokenizer_json.ts";

const SPACE = "▁";
const LETTERS = [..."abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-"];
const MERGES: readonly (readonly [string, string])[] = [
  [SPACE, "t"],
  ["h", "e"],
  [`${SPACE}t`, "he"],
  ["i", "n"],
  ["in", "g"],
  ["l", "l"],
];

function common(rest: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return tokenizerJson(["<unk>", "<s>", "</s>"], rest);
}

/** Llama's type: text outside the vocabulary becomes bytes, and words begin with a marker. */
export function byteFallbackTokenizer(): Readonly<Record<string, unknown>> {
  const bytes = Array.from(
    { length: 256 },
    (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`,
  );
  const merged = MERGES.map((pair) => pair.join(""));
  const tokens = ["<unk>", "<s>", "</s>", ...bytes, SPACE, ...LETTERS, ...merged];
  return common({
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "Prepend", prepend: SPACE },
        { type: "Replace", pattern: { String: " " }, content: SPACE },
      ],
    },
    decoder: LLAMA_DECODER,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: "<unk>",
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: true,
      byte_fallback: true,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: MERGES.map((pair) => pair.join(" ")),
    },
  });
}

/** SentencePiece's other type: pieces with scores, of which the likeliest sequence is chosen. */
export function unigramTokenizer(): Readonly<Record<string, unknown>> {
  const pieces = [SPACE, `${SPACE}the`, "ing", ...LETTERS];
  const metaspace = { type: "Metaspace", replacement: SPACE, prepend_scheme: "always" };
  return common({
    pre_tokenizer: { ...metaspace, split: true },
    decoder: { ...metaspace, split: true },
    model: {
      type: "Unigram",
      unk_id: 0,
      vocab: [
        ...["<unk>", "<s>", "</s>"].map((token) => [token, 0]),
        ...pieces.map((piece, at) => [piece, -2 - at / 100 + piece.length / 10]),
      ],
    },
  });
}
