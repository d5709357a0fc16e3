import assert from "node:assert/strict";
import { streamEvents, type TaskEvents, waitForAdmission } from "../../src/server/http/sse.ts";
import type { ChatEvent } from "../../src/models/task.ts";
import { OpenTimers } from "../fixtures/servers/open_timers.ts";

/** Events that the test sends one by one. */
class SentEvents implements TaskEvents<ChatEvent> {
  readonly #stream = new TransformStream<ChatEvent, ChatEvent>();
  readonly #writer = this.#stream.writable.getWriter();
  readonly #events = this.#stream.readable[Symbol.asyncIterator]();
  hasReturned = false;

  send(event: ChatEvent): void {
    this.#writer.write(event);
  }

  end(): void {
    this.#writer.close();
  }

  next(): Promise<IteratorResult<ChatEvent>> {
    return this.#events.next();
  }

  return(): Promise<IteratorResult<ChatEvent>> {
    this.hasReturned = true;
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

const DELTA: ChatEvent = { type: "delta", index: 0, text: "x" };

function getReader(response: Response): ReadableStreamDefaultReader<string> {
  return response.body!.pipeThrough(new TextDecoderStream()).getReader();
}

Deno.test("streamEvents() writes a comment line after each keepAliveMs without events, and loses no event", async () => {
  const events = new SentEvents();
  const reader = getReader(
    streamEvents(events, (event) => `data: ${event.type}\n\n`, { requestId: "r", keepAliveMs: 5 }),
  );
  for (let round = 0; round < 3; round++) {
    assert.equal((await reader.read()).value, ": keep-alive\n");
  }
  events.send(DELTA);
  events.send(DELTA);
  events.end();
  let rest = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) rest += read.value;
  const written = rest.split("\n").filter((line) => !line.startsWith(":"));
  assert.deepEqual(written, ["data: delta", "", "data: delta", "", ""]);
});

Deno.test("streamEvents() loses no event with clients that ignore blocks that begin with a comment", async () => {
  const events = new SentEvents();
  const options = { requestId: "r", keepAliveMs: 5, emptyEvent: "data: empty\n\n" };
  const reader = getReader(streamEvents(events, (event) => `data: ${event.type}\n\n`, options));
  assert.equal((await reader.read()).value, ": keep-alive\n");
  events.send(DELTA);
  events.end();
  let text = ": keep-alive\n";
  for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
  // Reads the stream like Dify.
  const read = text.split("\n\n").filter((piece) => piece !== "" && !piece.startsWith(":"));
  assert.deepEqual(read, ["data: delta"]);
  assert.deepEqual(text.match(/^data: .*$/gm), ["data: empty", "data: delta"]);
});

Deno.test("streamEvents() leaves no timer", async () => {
  using timers = new OpenTimers("/http/sse.ts");
  const events = new SentEvents();
  const response = streamEvents(events, () => "data: x\n\n", { requestId: "r" });
  events.send(DELTA);
  events.send(DELTA);
  events.end();
  assert.equal(await response.text(), "data: x\n\n".repeat(2));
  assert.equal(timers.count, 0);
});

Deno.test("streamEvents() ends the events when its reader disconnects in a pause", async () => {
  const events = new SentEvents();
  const reader = getReader(streamEvents(events, () => "", { requestId: "r", keepAliveMs: 5 }));
  await reader.read();
  await reader.cancel();
  assert.ok(events.hasReturned);
});

Deno.test("waitForAdmission() throws the error of a refused request", async () => {
  const events = new SentEvents();
  events.send({ type: "error", error: { kind: "invalid_value", message: "no" } });
  await assert.rejects(waitForAdmission(events), { kind: "invalid_value" });
});

Deno.test("waitForAdmission() does not wait for a busy worker, and keeps its first event", async () => {
  const events = new SentEvents();
  const admitted = await waitForAdmission(events, 1);
  events.send(DELTA);
  assert.deepEqual((await admitted.next()).value, DELTA);
});
