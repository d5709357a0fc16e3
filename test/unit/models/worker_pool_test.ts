import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { WorkerPool, WorkerRpc } from "../../../src/models/threads/worker_pool.ts";
import type { NumberedWorker } from "../../fixtures/threads/numbered_worker.ts";

const never = new AbortController().signal;

/** A worker that answers with its own number. */
function startWorker(number: number): WorkerRpc<NumberedWorker> {
  const url = new URL(`../../fixtures/threads/numbered_worker.ts?${number}`, import.meta.url);
  return new WorkerRpc(url, "numbered worker");
}

function open(size: number): WorkerPool<NumberedWorker> {
  let numStarted = 0;
  return new WorkerPool({ size, start: () => startWorker(numStarted++) });
}

Deno.test("WorkerPool starts as many workers as needed, and keeps them", async () => {
  const pool = open(2);
  const ask = () => pool.call("number", undefined, { signal: never });
  assert.equal(await ask(), 0);
  assert.equal(await ask(), 0);
  assert.equal(pool.numWorkers, 1);
  assert.deepEqual((await Promise.all([ask(), ask(), ask()])).toSorted(), [0, 0, 1]);
  assert.equal(pool.numWorkers, 2);
  pool.close();
  assert.equal(pool.numWorkers, 0);
});

Deno.test("WorkerPool keeps a worker that refuses, and replaces one that fails or dies", async () => {
  const pool = open(1);
  const ask = (name: keyof NumberedWorker) => pool.call(name, undefined, { signal: never });
  await assert.rejects(ask("refuse"), { name: "HearthError", message: "not that" });
  assert.equal(await ask("number"), 0);
  await assert.rejects(ask("fail"), /out of order/);
  assert.equal(await ask("number"), 1);
  await assert.rejects(ask("die"), /numbered worker died: .*the worker is broken/);
  assert.equal(await ask("number"), 2);
  pool.close();
});

Deno.test("WorkerPool finishes the work of an aborted request, and keeps the worker", async () => {
  const pool = open(1);
  const abort = new AbortController();
  const slow = pool.call("slow", undefined, { signal: abort.signal });
  const next = pool.call("count", undefined, { signal: never });
  await new Promise((resolve) => setTimeout(resolve));
  abort.abort();
  await assert.rejects(slow, { name: "AbortError" });
  // The worker's own count shows that it is the same worker, and that it had finished.
  assert.equal(await next, 1);
  assert.equal(await pool.call("number", undefined, { signal: never }), 0);
  const dying = pool.call("die", undefined, { signal: AbortSignal.timeout(0) });
  await assert.rejects(dying);
  assert.equal(await pool.call("number", undefined, { signal: never }), 1);
  pool.close();
});

Deno.test("WorkerPool ends idle workers, but not the last", async () => {
  let numStarted = 0;
  const pool = new WorkerPool<NumberedWorker>({
    size: 3,
    idleMs: 20,
    start: () => startWorker(numStarted++),
  });
  const ask = () => pool.call("number", undefined, { signal: never });
  await Promise.all([ask(), ask(), ask()]);
  // On a busy machine the first may have ended before the last has started.
  assert.equal(numStarted, 3);
  while (pool.numWorkers > 1) await new Promise((resolve) => setTimeout(resolve, 5));
  for (let n = 0; n < 2; n++) {
    await new Promise((resolve) => setTimeout(resolve, 60));
    assert.equal(pool.numWorkers, 1);
    await ask();
  }
  assert.equal(numStarted, 3);
  // Workers start again when they are needed.
  await Promise.all([ask(), ask()]);
  assert.equal(numStarted, 4);
  pool.close();
});

Deno.test("WorkerPool also ends the last idle worker if `numKept` is 0", async () => {
  let numStarted = 0;
  const pool = new WorkerPool<NumberedWorker>({
    ...{ size: 2, idleMs: 20, numKept: 0 },
    start: () => startWorker(numStarted++),
  });
  const ask = () => pool.call("number", undefined, { signal: never });
  await Promise.all([ask(), ask()]);
  while (pool.numWorkers > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(await ask(), 2);
  pool.close();
});

Deno.test("WorkerPool.close() rejects running calls", async () => {
  const pool = open(1);
  const hanging = pool.call("hang", undefined, { signal: never });
  await new Promise((resolve) => setTimeout(resolve));
  pool.close();
  await assert.rejects(hanging, /was ended/);
});

Deno.test("WorkerPool does not retain a call's result after the caller releases it", async () => {
  const pool = open(1);
  const given = new WeakRef(await pool.call("array", undefined, { signal: never }) as object);
  // A WeakRef keeps its object until the current job ends.
  await new Promise((resolve) => setTimeout(resolve));
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  assert.equal(given.deref(), undefined);
  pool.close();
});
