import assert from "node:assert/strict";
import { Semaphore } from "../../../src/models/semaphore.ts";

const never = new AbortController().signal;

Deno.test("Semaphore gives each permit once, and a freed one to the first who waits", async () => {
  const semaphore = new Semaphore(2);
  const taken = [await semaphore.acquire(never), await semaphore.acquire(never)];
  assert.deepEqual(taken.toSorted(), [0, 1]);
  const order: string[] = [];
  const first = semaphore.acquire(never).then((permit) => (order.push("first"), permit));
  const second = semaphore.acquire(never).then((permit) => (order.push("second"), permit));
  assert.deepEqual([semaphore.numAcquired, semaphore.numWaiting], [2, 2]);
  semaphore.release(1);
  assert.equal(await first, 1);
  semaphore.release(0);
  assert.equal(await second, 0);
  assert.deepEqual(order, ["first", "second"]);
  semaphore.release(0);
  semaphore.release(1);
  assert.equal(semaphore.numAcquired, 0);
});

Deno.test("Semaphore lets those go who do not want to wait any longer", async () => {
  const semaphore = new Semaphore(1);
  await semaphore.acquire(never);
  const controller = new AbortController();
  const waiting = semaphore.acquire(controller.signal);
  const next = semaphore.acquire(never);
  controller.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  assert.equal(semaphore.numWaiting, 1);
  semaphore.release(0);
  assert.equal(await next, 0);
  await assert.rejects(semaphore.acquire(controller.signal), { name: "AbortError" });
});
