import assert from "node:assert/strict";
import { BODY_LIMITS, readJson } from "../../src/server/http/body/body.ts";
import { getInlineMedia } from "../../src/server/http/body/inline_media.ts";
import { Random } from "../unit/engine/random.ts";

const encoder = new TextEncoder();

/** A request whose body arrives in chunks; `cut()` returns the bytes of the next chunk. */
function inPieces(body: string, cut: () => number): Request {
  const bytes = encoder.encode(body);
  let at = 0;
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at += cut()));
    },
  });
  const headers = { "content-type": "application/json" };
  return new Request("http://127.0.0.1/", { method: "POST", body: stream, headers });
}

/** A chat request with the given JSON strings as images. */
function chat(strings: readonly string[]): string {
  const parts = strings.map((each) => `{"type":"image_url","image_url":{"url":${each}}}`);
  return `{"messages":[{"role":"user","content":[${parts}]}]}`;
}

interface Chat {
  readonly messages: [{ readonly content: { readonly image_url: { readonly url: string } }[] }];
}

/** The images' URLs in the parsed body, and `take()`, which returns the images' bytes. */
async function read(strings: readonly string[], cut = () => 1_000_000) {
  const request = inPieces(chat(strings), cut);
  const body = await readJson(request) as Chat;
  const media = getInlineMedia(request.signal);
  const urls = body.messages[0].content.map(({ image_url }) => image_url.url);
  return { urls, media, take: () => urls.map((url) => media?.take(url)) };
}

Deno.test("readJson() decodes base64 with any alphabet, padding, line breaks and escapes, in any chunks", async () => {
  const random = new Random(16);
  for (let round = 0; round < 300; round++) {
    const files = Array.from(
      { length: random.between(1, 3) },
      () => Uint8Array.from({ length: random.between(1, 200) }, () => random.between(0, 255)),
    );
    const strings = files.map((file) => {
      const isUrl = random.chance(1 / 2);
      const omitPadding = random.chance(1 / 2);
      const letters = file.toBase64({ alphabet: isUrl ? "base64url" : "base64", omitPadding });
      const lines = random.chance(1 / 3) ? letters.replaceAll(/.{7}/g, "$&\r\n") : letters;
      const head = random.chance(1 / 2) ? "base64://" : "data:image/png;charset=x;base64,";
      const json = JSON.stringify(head + lines);
      const escaped = random.chance(1 / 3) ? json.replaceAll("/", "\\/") : json;
      return random.chance(1 / 3) ? escaped.replaceAll("+", "\\u002B") : escaped;
    });
    const { take, urls } = await read(strings, () => random.between(1, 9));
    assert.deepEqual(take().map((bytes) => bytes && [...bytes]), files.map((file) => [...file]));
    assert.deepEqual(
      take(),
      files.map(() => undefined),
      "the bytes of each image can be taken only once",
    );
    for (const url of urls) assert.match(url, /^(base64:\/\/|data:image\/png;charset=x;base64,)/);
  }
});

Deno.test("readJson() accepts and refuses the same base64 as Uint8Array.fromBase64()", async () => {
  const random = new Random(3);
  const letters = [..."ABab09+/-_== \n*"];
  let numRefused = 0;
  for (let round = 0; round < 2_000; round++) {
    const text = Array.from(
      { length: random.between(1, 12) },
      () => random.pick(letters),
    ).join("");
    const alphabet = /[-_]/.test(text) ? "base64url" : "base64";
    let wanted: number[] | undefined;
    try {
      wanted = [...Uint8Array.fromBase64(text, { alphabet })];
    } catch {
      numRefused++;
    }
    const { take } = await read([JSON.stringify(`base64://${text}`)], () => random.between(1, 5));
    if (wanted !== undefined) assert.deepEqual([...take()[0]!], wanted, JSON.stringify(text));
    else assert.throws(take, { kind: "invalid_media", message: "its data is not base64" }, text);
  }
  assert.ok(numRefused > 500 && numRefused < 1_900, `${numRefused} were refused`);
});

Deno.test("readJson() keeps a document's text unchanged if the type comes after the text", async () => {
  const random = new Random(29);
  const units = ["a", "\\", '"', "/", "\n", "é", "€", "😀", "\uFEFF", "\\u00", "\u0001"];
  for (let round = 0; round < 300; round++) {
    const text = Array.from({ length: random.between(1, 40) }, () => random.pick(units)).join("");
    const json = JSON.stringify(text);
    const data = random.chance(1 / 2) ? json : json.replaceAll(/[^ -~]/g, escapeUnit);
    const source = `{"data":${data},"media_type":"text/plain","type":"text"}`;
    const request = inPieces(
      `{"messages":[{"content":[{"source":${source},"type":"document"}],"role":"user"}]}`,
      () => random.between(1, 9),
    );
    // deno-lint-ignore no-explicit-any -- the body as it was written above
    const body = await readJson(request) as any;
    const kept: string = body.messages[0].content[0].source.data;
    assert.equal(getInlineMedia(request.signal)!.decodeText(kept), text);
  }
});

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

