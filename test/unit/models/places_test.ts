import assert from "node:assert/strict";
import { Places } from "../../../src/models/places.ts";

const never = new AbortController().signal;

Deno.test("Places gives each place once, and a freed one to the first who waits", async () => {
  const places = new Places(2);
  const taken = [await places.take(never), await places.take(never)];
  assert.deepEqual(taken.toSorted(), [0, 1]);
  const order: string[] = [];
  const first = places.take(never).then((place) => (order.push("first"), place));
  const second = places.take(never).then((place) => (order.push("second"), place));
  assert.deepEqual([places.numTaken, places.numWaiting], [2, 2]);
  places.giveBack(1);
  assert.equal(await first, 1);
  places.giveBack(0);
  assert.equal(await second, 0);
  assert.deepEqual(order, ["first", "second"]);
  places.giveBack(0);
  places.giveBack(1);
  assert.equal(places.numTaken, 0);
});

Deno.test("Places lets those go who do not want to wait any longer", async () => {
  const places = new Places(1);
  await places.take(never);
  const controller = new AbortController();
  const waiting = places.take(controller.signal);
  const next = places.take(never);
  controller.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  assert.equal(places.numWaiting, 1);
  places.giveBack(0);
  assert.equal(await next, 0);
  await assert.rejects(places.take(controller.signal), { name: "AbortError" });
});
