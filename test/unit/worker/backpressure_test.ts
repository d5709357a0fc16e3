import assert from "node:assert/strict";
import { Backpressure } from "../../../src/worker/protocol.ts";

/** Whether a promise is already resolved. */
async function isOver(promise: Promise<void>): Promise<boolean> {
  return await Promise.race([promise.then(() => true), Promise.resolve(false).then((no) => no)]);
}

Deno.test("Backpressure.sent() makes the sender wait after the event that fills the queue", async () => {
  const backpressure = new Backpressure(2);
  assert.ok(await isOver(backpressure.sent()));
  const second = backpressure.sent();
  assert.ok(!await isOver(second));
  backpressure.taken();
  assert.ok(await isOver(second));
  const third = backpressure.sent();
  assert.ok(!await isOver(third));
  backpressure.taken();
  backpressure.taken();
  assert.ok(await isOver(third));
  assert.ok(await isOver(backpressure.sent()));
});

Deno.test("Backpressure.disable() releases a waiting sender, and never makes it wait again", async () => {
  const backpressure = new Backpressure(1);
  const held = backpressure.sent();
  assert.ok(!await isOver(held));
  backpressure.disable();
  assert.ok(await isOver(held));
  assert.ok(await isOver(backpressure.sent()));
  backpressure.taken();
  assert.ok(await isOver(backpressure.sent()));
});
