import assert from "node:assert/strict";
import { Backpressure } from "../../../src/worker/protocol.ts";

/** Whether a promise has been resolved by now. */
async function isOver(promise: Promise<void>): Promise<boolean> {
  return await Promise.race([promise.then(() => true), Promise.resolve(false).then((no) => no)]);
}

Deno.test("Backpressure.sent() holds the sender back from the piece that makes it too long", async () => {
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

Deno.test("Backpressure.disable() lets the sender go, now and later", async () => {
  const backpressure = new Backpressure(1);
  const held = backpressure.sent();
  assert.ok(!await isOver(held));
  backpressure.disable();
  assert.ok(await isOver(held));
  assert.ok(await isOver(backpressure.sent()));
  backpressure.taken();
  assert.ok(await isOver(backpressure.sent()));
});
