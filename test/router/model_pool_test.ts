import assert from "node:assert/strict";
import type { HearthError } from "../../src/base/errors.ts";
import type { ModelAddress } from "../../src/router/model_process.ts";
import { type Lease, ModelPool } from "../../src/router/model_pool.ts";
import type { RoutedModel } from "../../src/router/routed_model.ts";

const [A, B, C] = ["a", "b", "c"].map((id): RoutedModel => ({
  ...{ id, aliases: [], ownedBy: "test", kind: "text", args: [] },
})) as [RoutedModel, RoutedModel, RoutedModel];

/** Processes that the test controls, and a log of their events. */
class Processes {
  readonly events: string[] = [];
  /** Bytes of memory of each model, by id. */
  readonly bytes = new Map<string, number>();
  readonly #running = new Map<string, {
    readonly ready: PromiseWithResolvers<ModelAddress>;
    readonly ended: PromiseWithResolvers<void>;
  }>();

  readonly start = ({ id }: RoutedModel) => {
    this.events.push(`start ${id}`);
    const process = {
      ready: Promise.withResolvers<ModelAddress>(),
      ended: Promise.withResolvers<void>(),
    };
    assert.equal(this.#running.has(id), false, "a model has at most one process");
    this.#running.set(id, process);
    const stop = () => {
      this.events.push(`stop ${id}`);
      this.end(id);
    };
    const memoryBytes = () => this.bytes.get(id);
    return { ready: process.ready.promise, ended: process.ended.promise, stop, memoryBytes };
  };

  ready(id: string): void {
    this.#running.get(id)!.ready.resolve({ url: `http://${id}`, kind: "text" } as ModelAddress);
  }

  end(id: string): void {
    const { ready, ended } = this.#running.get(id)!;
    ready.promise.catch(() => {});
    ready.reject(new Error("ended"));
    this.#running.delete(id);
    ended.resolve();
  }
}

function makePool(options: { maxLoaded?: number; maxBytes?: number; idleMs?: number } = {}) {
  const processes = new Processes();
  const pool = new ModelPool({
    models: [A, B, C],
    maxLoaded: 2,
    maxBytes: Infinity,
    start: processes.start,
    ...options,
  });
  const { signal } = new AbortController();
  const acquire = (model: RoutedModel) => pool.acquire(model, signal);
  return { processes, pool, acquire };
}

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

async function load(
  { processes, acquire }: ReturnType<typeof makePool>,
  model: RoutedModel,
): Promise<Lease> {
  const lease = acquire(model);
  await settle();
  processes.ready(model.id);
  return await lease;
}

Deno.test("ModelPool.acquire() starts a model once for all waiting callers", async () => {
  const test = makePool();
  const leases = [test.acquire(A), test.acquire(A), test.acquire(A)];
  test.processes.ready("a");
  for (const lease of await Promise.all(leases)) assert.equal(lease.address.url, "http://a");
  assert.deepEqual(test.processes.events, ["start a"]);
  assert.equal(test.pool.states[0]!.numInUse, 3);
});

Deno.test("ModelPool.acquire() ends the idle model used least recently", async () => {
  const test = makePool();
  using _inUse = await load(test, A);
  (await load(test, B))[Symbol.dispose]();
  // A was used earlier than B, but is busy.
  (await load(test, C))[Symbol.dispose]();
  assert.deepEqual(test.processes.events, ["start a", "start b", "stop b", "start c"]);
});

Deno.test("ModelPool.acquire() lets a busy model finish its requests, and gives it no new ones, if another model waits", async () => {
  const test = makePool({ maxLoaded: 1 });
  const first = await load(test, A);
  const second = test.acquire(B);
  // If A took this request too, B would wait forever.
  const third = test.acquire(A);
  await settle();
  assert.deepEqual(test.processes.events, ["start a"]);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  await settle();
  assert.deepEqual(test.processes.events, ["start a", "stop a", "start b"]);
  test.processes.ready("b");
  (await second)[Symbol.dispose]();
  await settle();
  test.processes.ready("a");
  (await third)[Symbol.dispose]();
  assert.deepEqual(test.processes.events.slice(3), ["stop b", "start a"]);
});

Deno.test("ModelPool.acquire() rejects callers that wait for a model that does not start, and starts it again for the next", async () => {
  const test = makePool();
  const waiting = [test.acquire(A), test.acquire(A)];
  test.processes.end("a");
  for (const lease of waiting) {
    await assert.rejects(lease, (error: HearthError) => error.kind === "model_not_loaded");
  }
  assert.equal(test.pool.states[0]!.failure, "ended");
  (await load(test, A))[Symbol.dispose]();
  assert.equal(test.pool.states[0]!.failure, undefined);
});

