import assert from "node:assert/strict";
import { Semaphore } from "../../../src/models/threads/semaphore.ts";

const never = new AbortController().signal;

/** Waits for permits, and records the order in which they are granted. */
function recordOrder(semaphore: Semaphore) {
  const order: string[] = [];
  const wait = async (name: string, work: number) => {
    const permit = await semaphore.acquire(never, { work });
    order.push(name);
    semaphore.release(permit);
  };
  return { order, wait };
}

Deno.test("Semaphore gives each permit to one holder, and a freed permit to the first waiter", async () => {
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

Deno.test("Semaphore removes waiters that are aborted", async () => {
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

Deno.test("Semaphore serves small work before large work that waits, at most 32 times", async () => {
  const semaphore = new Semaphore(1);
  await semaphore.acquire(never);
  const { order, wait } = recordOrder(semaphore);
  const waiting = [wait("large", 64), wait("middle", 8), wait("small", 1), wait("small too", 1)];
  semaphore.release(0);
  await Promise.all(waiting);
  assert.deepEqual(order, ["small", "small too", "middle", "large"]);
  await semaphore.acquire(never);
  order.length = 0;
  const many = [wait("large", 64), ...Array.from({ length: 100 }, (_, n) => wait(`small ${n}`, 1))];
  semaphore.release(0);
  await Promise.all(many);
  assert.equal(order.indexOf("large"), 32);
});

Deno.test("Semaphore serves small jobs between large ones, even if all large ones have waited long", async () => {
  const semaphore = new Semaphore(1);
  await semaphore.acquire(never);
  const { order, wait } = recordOrder(semaphore);
  const waiting = [
    ...Array.from({ length: 5 }, () => wait("large", 64)),
    ...Array.from({ length: 100 }, () => wait("small", 1)),
  ];
  semaphore.release(0);
  await Promise.all(waiting);
  assert.deepEqual(
    order.flatMap((name, at) => name === "large" ? [at] : []),
    [32, 65, 98, 103, 104],
  );
});

Deno.test("Semaphore keeps half of its permits for small work", async () => {
  const four = new Semaphore(4, { maxSmall: 10 });
  for (let n = 0; n < 3; n++) four.acquire(never, { work: 11 });
  assert.deepEqual([four.numAcquired, four.numWaiting], [2, 1]);
  for (let n = 0; n < 3; n++) four.acquire(never, { work: 10 });
  assert.deepEqual([four.numAcquired, four.numWaiting], [4, 2]);
  const semaphore = new Semaphore(2, { maxSmall: 10 });
  const large = await semaphore.acquire(never, { work: 11 });
  const second = semaphore.acquire(never, { work: 11 });
  assert.equal(semaphore.numWaiting, 1);
  const small = await semaphore.acquire(never, { work: 10 });
  semaphore.release(small);
  assert.equal(semaphore.numWaiting, 1);
  semaphore.release(large);
  semaphore.release(await second);
  const alone = new Semaphore(1, { maxSmall: 10 });
  alone.release(await alone.acquire(never, { work: 11 }));
  assert.deepEqual([semaphore.numAcquired, alone.numAcquired], [0, 0]);
});
