import assert from "node:assert/strict";
import { Base64Decoder } from "../../../src/media/reference.ts";

/** The bytes of base64 that comes in two pieces. */
function decodeParts(text: string, end: number): Uint8Array {
  const decoder = new Base64Decoder({ maxBytes: text.length });
  for (const part of [text.slice(0, end), text.slice(end)]) decoder.push(part);
  return decoder.finish();
}

Deno.test("Base64Decoder reads percent-encoded base64 as URLs hold it, wherever it is cut", () => {
  const bytes = Uint8Array.from({ length: 64 }, (_, i) => 251 + i * 5);
  const plain = bytes.toBase64();
  assert.match(plain, /\+.*=$/s);
  for (const encoded of [encodeURIComponent(plain), plain.replaceAll("/", "%2f"), plain]) {
    for (let end = 0; end <= encoded.length; end++) {
      assert.deepEqual(decodeParts(encoded, end), bytes, encoded.slice(0, end));
    }
  }
});

Deno.test("Base64Decoder refuses what percent signs leave that is no base64", () => {
  for (const text of ["QUJD%", "QUJD%2", "QUJD%zz", "QUJD%3f", "%"]) {
    for (let end = 0; end <= text.length; end++) {
      assert.throws(() => decodeParts(text, end), { kind: "invalid_media" }, text);
    }
  }
});
