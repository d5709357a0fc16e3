import assert from "node:assert/strict";
import { BODY_LIMITS } from "../../../src/server/http/body/body.ts";
import { chatBody, TestApp, TestServer } from "../../fixtures/servers/server.ts";
import { Random } from "../../unit/engine/random.ts";
import { BAD_REQUEST_KINDS, makeBadRequest } from "./bad_requests.ts";

const NUM_REQUESTS = 2_000;
const NUM_AT_ONCE = 16;
const SEED = 20_260;

async function check(app: TestApp, kind: string, random: Random): Promise<void> {
  const { path, init, status, code } = makeBadRequest(kind, random);
  const response = await app.request(path, init);
  const text = await response.text();
  const shown = `${kind}: ${String(init.body).slice(0, 200)} gave ${response.status} ${
    text.slice(0, 300)
  }`;
  assert.equal(response.status, status, shown);
  const { error } = JSON.parse(text);
  if (code === undefined) assert.equal(typeof error, "string", shown);
  else assert.equal(error.code, code, shown);
  // No large input is sent back.
  assert.ok(text.length < 1_000, shown);
}

Deno.test(`${NUM_REQUESTS} generated bad requests are each refused as documented`, async () => {
  const bodyLimits = { ...BODY_LIMITS, maxPauseMs: 30 };
  await using app = await new TestApp({ bodyLimits }).ready();
  const random = new Random(SEED);
  let numLeft = NUM_REQUESTS;
  const work = async () => {
    while (numLeft-- > 0) {
      await check(app, BAD_REQUEST_KINDS[numLeft % BAD_REQUEST_KINDS.length]!, random);
    }
  };
  await Promise.all(Array.from({ length: NUM_AT_ONCE }, work));

  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  assert.equal(app.session.numInFlight, 0);
  assert.equal(app.session.numLosses, 0);
  const response = await app.post("/chat/completions", chatBody());
  assert.equal(
    (await response.json()).choices[0].message.content,
    "The capital of France is Paris.",
  );
});

Deno.test("a body that is too large, and one that is too slow, are refused over a real port", async () => {
  const bodyLimits = { ...BODY_LIMITS, maxPauseMs: 500 };
  await using server = await TestServer.start({ bodyLimits });
  const headers = { "content-type": "application/json" };
  const url = `${server.base}/v1/chat/completions`;
  const tooLarge = JSON.stringify(chatBody({ user: "x".repeat(6 * 1024 * 1024) }));
  const large = await fetch(url, { method: "POST", headers, body: tooLarge });
  assert.equal(large.status, 413);
  assert.equal((await large.json()).error.code, "payload_too_large");

  const port = Number(new URL(server.base).port);
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const start = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" +
    "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
  await connection.write(new TextEncoder().encode(start));
  const [head] = await Array.fromAsync(connection.readable.pipeThrough(new TextDecoderStream()));
  assert.match(head!, /^HTTP\/1\.1 408 /);
  const { choices } =
    await (await fetch(url, { method: "POST", headers, body: JSON.stringify(chatBody()) })).json();
  assert.equal(choices[0].finish_reason, "length");
});
