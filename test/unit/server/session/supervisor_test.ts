import assert from "node:assert/strict";
import { RestartPolicy } from "../../../../src/server/session/supervisor.ts";

const MINUTE_MS = 60_000;

Deno.test("RestartPolicy.recordLoss() begins without a wait, doubles it from 500 ms on, and gives up at the sixth loss", () => {
  const policy = new RestartPolicy();
  const waits = Array.from({ length: 6 }, (_, second) => policy.recordLoss(second * 1000));
  assert.deepEqual(waits, [0, 500, 1000, 2000, 4000, undefined]);
});

Deno.test("RestartPolicy.recordLoss() forgets a loss after five minutes", () => {
  const policy = new RestartPolicy();
  assert.equal(policy.recordLoss(0), 0);
  assert.equal(policy.recordLoss(5 * MINUTE_MS - 1), 500);
  assert.equal(policy.recordLoss(5 * MINUTE_MS), 500);
  assert.equal(policy.recordLoss(11 * MINUTE_MS), 0);
  // One loss per minute is never more than five in the window.
  const waits = Array.from({ length: 60 }, (_, n) => policy.recordLoss((20 + n) * MINUTE_MS));
  assert.ok(waits.every((wait) => wait !== undefined));
});
