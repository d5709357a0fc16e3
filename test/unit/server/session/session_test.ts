import assert from "node:assert/strict";
import { Session } from "../../../../src/server/session/session.ts";
import type { SessionState } from "../../../../src/server/session/supervisor.ts";
import type { ChatEvent, ChatTask, GenerationOptions } from "../../../../src/models/task.ts";
import { fragileSpawner } from "../../../fixtures/threads/fragile.ts";
import { loadOptions } from "../../../fixtures/servers/server.ts";

function task(options: Partial<GenerationOptions> = {}): ChatTask {
  return {
    type: "chat",
    requestId: "test",
    messages: [{ role: "user", content: "What is the capital of France?" }],
    options: { stop: [], n: 1, temperature: 0, maxTokens: 4, ...options },
  };
}

/** A task that would not end within a test. */
const ENDLESS_TASK = task({ maxTokens: 2000, logitBias: [[2039, -100], [2041, -100]] });

/** The session's timeout for a worker's metrics. */
const METRICS_TIMEOUT_MS = 1_000;

/** A started session with real workers, and a fault for each worker in order. */
function openSession(
  faults: readonly string[] = [],
  { maxQueue = 4, workerTimeoutSeconds }: { maxQueue?: number; workerTimeoutSeconds?: number } = {},
) {
  const { workers, spawnWorker } = fragileSpawner(...faults);
  const session = new Session({
    load: loadOptions(),
    maxQueue,
    spawnWorker,
    ...(workerTimeoutSeconds === undefined ? {} : { workerTimeoutSeconds }),
  });
  const phases: SessionState["phase"][] = [];
  session.onStateChange(({ phase }) => {
    if (phases.at(-1) !== phase) phases.push(phase);
  });
  session.start();
  return {
    session,
    workers,
    phases,
    [Symbol.asyncDispose]: () => session.stop(),
  };
}

/** Ends timers of the given milliseconds immediately, until it is disposed. */
function hurryTimers(...delays: readonly number[]): Disposable {
  const { setTimeout } = globalThis;
  globalThis.setTimeout =
    ((run: () => void, ms: number) =>
      setTimeout(run, delays.includes(ms) ? 0 : ms)) as typeof setTimeout;
  return { [Symbol.dispose]: () => void (globalThis.setTimeout = setTimeout) };
}

async function finishReason(events: AsyncIterable<ChatEvent>): Promise<string> {
  for await (const event of events) {
    if (event.type === "finish") return event.reason;
    if (event.type === "error") return event.error.message;
  }
  return "nothing";
}

Deno.test("Session loads, serves a request and stops", async () => {
  await using opened = openSession();
  const { session } = opened;
  assert.throws(() => session.stream(task()), { kind: "model_not_loaded" });
  const info = await session.ready();
  assert.equal(info.kind, "text");
  assert.equal(session.capacity, info.maxSequences + 4);
  const events = await Array.fromAsync(session.stream(task()));
  assert.equal(events.at(0)?.type, "start");
  assert.equal(events.at(-1)?.type, "done");
  assert.equal(session.numInFlight, 0);
  await session.stop();
  assert.deepEqual(opened.phases, ["loading", "ready", "stopping"]);
  assert.throws(() => session.stream(task()), {
    kind: "shutting_down",
    message: "shutting down",
  });
});

Deno.test("Session.stream() immediately refuses requests beyond the queue, and admits again when there is room", async () => {
  await using opened = openSession([], { maxQueue: 1 });
  const { session } = opened;
  await session.ready();
  const streams = Array.from({ length: session.capacity }, () => session.stream(ENDLESS_TASK));
  assert.throws(() => session.stream(task()), { kind: "overloaded" });
  await streams[0]!.return();
  const later = session.stream(task());
  for (const stream of streams) await stream.return();
  assert.equal(await finishReason(later), "length");
  assert.equal(session.numInFlight, 0);
});

Deno.test("Session replaces a worker that dies, and ends its requests with an error", async () => {
  await using opened = openSession(["crash-on=request"]);
  const { session, phases } = opened;
  await session.ready();
  const events = await Array.fromAsync(session.stream(task()));
  assert.equal(events.length, 1);
  assert.ok(events[0]!.type === "error" && events[0]!.error.kind === "model_not_loaded");
  assert.equal(session.numInFlight, 0);
  await session.ready();
  assert.equal(session.numLosses, 1);
  assert.equal(await finishReason(session.stream(task())), "length");
  assert.deepEqual(phases, ["loading", "ready", "loading", "ready"]);
});

