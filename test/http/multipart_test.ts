import assert from "node:assert/strict";
import { BODY_LIMITS } from "../../src/server/http/body/body.ts";
import { readMultipart } from "../../src/server/http/body/multipart.ts";

const MIB = 1024 * 1024;
const encoder = new TextEncoder();

function post(body: BodyInit, boundary = "b", headers: Record<string, string> = {}): Request {
  return new Request("http://127.0.0.1/", {
    method: "POST",
    body,
    headers: { "content-type": `multipart/form-data; boundary=${boundary}`, ...headers },
  });
}

/** A body that arrives in chunks of `size` bytes. */
function inPieces(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at += size));
    },
  });
}

const read = (request: Request) => readMultipart(request, { fileField: "file" });

Deno.test("readMultipart() refuses a compressed form", async () => {
  await assert.rejects(read(post("--b--", "b", { "content-encoding": "gzip" })), {
    kind: "unsupported_media_type",
  });
});

Deno.test("readMultipart() reads FormData's output, in chunks of any size", async () => {
  const content = Uint8Array.from({ length: 3000 }, (_, i) => i * 7 % 256);
  content.set(encoder.encode("\r\n--"), 100);
  content.set(encoder.encode("\r\n------formdata"), 200);
  const form = new FormData();
  form.set("language", "de");
  form.set("empty", "");
  form.set("file", new File([content], 'a "quoted" name.wav'));
  form.set("other", new File(["x"], "other.wav"));
  const whole = new Request("http://127.0.0.1/", { method: "POST", body: form });
  const type = whole.headers.get("content-type")!;
  const bytes = new Uint8Array(await whole.arrayBuffer());
  for (const size of [1, 2, 3, 17, 64, 1000, bytes.length]) {
    const { fields, file } = await read(post(inPieces(bytes, size), "", { "content-type": type }));
    assert.deepEqual([...fields], [["language", "de"], ["empty", ""]]);
    assert.deepEqual(file, content);
  }
});

Deno.test("readMultipart() accepts a preamble, an epilogue, quoted boundaries and names without quotes", async () => {
  const body =
    "before\r\n--b c\r\nContent-Disposition: form-data; name=file\r\n\r\nhi\r\n--b c--\r\nafter";
  const { file } = await read(post(body, '"b c"'));
  assert.equal(new TextDecoder().decode(file), "hi");
  assert.equal((await read(post("--b--"))).file, undefined);
});

Deno.test("readMultipart() accepts blanks after a boundary, in chunks of any size", async () => {
  const body = encoder.encode(
    '--b \t \r\nContent-Disposition: form-data; name="file"\r\n\r\nhi\r\n--b--  \r\n',
  );
  for (const size of [1, 2, 5, body.length]) {
    const { file } = await read(post(inPieces(body, size)));
    assert.equal(new TextDecoder().decode(file), "hi");
  }
});

Deno.test("readMultipart() refuses a second file, even if both are empty", async () => {
  const part = 'Content-Disposition: form-data; name="file"; filename="a.wav"';
  for (const contents of [["a", "b"], ["", ""]]) {
    const parts = contents.map((content) => `--b\r\n${part}\r\n\r\n${content}\r\n`);
    await assert.rejects(read(post(`${parts.join("")}--b--`)), {
      kind: "invalid_value",
      param: "file",
      message: /^file: want one file, saw a second part/,
    });
  }
});

Deno.test("readMultipart() refuses bodies that are not forms", async () => {
  const part = 'Content-Disposition: form-data; name="file"';
  const bad: readonly (readonly [string, RegExp])[] = [
    ["", /it ends before its last boundary/],
    ["hello", /it ends before its last boundary/],
    [`--b\r\n${part}\r\n\r\nno end`, /it ends before its last boundary/],
    [`--b\r\n${part}\r\n\r\nx\r\n--bx\r\n--b--`, /a boundary is followed by something other/],
    ["--b\r\nContent-Type: text/plain\r\n\r\nno name\r\n--b--", /a part has no name/],
  ];
  for (const [body, message] of bad) {
    await assert.rejects(read(post(body)), { kind: "invalid_value", message }, body);
  }
  const noBoundary = post("--b--", "", { "content-type": "multipart/form-data" });
  await assert.rejects(read(noBoundary), { kind: "invalid_value", message: /no boundary/ });
});

