import assert from "node:assert/strict";
import OpenAI from "openai";
import { chatBody, ENDLESS, MODEL, TestServer } from "../fixtures/servers/server.ts";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";
import { Random } from "../unit/engine/random.ts";

const NUM_REQUESTS = 300;
const NUM_HANG_UPS = 100;
const LONGEST_PATIENCE_MS = 2_000;

Deno.test("300 requests, of which 100 are aborted at random moments, leave nothing behind", async () => {
  await using server = await TestServer.start({ maxQueue: NUM_REQUESTS });
  const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });
  const random = new Random(11);
  let numAnswered = 0;

  const ask = async (index: number, stream: boolean, patienceMs: number) => {
    const signal = AbortSignal.timeout(patienceMs);
    const hangsUp = index < NUM_HANG_UPS;
    const request = {
      model: MODEL,
      messages: [{ role: "user" as const, content: `Count from ${index}.` }],
      max_tokens: 12,
      n: 1 + index % 2,
    };
    const options = hangsUp ? { signal } : {};
    try {
      if (stream) {
        const chunks = await client.chat.completions.create({ ...request, stream }, options);
        for await (const _ of chunks);
      } else await client.chat.completions.create(request, options);
    } catch (error) {
      if (!hangsUp) throw error;
    }
    numAnswered++;
  };
  await Promise.all(
    Array.from(
      { length: NUM_REQUESTS },
      (_, index) => ask(index, random.chance(0.5), random.between(0, LONGEST_PATIENCE_MS)),
    ),
  );

  assert.equal(numAnswered, NUM_REQUESTS);
  await server.untilIdle();
  assert.equal(await server.figure("hearth_requests_in_flight"), 0);
  assert.equal(await server.figure("hearth_sequences_running"), 0);
  assert.equal(await server.figure("hearth_sequences_waiting"), 0);
  assert.equal(await server.figure("hearth_queue_room"), server.app.session.capacity);
  assert.equal(await server.figure("hearth_worker_losses_total"), 0);
  assert.equal(
    (await fetch(`${server.base}/health`).then((response) => response.json())).status,
    "ok",
  );
});

Deno.test("a client that disconnects while it waits frees its slot in the queue", async () => {
  const engine = { prefixCache: true, maxSequences: 1 };
  const { spawnWorker, workers } = fragileSpawner();
  await using server = await TestServer.start({ engine, maxQueue: 1, spawnWorker });
  workers[0]!.postMessage({ type: "slow-steps", ms: 20 });
  const { session } = server.app;
  const post = (body: unknown, signal?: AbortSignal) =>
    fetch(`${server.base}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
  const running = await post(chatBody({ stream: true, ...ENDLESS }));
  for (const stream of [false, true]) {
    const waiting = new AbortController();
    // While a streaming request waits, its headers arrive, but no events.
    const hungUp = assert.rejects(async () => {
      await (await post(chatBody({ stream }), waiting.signal)).text();
    });
    while (session.numInFlight < 2) await new Promise((resolve) => setTimeout(resolve));
    assert.equal((await post(chatBody())).status, 429);
    waiting.abort();
    await hungUp;
    while (session.numInFlight > 1) await new Promise((resolve) => setTimeout(resolve));
  }
  const next = post(chatBody());
  await running.body!.cancel();
  workers[0]!.postMessage({ type: "slow-steps", ms: 0 });
  assert.equal((await next).status, 200);
  await (await next).body!.cancel();
  await server.untilIdle();
});