Deno.test("Session gives up if every worker is lost while it loads", async () => {
  const policyLosses = 6;
  // Shortens the waits before restarts, except the wait of 1 s: the timeout for a lost worker's end is also 1 s.
  using _waits = hurryTimers(500, 2_000, 4_000);
  await using opened = openSession(Array(policyLosses).fill("lose-on=load"));
  const { session, workers } = opened;
  await assert.rejects(session.ready(), { kind: "model_not_loaded", message: /lost to order/ });
  assert.equal(session.state.phase, "failed");
  assert.equal(workers.length, policyLosses);
});

Deno.test("Session reports why a model cannot be loaded, to the start and to later requests", async () => {
  const { spawnWorker } = fragileSpawner();
  const folder = "/does-not-exist/hearth";
  const session = new Session({ load: loadOptions({ folder }), maxQueue: 1, spawnWorker });
  session.start();
  await assert.rejects(session.ready(), { kind: "model_not_loaded", message: /does-not-exist/ });
  assert.equal(session.state.phase, "failed");
  assert.throws(() => session.stream(task()), {
    kind: "model_not_loaded",
    message: /does-not-exist/,
  });
  await session.stop();
});

Deno.test("Session.metrics() continues without a worker that does not answer", async () => {
  await using opened = openSession(["deaf-to=metrics"]);
  assert.deepEqual(await opened.session.metrics(), []);
  await opened.session.ready();
  using _timeout = hurryTimers(METRICS_TIMEOUT_MS);
  assert.deepEqual(await opened.session.metrics(), []);
});

Deno.test("Session.metrics() returns the worker's metrics, or the last reported ones if it does not answer", async () => {
  await using opened = openSession();
  const { session, workers } = opened;
  await session.ready();
  await finishReason(session.stream(task()));
  const figures = await session.metrics();
  assert.ok(figures.some(({ name }) => name === "hearth_completion_tokens_total"));
  workers[0]!.postMessage({ type: "go-deaf", to: "metrics" });
  using _timeout = hurryTimers(METRICS_TIMEOUT_MS);
  assert.deepEqual(await session.metrics(), figures);
});

Deno.test("Session.stop() ends requests with an error, even if the worker does not respond", async () => {
  await using opened = openSession(["deaf-to=stop"]);
  const { session } = opened;
  await session.ready();
  const stream = session.stream(ENDLESS_TASK);
  await stream.next();
  await session.stop();
  const last = (await Array.fromAsync(stream)).at(-1);
  assert.deepEqual(last, {
    type: "error",
    error: { kind: "shutting_down", message: "shutting down", param: undefined },
  });
  assert.equal(session.numInFlight, 0);
});

Deno.test("Session.stop() directly after a loss terminates no thread if the process is about to end", async () => {
  const { workers, spawnWorker } = fragileSpawner("lose-on=request");
  const session = new Session({
    load: loadOptions(),
    maxQueue: 1,
    spawnWorker,
    exitsAfterStop: true,
  });
  session.start();
  await session.ready();
  const [worker] = workers;
  let numTerminations = 0;
  const terminate = worker!.terminate.bind(worker);
  worker!.terminate = () => void numTerminations++;
  const released = new Promise<void>((resolve) => {
    worker!.addEventListener("message", ({ data }) => data.type === "stopped" && resolve());
  });
  session.onStateChange(({ phase }) => {
    if (phase === "loading") void session.stop();
  });
  assert.match(await finishReason(session.stream(task())), /shutting down/);
  await released;
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.equal(numTerminations, 0);
  terminate();
});

Deno.test("Session.drain() refuses new requests and lets those in flight finish", async () => {
  await using opened = openSession();
  const { session } = opened;
  await session.ready();
  const running = session.stream(task());
  session.drain();
  assert.throws(() => session.stream(task()), {
    kind: "shutting_down",
    message: "shutting down",
  });
  assert.equal(await finishReason(running), "length");
});

Deno.test("Session.stop() while the model loads leaves nothing running", async () => {
  await using opened = openSession();
  const waiting = assert.rejects(opened.session.ready(), { message: "shutting down" });
  await opened.session.stop();
  await waiting;
});

Deno.test("Session replaces a worker that stops answering, and ends its requests with an error", async () => {
  await using opened = openSession(["hang-on=request"], { workerTimeoutSeconds: 2 });
  const { session, phases } = opened;
  await session.ready();
  const events = await Array.fromAsync(session.stream(task()));
  assert.equal(events.length, 1);
  assert.ok(events[0]!.type === "error" && events[0]!.error.kind === "model_not_loaded");
  assert.match(events[0]!.error.message, /did not answer \(--worker-timeout 2\)/);
  await session.ready();
  assert.deepEqual([session.numLosses, session.numSilent], [1, 1]);
  assert.equal(await finishReason(session.stream(task())), "length");
  assert.deepEqual(phases, ["loading", "ready", "loading", "ready"]);
});
