import assert from "node:assert/strict";
import { Budget } from "../../../src/models/threads/semaphore.ts";

const never = new AbortController().signal;

/** Whether a promise is settled. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const note = () => settled = true;
  promise.then(note, note);
  for (let i = 0; i < 10; i++) await Promise.resolve();
  return settled;
}

Deno.test("Budget.take() admits requests that fit: small ones before large ones", async () => {
  const budget = new Budget(10);
  const giveBackSix = await budget.take(6, never);
  const five = budget.take(5, never);
  const one = budget.take(1, never);
  assert.equal(await isSettled(five), false);
  assert.equal(await isSettled(one), true);
  assert.deepEqual([budget.numTaken, budget.numWaiting], [2, 1]);
  giveBackSix();
  (await five)();
  (await one)();
  assert.deepEqual([budget.numTaken, budget.numWaiting], [0, 0]);
  (await budget.take(10, never))();
});

Deno.test("Budget.take() reserves room for a request that was overtaken too often", async () => {
  const budget = new Budget(10);
  const first = await budget.take(1, never);
  const all = budget.take(10, never);
  for (let n = 0; n < 32; n++) (await budget.take(1, never))();
  assert.equal(await isSettled(all), false);
  const late = budget.take(1, never);
  assert.equal(await isSettled(late), false);
  first();
  assert.equal(await isSettled(all), true);
  assert.equal(await isSettled(late), false);
  (await all)();
  (await late)();
  assert.deepEqual([budget.numTaken, budget.numWaiting], [0, 0]);
});

Deno.test("Budget.take() gives a request that exceeds the total all of it", async () => {
  const budget = new Budget(10);
  const giveBack = await budget.take(1000, never);
  assert.equal(await isSettled(budget.take(1, never)), false);
  giveBack();
  assert.equal(budget.numTaken, 1);
});

Deno.test("Budget.take() admits the next request when the first leaves the queue", async () => {
  const budget = new Budget(10);
  const giveBack = await budget.take(6, never);
  const controller = new AbortController();
  const large = budget.take(8, controller.signal);
  for (let n = 0; n < 32; n++) (await budget.take(1, never))();
  const small = budget.take(3, never);
  assert.equal(await isSettled(small), false, "room is kept for the large one");
  controller.abort();
  await assert.rejects(large, { name: "AbortError" });
  (await small)();
  giveBack();
  assert.deepEqual([budget.numTaken, budget.numWaiting], [0, 0]);
  await assert.rejects(budget.take(1, controller.signal), { name: "AbortError" });
  assert.equal(budget.numWaiting, 0);
});
