import assert from "node:assert/strict";
import { TokenTexts } from "../../../src/models/token_text.ts";
import { Random } from "../engine/random.ts";
import { TOKENIZER_FOLDERS, tokenizerTest } from "../engine/tokenizers.ts";

const GENERATIVE = TOKENIZER_FOLDERS.filter((folder) => !/embed|MiniLM|unigram/.test(folder));

for (const folder of GENERATIVE) {
  tokenizerTest(
    "TokenTexts.of() gives bytes that join to the text of the whole",
    folder,
    (loaded) => {
      const texts = new TokenTexts(loaded.tokenizer, loaded.decoder);
      const dropsFirstSpace = JSON.stringify(loaded.decoder).includes("Strip");
      const random = new Random(6);
      const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
      for (let i = 0; i < 100; i++) {
        const ids = Array.from(
          { length: random.between(1, 40) },
          () => random.between(0, loaded.vocabSize - 1),
        );
        const whole = loaded.tokenizer.decode(ids, { clean_up_tokenization_spaces: false });
        const joined = utf8.decode(Uint8Array.from(ids.flatMap((id) => texts.of(id).bytes)));
        assert.equal(dropsFirstSpace ? joined.replace(/^ /, "") : joined, whole);
      }
    },
  );
}

tokenizerTest(
  "TokenTexts.of() writes bytes that are no character as OpenAI does",
  "models/hearth-demo-chat",
  (loaded) => {
    const texts = new TokenTexts(loaded.tokenizer, loaded.decoder);
    const [first, ...rest] = loaded.tokenizer.encode("👋", { add_special_tokens: false }).ids;
    const { token, bytes } = texts.of(first!);
    assert.equal(token, bytes.map((byte) => `\\x${byte.toString(16)}`).join(""));
    assert.deepEqual(
      [...bytes, ...rest.flatMap((id) => texts.of(id).bytes)],
      [0xf0, 0x9f, 0x91, 0x8b],
    );
  },
);

Deno.test("TokenTexts.of() keeps the characters around stray bytes", () => {
  // "Ġ" is the space and "ð" the byte F0 in the spelling of byte-level tokens, "Ã©" is "é".
  const texts = new TokenTexts({
    id_to_token: () => "ĠaðÃ©",
    get_added_tokens_decoder: () => new Map(),
    decode: () => assert.fail("not needed"),
  }, { type: "ByteLevel" });
  assert.deepEqual(texts.of(0), { token: " a\\xf0é", bytes: [0x20, 0x61, 0xf0, 0xc3, 0xa9] });
});

tokenizerTest(
  "TokenTexts.of() reads byte fallback and word beginnings",
  "made/byte-fallback",
  (loaded) => {
    const texts = new TokenTexts(loaded.tokenizer, loaded.decoder);
    const of = (token: string) => texts.of(loaded.tokenizer.token_to_id(token)!);
    assert.deepEqual(of("<0xE2>"), { token: "\\xe2", bytes: [0xe2] });
    assert.deepEqual(of("<0x41>"), { token: "A", bytes: [0x41] });
    assert.deepEqual(of("▁the").token, " the");
    assert.deepEqual(of("</s>").token, "</s>");
  },
);

tokenizerTest(
  "TokenTexts.of() falls back to decoding the token alone",
  "models/hearth-demo-embed",
  (loaded) => {
    const id = loaded.tokenizer.token_to_id("capital")!;
    assert.deepEqual(new TokenTexts(loaded.tokenizer, loaded.decoder).of(id).token, "capital");
  },
);
