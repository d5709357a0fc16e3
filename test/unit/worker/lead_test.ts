import assert from "node:assert/strict";
import { Lead } from "../../../src/worker/lead.ts";

/** Whether a promise has been resolved by now. */
async function isOver(promise: Promise<void>): Promise<boolean> {
  return await Promise.race([promise.then(() => true), Promise.resolve(false).then((no) => no)]);
}

Deno.test("Lead.grow() holds the sender back from the piece that makes it too long", async () => {
  const lead = new Lead(2);
  assert.ok(await isOver(lead.grow()));
  const second = lead.grow();
  assert.ok(!await isOver(second));
  lead.shrink();
  assert.ok(await isOver(second));
  const third = lead.grow();
  assert.ok(!await isOver(third));
  lead.shrink();
  lead.shrink();
  assert.ok(await isOver(third));
  assert.ok(await isOver(lead.grow()));
});

Deno.test("Lead.forget() lets the sender go, now and later", async () => {
  const lead = new Lead(1);
  const held = lead.grow();
  assert.ok(!await isOver(held));
  lead.forget();
  assert.ok(await isOver(held));
  assert.ok(await isOver(lead.grow()));
  lead.shrink();
  assert.ok(await isOver(lead.grow()));
});
