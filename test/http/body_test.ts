import assert from "node:assert/strict";
import { BODY_LIMITS, BodyBudget, BodyPace, readJson } from "../../src/server/http/body/body.ts";
import { getInlineMedia } from "../../src/server/http/body/inline_media.ts";
import { OpenTimers } from "../fixtures/servers/open_timers.ts";

const MIB = 1024 * 1024;
const JSON_TYPE = { "content-type": "application/json" };

function post(body: BodyInit, headers: Record<string, string> = JSON_TYPE): Request {
  return new Request("http://127.0.0.1/", { method: "POST", body, headers });
}

const BEFORE_MEDIA = '{"messages":[{"content":[{"image_url":"base64://';
const AFTER_MEDIA = '"}]}]}';

/** A body with an image, in chunks of one MiB; `taken()` is the number of chunks that were read. */
function megabytes(count: number): { body: ReadableStream<Uint8Array>; taken: () => number } {
  let taken = 0;
  const piece = new Uint8Array(MIB).fill(0x41);
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (taken === 0) controller.enqueue(new TextEncoder().encode(BEFORE_MEDIA));
      if (taken++ < count) controller.enqueue(piece);
      else controller.close();
    },
  }, { highWaterMark: 0 });
  return { body, taken: () => taken };
}

Deno.test("readJson() decodes bodies of every JSON media type", async () => {
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

Deno.test("readJson() refuses a compressed body", async () => {
  await readJson(post("{}", { ...JSON_TYPE, "content-encoding": "identity" }));
  for (const encoding of ["gzip", "br", "GZIP, identity"]) {
    await assert.rejects(readJson(post("{}", { ...JSON_TYPE, "content-encoding": encoding })), {
      kind: "unsupported_media_type",
      message: `Content-Encoding: want none, saw ${encoding}; send the body uncompressed.`,
    });
  }
});

Deno.test("readJson() refuses invalid JSON", async () => {
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

Deno.test("readJson() accepts a body of 100 MiB with media, and stops reading a longer one at that size", async () => {
  const around = BEFORE_MEDIA.length + AFTER_MEDIA.length;
  const largest = BEFORE_MEDIA + "A".repeat(100 * MIB - around) + AFTER_MEDIA;
  assert.equal(largest.length, 100 * MIB);
  const request = post(largest);
  const body = await readJson(request) as { messages: [{ content: [{ image_url: string }] }] };
  const { image_url: url } = body.messages[0].content[0];
  const media = getInlineMedia(request.signal)!;
  assert.equal(media.take(url)?.length, Math.floor((100 * MIB - around) * 3 / 4));
  // The JSON that is parsed contains none of the media.
  assert.ok(JSON.stringify(body).length < around + 50);
  const endless = megabytes(200);
  await assert.rejects(readJson(post(endless.body)), {
    kind: "payload_too_large",
    message: /100 MiB/,
  });
  assert.ok(endless.taken() <= 101, `${endless.taken()} MiB were read`);
});

Deno.test("readJson() accepts 5 MiB of text besides media, and no more", async () => {
  const media = "A".repeat(10 * MIB);
  const text = (length: number) => `${BEFORE_MEDIA}${media}"}]}],"input":"${"x".repeat(length)}"}`;
  const rest = ["messages", "content", "image_url", "base64://", "input"].join("").length;
  await readJson(post(text(5 * MIB - rest)));
  await assert.rejects(readJson(post(text(5 * MIB - rest + 1))), {
    kind: "payload_too_large",
    message: "The strings in a request body, media aside, may have at most 5 MiB.",
  });
});

Deno.test("readJson() counts the UTF-8 bytes of strings, not escapes, white space, syntax or token ids", async () => {
  const name = "input".length;
  const cyrillic = (letters: number) => `{"input":"${"\\u0430".repeat(letters)}"}`;
  const most = (5 * MIB - name - 1) / 2;
  const { input } = await readJson(post(cyrillic(most))) as { input: string };
  assert.deepEqual([input.length, input[0]], [most, "а"]);
  await assert.rejects(readJson(post(cyrillic(most + 1))), { kind: "payload_too_large" });
  const ids = Array.from({ length: 900_000 }, (_, id) => 100_000 + id);
  const tokens = JSON.stringify({ input: ids }, undefined, 1);
  assert.ok(tokens.length > 7 * MIB);
  assert.deepEqual(await readJson(post(tokens)), { input: ids });
  const spacious = `{"input":${" ".repeat(20 * MIB)}"a"}`;
  assert.deepEqual(await readJson(post(spacious)), { input: "a" });
  await assert.rejects(readJson(post(`{"input":${" ".repeat(100 * MIB)}"a"}`)), {
    message: "The request body may have at most 100 MiB.",
  });
});

Deno.test("readJson() refuses JSON that is nested too deeply", async () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  await readJson(post(nested(BODY_LIMITS.maxDepth)));
  await assert.rejects(readJson(post(nested(BODY_LIMITS.maxDepth + 1))), { kind: "invalid_json" });
  await assert.rejects(readJson(post(nested(2_000_000))), { kind: "invalid_json" });
});

Deno.test("readJson() stops reading a body that pauses, and one that never ends", async () => {
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

Deno.test("readJson() cancels a body that it refuses, and leaves no timer", async () => {
  using timers = new OpenTimers("/http/body/body.ts");
  assert.deepEqual(await readJson(post("{}")), {});
  assert.equal(timers.count, 0);
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array(1_000).fill(0x20)),
    cancel: () => void (isCancelled = true),
  });
  const refused = readJson(post(body), { ...BODY_LIMITS, maxBytes: 10_000 });
  await assert.rejects(refused, { kind: "payload_too_large" });
  assert.ok(isCancelled);
  assert.equal(timers.count, 0);
});

Deno.test("readJson() limits values, objects, and the names in one object", async () => {
  const { maxNames, maxObjects, maxValues } = BODY_LIMITS;
  const names = (count: number) =>
    JSON.stringify({
      logit_bias: Object.fromEntries(Array.from({ length: count }, (_, id) => [id, 1])),
    });
  await readJson(post(names(maxNames)));
  await assert.rejects(readJson(post(names(maxNames + 1))), {
    kind: "payload_too_large",
    message: "An object in the request body may have at most 4096 fields.",
  });
  const parts = (count: number) => JSON.stringify(Array.from({ length: count }, () => ({})));
  await readJson(post(parts(maxObjects)));
  await assert.rejects(readJson(post(parts(maxObjects + 1))), {
    kind: "payload_too_large",
    message: "The request body may have at most 20000 objects.",
  });
  const values = (count: number) => `[${"1,".repeat(count - 1)}1]`;
  await readJson(post(values(maxValues)));
  await assert.rejects(readJson(post(values(maxValues + 2))), {
    kind: "payload_too_large",
    message: "The request body may have at most 1000000 values.",
  });
});

Deno.test("readJson() decodes a large body on another thread without blocking this one", async () => {
  const body = JSON.stringify({ input: ["ä".repeat(MIB), 1, null, { a: [true] }] });
  assert.deepEqual(await readJson(post(body)), JSON.parse(body));
  const broken = `${body}x`;
  await assert.rejects(readJson(post(broken)), { kind: "invalid_json", message: /not JSON: .+/ });
  const notUtf8 = new TextEncoder().encode(body);
  notUtf8[20] = 0xff;
  await assert.rejects(readJson(post(notUtf8)), { kind: "invalid_json", message: /UTF-8/ });
  // If this thread decoded ten bodies itself, it could not yield between them.
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  await Promise.all(Array.from({ length: 10 }, () => readJson(post(body))));
  clearInterval(timer);
  assert.ok(turns > 0);
});

Deno.test("readJson() keeps the memory of all bodies together within the budget", async () => {
  const budget = new BodyBudget(4 * MIB);
  const limits = { ...BODY_LIMITS, budget };
  const held = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (budget.numBytes === 0) return controller.enqueue(new Uint8Array(3 * MIB).fill(0x20));
      await held.promise;
      controller.enqueue(new TextEncoder().encode("1"));
      controller.close();
    },
  }, { highWaterMark: 0 });
  const first = readJson(post(body), limits);
  while (budget.numBytes === 0) await new Promise((resolve) => setTimeout(resolve));
  assert.ok(budget.isShort);
  await assert.rejects(readJson(post(" ".repeat(2 * MIB)), limits), {
    kind: "overloaded",
    message: /4 MiB .*--body-memory-mb/,
  });
  await readJson(post("[]"), limits);
  held.resolve();
  assert.equal(await first, 1);
  assert.equal(
    budget.numBytes,
    0,
    "bodies that were read or refused return their share of the budget",
  );
});

Deno.test("BodyPace gives up a body that holds memory and arrives too slowly, earlier if memory is short", () => {
  const plenty = { isShort: false };
  const short = { isShort: true };
  const after = (bytes: number, ms: number, budget: { isShort: boolean }) => {
    const pace = new BodyPace(0);
    pace.add(100 * MIB);
    pace.isTooSlow(ms - 1, plenty);
    assert.equal(
      pace.isTooSlow(20_000, plenty),
      false,
      "a body is not too slow in the first window",
    );
    pace.add(bytes);
    return pace.isTooSlow(20_000 + ms, budget);
  };
  assert.equal(after(100, 19_000, plenty), false);
  assert.equal(after(100, 20_000, plenty), true);
  assert.equal(after(20 * 16 * 1024, 20_000, plenty), false);
  assert.equal(after(100, 5_000, short), true);
  assert.equal(after(100, 4_000, short), false);
  const small = new BodyPace(0);
  small.add(2_000);
  assert.equal(small.isTooSlow(100_000, short), false, "a small body is never given up");
});