Deno.test("readMultipart() accepts 100 parts and 16 KiB of headers for a part, and no more", async () => {
  const makeParts = (numParts: number) =>
    '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'.repeat(numParts) + "--b--";
  assert.equal((await read(post(makeParts(100)))).fields.length, 100);
  await assert.rejects(read(post(makeParts(101))), {
    kind: "invalid_value",
    message: /it has more than 100 parts/,
  });
  // The line break after the boundary counts too.
  const head = '\r\nContent-Disposition: form-data; name="a"\r\nX: ';
  const makePart = (headerBytes: number) => `--b${head.padEnd(headerBytes, "x")}\r\n\r\n\r\n--b--`;
  assert.equal((await read(post(makePart(16_384)))).fields.length, 1);
  // Headers whose end has not arrived are refused too.
  for (const body of [makePart(16_385), makePart(16_385).slice(0, 16_400)]) {
    await assert.rejects(read(post(body)), {
      kind: "invalid_value",
      message: /a part has more than 16384 bytes of headers/,
    });
  }
});

/** A form with a file of this size, and the number of its chunks that were read. */
function upload(fileBytes: number): { body: ReadableStream<Uint8Array>; taken: () => number } {
  let left = fileBytes;
  let taken = 0;
  const head = encoder.encode('--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n');
  const random = crypto.getRandomValues(new Uint8Array(65536));
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (taken === 0) controller.enqueue(head);
      taken++;
      if (left > 0) {
        controller.enqueue(random.slice(0, Math.min(left, random.length)));
        left -= random.length;
      } else {
        controller.enqueue(encoder.encode("\r\n--b--"));
        controller.close();
      }
    },
  }, { highWaterMark: 0 });
  return { body, taken: () => taken };
}

Deno.test("readMultipart() accepts a file of 100 MiB, and refuses one byte more while reading", async () => {
  for (const headers of [{}, { "content-length": String(100 * MIB + 500) }]) {
    const { body } = upload(100 * MIB);
    assert.equal((await read(post(body, "b", headers))).file!.length, 100 * MIB);
  }
  const tooLarge = upload(100 * MIB + 1);
  await assert.rejects(read(post(tooLarge.body)), {
    kind: "payload_too_large",
    message: "The uploaded file may have at most 100 MiB.",
  });
  const endless = upload(Infinity);
  await assert.rejects(read(post(endless.body)), { kind: "payload_too_large" });
  assert.equal(endless.taken(), 100 * MIB / 65536 + 1);
  const { body, taken } = upload(1);
  await assert.rejects(read(post(body, "b", { "content-length": String(200 * MIB) })), {
    kind: "payload_too_large",
  });
  assert.equal(taken(), 0);
});

Deno.test("readMultipart() limits the bytes before the first part and after the last one", async () => {
  for (const start of ["x", "--b--"]) {
    let taken = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(taken++ === 0 ? encoder.encode(start) : new Uint8Array(1000));
      },
    }, { highWaterMark: 0 });
    const limits = { ...BODY_LIMITS, maxBytes: 10_000, maxTextBytes: 5_000 };
    await assert.rejects(readMultipart(post(body), { fileField: "file", limits }), {
      kind: "payload_too_large",
      message: "The form may have at most 15000 bytes.",
    });
    assert.equal(taken, 16);
  }
});

Deno.test("readMultipart() limits the text besides the file", async () => {
  const form = new FormData();
  form.set("prompt", "x".repeat(BODY_LIMITS.maxTextBytes + 1));
  const request = new Request("http://127.0.0.1/", { method: "POST", body: form });
  await assert.rejects(read(request), { kind: "payload_too_large" });
});