Deno.test("readJson() keeps the text of a document after images whose types come after their data", async () => {
  const [url, image, text] = [2_000, 6_000, 3_000].map((length) => "QUJD".repeat(length / 4));
  const parts = [
    { image_url: { url: `data:image/png;base64,${url}` }, type: "image_url" },
    { source: { data: image, media_type: "image/png", type: "base64" }, type: "image" },
    { source: { data: text, media_type: "text/plain", type: "text" }, type: "document" },
  ];
  const request = inPieces(JSON.stringify({ messages: [{ content: parts }] }), () => 500);
  // deno-lint-ignore no-explicit-any -- the body as it was written above
  const body = await readJson(request, { ...BODY_LIMITS, maxTextBytes: 4_000 }) as any;
  const kept: string = body.messages[0].content[2].source.data;
  assert.equal(getInlineMedia(request.signal)!.decodeText(kept), text);
});

Deno.test("readJson() limits the kept texts of all documents together", async () => {
  const parts = ["QUJD", "REVG"].map((letters) => ({
    source: { data: letters.repeat(750), media_type: "text/plain", type: "text" },
    type: "document",
  }));
  const request = inPieces(JSON.stringify({ messages: [{ content: parts }] }), () => 500);
  // deno-lint-ignore no-explicit-any -- the body as it was written above
  const body = await readJson(request, { ...BODY_LIMITS, maxTextBytes: 4_000 }) as any;
  const media = getInlineMedia(request.signal)!;
  const [first, second] = body.messages[0].content;
  assert.equal(media.decodeText(first.source.data), parts[0]!.source.data);
  assert.throws(() => media.decodeText(second.source.data), { kind: "payload_too_large" });
});

Deno.test("readJson() refuses media in invalid JSON strings", async () => {
  for (
    const bad of ['"base64://AA\nAA"', '"base64://AA\\xAA"', '"base64://AA\\u00"', '"base64://AA']
  ) {
    for (const size of [1, 3, 1_000]) {
      await assert.rejects(read([bad], () => size), { kind: "invalid_json" }, bad);
    }
  }
});

Deno.test("readJson() leaves other references and empty media unchanged", async () => {
  const texts = ["https://example.org/a.png", "file:///a", "base64://", "data:text/plain,AAAA", ""];
  const { urls, media } = await read(texts.map((text) => JSON.stringify(text)), () => 2);
  assert.deepEqual(urls, texts);
  assert.equal(media, undefined);
});

Deno.test("InlineMedia.restore() returns the text that was sent", async () => {
  const texts = ["data:image/png;base64,QUJD", "base64://QQ==", "base64://!"];
  const { urls, media } = await read(texts.map((text) => JSON.stringify(text)));
  assert.equal(media?.numBytes, 4);
  assert.deepEqual(urls.slice(0, 2).map((url) => media!.restore(url)), texts.slice(0, 2));
  assert.throws(() => media!.take(media!.restore(urls[2]!)), { kind: "invalid_media" });
});

Deno.test("readJson() keeps nothing of 90 MiB of spaces within base64", async () => {
  const { take } = await read([`"base64://QU${" ".repeat(90 * 2 ** 20)}JD"`], () => 65_536);
  const bytes = take()[0]!;
  assert.equal(new TextDecoder().decode(bytes), "ABC");
  // The buffer would be larger if the spaces were kept.
  assert.ok(bytes.buffer.byteLength < 2 ** 20, `${bytes.buffer.byteLength} bytes`);
});

Deno.test("readJson() decodes base64 without a prefix wherever its first bytes are split", async () => {
  const bytes = Uint8Array.from({ length: 300 }, (_, index) => index * 7);
  const before = '{"messages":[{"content":"x","images":["';
  for (let cut = before.length - 1; cut < before.length + 20; cut++) {
    const lengths = [cut, 1_000][Symbol.iterator]();
    const request = inPieces(`${before}${bytes.toBase64()}"]}]}`, () => lengths.next().value!);
    const body = await readJson(request) as { messages: [{ images: [string] }] };
    assert.deepEqual(getInlineMedia(request.signal)?.take(body.messages[0].images[0]), bytes);
  }
});