Deno.test("ModelPool counts a process that ends unexpectedly, and restarts it for the next request", async () => {
  const test = makePool();
  const lost = await load(test, A);
  test.processes.end("a");
  await settle();
  assert.equal(test.pool.states[0]!.numLosses, 1);
  using _next = await load(test, A);
  // This lease belongs to the process that has ended.
  lost[Symbol.dispose]();
  assert.equal(test.pool.states[0]!.numInUse, 1);
});

Deno.test("ModelPool.acquire() forgets a cancelled caller, and starts nothing without callers", async () => {
  const test = makePool({ maxLoaded: 1 });
  const lease = await load(test, A);
  const controller = new AbortController();
  const left = test.pool.acquire(B, controller.signal);
  controller.abort();
  await assert.rejects(left, { name: "AbortError" });
  assert.equal(test.pool.states[1]!.numWaiting, 0);
  lease[Symbol.dispose]();
  await settle();
  assert.equal(test.processes.events.includes("start b"), false);
});

Deno.test("ModelPool ends a model after its idle time", async () => {
  const test = makePool({ idleMs: 20 });
  const lease = await load(test, A);
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.deepEqual(test.processes.events, ["start a"]);
  lease[Symbol.dispose]();
  while (test.pool.states[0]!.status !== "unloaded") await settle();
  assert.deepEqual(test.processes.events, ["start a", "stop a"]);
});

Deno.test("ModelPool.close() refuses waiting callers and ends all processes", async () => {
  const test = makePool();
  using _lease = await load(test, A);
  const waiting = assert.rejects(
    test.acquire(B),
    (error: HearthError) => error.kind === "shutting_down",
  );
  await test.pool.close();
  await waiting;
  await assert.rejects(test.acquire(A), (error: HearthError) => error.kind === "shutting_down");
  assert.deepEqual(test.processes.events.slice(-2), ["stop a", "stop b"]);
});

Deno.test("ModelPool never runs more than maxLoaded models for 200 simultaneous requests", async () => {
  const test = makePool({ maxLoaded: 2 });
  const { pool, processes } = test;
  let numDone = 0;
  const clients = Array.from({ length: 200 }, async (_, n) => {
    const lease = await test.acquire([A, B, C][(n * 7 + (n >> 3)) % 3]!);
    await settle();
    lease[Symbol.dispose]();
    numDone++;
  });
  while (numDone < clients.length) {
    const running = pool.states.filter(({ status }) => status !== "unloaded");
    assert.ok(running.length <= 2);
    for (const { model, status } of running) if (status === "loading") processes.ready(model.id);
    await settle();
  }
  await Promise.all(clients);
  assert.deepEqual(pool.states.map(({ numInUse }) => numInUse), [0, 0, 0]);
});

Deno.test("ModelPool ends models, the least recently used first, until there is enough memory for another", async () => {
  const test = makePool({ maxLoaded: 3, maxBytes: 100 });
  for (const [id, bytes] of [["a", 30], ["b", 60], ["c", 50]] as const) {
    test.processes.bytes.set(id, bytes);
  }
  for (const model of [A, B]) (await load(test, model))[Symbol.dispose]();
  assert.deepEqual(test.processes.events, ["start a", "start b"]);
  // The memory of C is only known after loading.
  (await load(test, C))[Symbol.dispose]();
  await settle();
  assert.deepEqual(test.processes.events.slice(2), ["start c", "stop a", "stop b"]);
  // Now that it is known, A is loaded together with C, but C ends before B is loaded.
  (await load(test, A))[Symbol.dispose]();
  assert.deepEqual(test.processes.events.slice(5), ["start a"]);
  (await load(test, B))[Symbol.dispose]();
  assert.deepEqual(test.processes.events.slice(6), ["stop c", "start b"]);
  assert.deepEqual(test.pool.states.map(({ bytes }) => bytes), [30, 60, 50]);
});

Deno.test("ModelPool loads a model that needs more than maxBytes if it runs alone", async () => {
  const test = makePool({ maxLoaded: 3, maxBytes: 100 });
  test.processes.bytes.set("a", 500);
  (await load(test, A))[Symbol.dispose]();
  await settle();
  // A alone exceeds the limit. It stays loaded until another model is requested.
  assert.deepEqual(test.processes.events, ["start a"]);
  using _lease = await load(test, B);
  await settle();
  assert.deepEqual(test.processes.events, ["start a", "stop a", "start b"]);
  const again = test.acquire(A);
  await settle();
  assert.deepEqual(test.processes.events.slice(3), []);
  _lease[Symbol.dispose]();
  await settle();
  test.processes.ready("a");
  (await again)[Symbol.dispose]();
  assert.deepEqual(test.processes.events.slice(3), ["stop b", "start a"]);
});
