import assert from "node:assert/strict";
import { Tokenizer } from "../../../src/tokenizer/tokenizer.ts";

/** An entry of `added_tokens`. */
function added(content: string, id: number, special = false): Record<string, unknown> {
  return { content, id, special, normalized: false };
}

// The expected values are those of the Rust library, version 0.23.2.

Deno.test("Tokenizer numbers added tokens after the vocabulary, whatever ids the file gives", () => {
  const tokenizer = new Tokenizer({
    pre_tokenizer: { type: "WhitespaceSplit" },
    model: { type: "WordLevel", vocab: { a: 0, b: 1, "<s>": 2 }, unk_token: "b" },
    added_tokens: [added("<x>", 7), added("<s>", 9, true), added("<y>", 8), added("<x>", 11, true)],
  });
  assert.deepEqual(tokenizer.encode("a <x> <s> <y> b"), [0, 3, 2, 4, 1]);
  assert.equal(tokenizer.decode([0, 3, 2, 4, 1], { skipsSpecial: true }), "a <y> b");
  assert.equal(tokenizer.numIds, 5);
});

Deno.test("Tokenizer.decode() with skipsSpecial leaves out every token that is spelled like a special one", () => {
  const tokenizer = new Tokenizer({
    model: {
      type: "Unigram",
      unk_id: 0,
      vocab: [["<unk>", 0], ["a", -1], ["<s>", -2], ["<s>", -3]],
    },
    added_tokens: [added("<s>", 0, true), added("<x>", 0)],
  });
  assert.deepEqual(tokenizer.encode("a<s><x>"), [1, 3, 4]);
  for (const id of [2, 3]) {
    assert.equal(tokenizer.decode([1, id, 4], { skipsSpecial: true }), "a <x>");
  }
});

Deno.test("Metaspace with prepend_scheme first marks the first word only if no white space precedes it", () => {
  const tokenizer = new Tokenizer({
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Whitespace" },
        { type: "Metaspace", replacement: "_", prepend_scheme: "first", split: true },
      ],
    },
    model: { type: "WordLevel", vocab: { _a: 0, a: 1, "?": 2 }, unk_token: "?" },
  });
  const encoded = ["a", "a a", " a", " a a"].map((text) => tokenizer.encode(text));
  assert.deepEqual(encoded, [[0], [0, 1], [1], [1, 1]]);
});
