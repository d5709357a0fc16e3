import assert from "node:assert/strict";
import { TokenTexts } from "../../../src/models/text/tokenizer_files.ts";
import { Random } from "../engine/random.ts";
import { TOKENIZER_FOLDERS, tokenizerTest } from "../engine/tokenizers.ts";

for (const folder of TOKENIZER_FOLDERS) {
  tokenizerTest(
    "TokenTexts.of() returns bytes that join to the text of the tokens",
    folder,
    ({ tokenizer, texts, vocabSize }) => {
      const random = new Random(6);
      const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
      const before = tokenizer.encode("a");
      const beforeText = tokenizer.decode(before);
      for (let i = 0; i < 100; i++) {
        const ids = Array.from(
          { length: random.between(1, 40) },
          () => random.between(0, vocabSize - 1),
        ).filter((id) => !tokenizer.idToToken(id)?.startsWith("<0x"));
        const whole = tokenizer.decode([...before, ...ids]).slice(beforeText.length);
        const joined = utf8.decode(Uint8Array.from(ids.flatMap((id) => texts.of(id).bytes)));
        assert.equal(joinBroken(joined), joinBroken(whole));
      }
    },
  );
}

/** Joins runs of U+FFFD: decoders write different numbers of them for broken characters. */
function joinBroken(text: string): string {
  return text.replaceAll(/\uFFFD+/g, "\uFFFD");
}

tokenizerTest(
  "TokenTexts.of() escapes bytes that form no character, as OpenAI does",
  "models/hearth-demo-chat",
  ({ tokenizer, texts }) => {
    const [first, ...rest] = tokenizer.encode("👋");
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
    idToToken: () => "ĠaðÃ©",
    numIds: 1,
    decode: () => assert.fail("not needed"),
  }, { type: "ByteLevel" });
  assert.deepEqual(texts.of(0), { token: " a\\xf0é", bytes: [0x20, 0x61, 0xf0, 0xc3, 0xa9] });
});

tokenizerTest(
  "TokenTexts.of() converts byte-fallback tokens to bytes, and ▁ to a space",
  "made/byte-fallback",
  ({ tokenizer, texts }) => {
    const of = (token: string) => texts.of(tokenizer.tokenToId(token)!);
    assert.deepEqual(of("<0xE2>"), { token: "\\xe2", bytes: [0xe2] });
    assert.deepEqual(of("<0x41>"), { token: "A", bytes: [0x41] });
    assert.deepEqual(of("▁the").token, " the");
    assert.deepEqual(of("</s>").token, "</s>");
  },
);

tokenizerTest(
  "TokenTexts.getFirstBytes() omits the space before the first word",
  "made/byte-fallback",
  ({ tokenizer, texts }) => {
    const readText = (token: string) =>
      new TextDecoder().decode(texts.getFirstBytes(tokenizer.tokenToId(token)!));
    assert.equal(readText("▁the"), "the");
    assert.equal(readText("he"), "he");
    assert.equal(readText("<0x20>"), "");
  },
);
