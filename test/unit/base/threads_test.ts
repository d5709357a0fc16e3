/** Threads that a worker asks the main thread for. */
import assert from "node:assert/strict";
import { serveThreads } from "../../../src/base/threads.ts";

const GREETING = new URL("../../fixtures/threads/greeting_thread.ts", import.meta.url);
const NOWHERE = new URL("../fixtures/nowhere.ts", import.meta.url);

/** A worker that has asked for a thread. */
function askFor(module: URL) {
  const worker = new Worker(new URL("../../fixtures/threads/starting_worker.ts", import.meta.url), {
    type: "module",
  });
  const threads = new MessageChannel();
  const greeting = new MessageChannel();
  const message = { module: module.href, threads: threads.port2, port: greeting.port2 };
  worker.postMessage(message, [threads.port2, greeting.port2]);
  return {
    threads: threads.port1,
    greeted: nextMessage(greeting.port1),
    ended: nextMessage(worker),
    [Symbol.dispose]: () => {
      worker.terminate();
      threads.port1.close();
      greeting.port1.close();
    },
  };
}

function nextMessage(from: MessagePort | Worker): Promise<unknown> {
  return new Promise((resolve) => from.onmessage = ({ data }: MessageEvent) => resolve(data));
}

// Threads of Node end some time after the request to stop.
const options = { sanitizeResources: false, sanitizeOps: false };

Deno.test("startThread() in a worker has the main thread start it", options, async () => {
  using asked = askFor(GREETING);
  const asking = nextMessage(asked.threads);
  const { type, module } = await asking as { readonly type: string; readonly module: string };
  assert.deepEqual([type, module], ["start", GREETING.href]);
});

Deno.test(
  "serveThreads() passes on data and ports, and reports why a thread ended",
  options,
  async () => {
    using asked = askFor(GREETING);
    serveThreads(asked.threads);
    assert.equal(await asked.greeted, "hello");
    assert.equal(await asked.ended, "no more to say");
  },
);

Deno.test("serveThreads() reports a thread that does not start", options, async () => {
  using asked = askFor(NOWHERE);
  serveThreads(asked.threads);
  assert.match(String(await asked.ended), /nowhere\.ts/);
});
