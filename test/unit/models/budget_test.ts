import assert from "node:assert/strict";
import { Budget } from "../../../src/models/budget.ts";

const never = new AbortController().signal;

/** Whether a promise has been settled by now. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const pending = {};
  for (let i = 0; i < 5; i++) await Promise.resolve();
  return await Promise.race([promise.catch(() => {}), Promise.resolve(pending)]) !== pending;
}

Deno.test("Budget.take() lets in who fits, in the order they came", async () => {
  const budget = new Budget(10);
  const giveBackSix = await budget.take(6, never);
  const five = budget.take(5, never);
  const one = budget.take(1, never);
  assert.equal(await isSettled(five), false);
  assert.equal(await isSettled(one), false, "whoever wants little does not overtake");
  assert.deepEqual([budget.numTaken, budget.numWaiting], [1, 2]);
  giveBackSix();
  (await five)();
  (await one)();
  assert.deepEqual([budget.numTaken, budget.numWaiting], [0, 0]);
  (await budget.take(10, never))();
});

Deno.test("Budget.take() gives all of it to who wants more than there is", async () => {
  const budget = new Budget(10);
  const giveBack = await budget.take(1000, never);
  assert.equal(await isSettled(budget.take(1, never)), false);
  giveBack();
  assert.equal(budget.numTaken, 1);
});

Deno.test("Budget.take() lets the next one in when the first leaves the queue", async () => {
  const budget = new Budget(10);
  const giveBack = await budget.take(6, never);
  const controller = new AbortController();
  const large = budget.take(8, controller.signal);
  const small = budget.take(3, never);
  assert.equal(await isSettled(small), false);
  controller.abort();
  await assert.rejects(large, { name: "AbortError" });
  (await small)();
  giveBack();
  assert.deepEqual([budget.numTaken, budget.numWaiting], [0, 0]);
  await assert.rejects(budget.take(1, controller.signal), { name: "AbortError" });
  assert.equal(budget.numWaiting, 0);
});
