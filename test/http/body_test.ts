import assert from "node:assert/strict";
import { BODY_LIMITS, readJson } from "../../src/http/body.ts";

const MIB = 1024 * 1024;
const JSON_TYPE = { "content-type": "application/json" };

function post(body: BodyInit, headers: Record<string, string> = JSON_TYPE): Request {
  return new Request("http://127.0.0.1/", { method: "POST", body, headers });
}

/** A body that comes in pieces of one MiB and counts how many were taken. */
function megabytes(count: number): { body: ReadableStream<Uint8Array>; taken: () => number } {
  let taken = 0;
  const piece = new Uint8Array(MIB).fill(0x41);
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (taken === 0) controller.enqueue(new TextEncoder().encode('"base64://'));
      if (taken++ < count) controller.enqueue(piece);
      else controller.close();
    },
  }, { highWaterMark: 0 });
  return { body, taken: () => taken };
}

Deno.test("readJson() decodes JSON of every JSON media type", async () => {
  for (
    const type of ["application/json", "Application/JSON; charset=utf-8", "application/ld+json"]
  ) assert.deepEqual(await readJson(post('{"ä":[1]}', { "content-type": type })), { "ä": [1] });
});

Deno.test("readJson() refuses other media types by name", async () => {
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"]) {
    await assert.rejects(readJson(post("{}", { "content-type": type })), {
      kind: "unsupported_media_type",
      message: `Content-Type: want application/json, saw ${type}.`,
    });
  }
});

Deno.test("readJson() refuses a body that comes packed", async () => {
  await readJson(post("{}", { ...JSON_TYPE, "content-encoding": "identity" }));
  for (const encoding of ["gzip", "br", "GZIP, identity"]) {
    await assert.rejects(readJson(post("{}", { ...JSON_TYPE, "content-encoding": encoding })), {
      kind: "unsupported_media_type",
      message: `Content-Encoding: want none, saw ${encoding}; send the body as it is.`,
    });
  }
});

Deno.test("readJson() refuses what is not JSON", async () => {
  const notUtf8 = new Uint8Array([0x22, 0xff, 0x22]);
  for (const body of ["", "{", "{'a':1}", '{"a":1}x', "undefined", notUtf8]) {
    await assert.rejects(readJson(post(body)), { kind: "invalid_json" });
  }
  const withoutBody = new Request("http://127.0.0.1/", { method: "POST", headers: JSON_TYPE });
  await assert.rejects(readJson(withoutBody), { kind: "invalid_json" });
});

Deno.test("readJson() refuses by Content-Length before it reads a byte", async () => {
  const { body, taken } = megabytes(1);
  const headers = { ...JSON_TYPE, "content-length": String(100 * MIB + 1) };
  await assert.rejects(readJson(post(body, headers)), {
    kind: "payload_too_large",
    message: "The request body may have at most 100 MiB.",
  });
  assert.equal(taken(), 0);
});

Deno.test("readJson() takes 100 MiB of media and stops reading beyond", async () => {
  const largest = `"base64://${"A".repeat(100 * MIB - 11)}"`;
  assert.equal((await readJson(post(largest)) as string).length, largest.length - 2);
  const { body, taken } = megabytes(200);
  await assert.rejects(readJson(post(body)), { kind: "payload_too_large", message: /100 MiB/ });
  assert.ok(taken() <= 101, `${taken()} MiB were read`);
});

Deno.test("readJson() takes 5 MiB of text beside media, and no more", async () => {
  const media = `"base64://${"A".repeat(10 * MIB)}"`;
  const text = (length: number) => `[${media},"${"x".repeat(length)}"]`;
  const rest = text(0).length - (media.length - 2);
  await readJson(post(text(5 * MIB - rest)));
  await assert.rejects(readJson(post(text(5 * MIB - rest + 1))), {
    kind: "payload_too_large",
    message: "The text in a request body, media aside, may have at most 5 MiB.",
  });
});

Deno.test("readJson() refuses what nests too deep", async () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  await readJson(post(nested(BODY_LIMITS.maxDepth)));
  await assert.rejects(readJson(post(nested(BODY_LIMITS.maxDepth + 1))), { kind: "invalid_json" });
  await assert.rejects(readJson(post(nested(2_000_000))), { kind: "invalid_json" });
});

Deno.test("readJson() gives up a body that pauses, and one that never ends", async () => {
  let cancelled = 0;
  const slow = (pauseMs: number) => {
    let timer: ReturnType<typeof setInterval>;
    return new ReadableStream<Uint8Array>({
      start(controller) {
        timer = setInterval(() => controller.enqueue(new Uint8Array([0x20])), pauseMs);
      },
      cancel() {
        cancelled++;
        clearInterval(timer);
      },
    });
  };
  const limits = { ...BODY_LIMITS, maxPauseMs: 50, maxTotalMs: 200 };
  await assert.rejects(readJson(post(slow(100)), limits), { kind: "request_timeout" });
  await assert.rejects(readJson(post(slow(5)), limits), { kind: "request_timeout" });
  assert.equal(cancelled, 2);
});
