/** Tokens and texts of real tokenizers equal those of the Rust library. */
import assert from "node:assert/strict";
import { Detokenizer } from "../../../src/engine/detokenizer.ts";
import { oddStrings } from "./odd_strings.ts";
import { realTokenizerTest } from "./real_tokenizers.ts";

const STRINGS = oddStrings();

realTokenizerTest("tokens of 400 odd strings equal the Rust library's", async ({ ours, rust }) => {
  assert.equal(STRINGS.length, 400);
  for (const text of STRINGS) {
    assert.deepEqual(ours.encode(text), await rust.encode(text), JSON.stringify(text));
  }
});

realTokenizerTest(
  "special tokens around texts equal the Rust library's, with BOS if the configuration adds it",
  async ({ ours, rust }, name) => {
    const ids = await rust.encode("hello", true);
    const bos = ours.tokenToId("<｜begin▁of▁sentence｜>");
    if (name === "DeepSeek V3") ids.unshift(bos!);
    assert.deepEqual(ours.encodeWhole("hello"), ids);
  },
);

realTokenizerTest("text of tokens equals the Rust library's", async ({ ours, rust }) => {
  for (const text of STRINGS) {
    const ids = await rust.encode(text, true);
    for (const skipsSpecial of [false, true]) {
      const whole = await rust.decode(ids, skipsSpecial);
      assert.equal(ours.decode(ids, { skipsSpecial }), whole, JSON.stringify(text));
    }
  }
});

realTokenizerTest(
  "a stream's text is what its tokens add to the prompt's, as in the log-probabilities",
  async ({ texts, rust }) => {
    const prompt = await rust.encode("Once upon");
    for (const text of STRINGS) {
      const ids = await rust.encode(text);
      const detokenizer = new Detokenizer((id) => texts.getBytes(id));
      const streamed = ids.map((id) => detokenizer.push(id)).join("") + detokenizer.flush();
      assert.equal(streamed, await rust.decodeAfter(prompt, ids), JSON.stringify(text));
      const bytes = Uint8Array.from(ids.flatMap((id) => texts.of(id).bytes));
      assert.equal(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes), streamed);
    }
  },
);

realTokenizerTest(
  "a stream from the first token of a text on equals the Rust library's text",
  async ({ texts, rust }) => {
    for (const text of STRINGS) {
      const ids = await rust.encode(text);
      const detokenizer = new Detokenizer(
        (id, isFirst) => isFirst ? texts.getFirstBytes(id) : texts.getBytes(id),
        { isFirst: true },
      );
      const streamed = ids.map((id) => detokenizer.push(id)).join("") + detokenizer.flush();
      assert.equal(streamed, await rust.decode(ids), JSON.stringify(text));
    }
  },
);
