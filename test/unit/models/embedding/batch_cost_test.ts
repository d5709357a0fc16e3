import assert from "node:assert/strict";
import { BatchCost } from "../../../../src/models/embedding/text_queue.ts";
import { Random } from "../../engine/random.ts";

/** Records batches of many sizes with a time of `msPerRun + msPerToken * tokens`, within a tenth. */
function teach(cost: BatchCost, { msPerRun, msPerToken }: Record<string, number>): void {
  const random = new Random(3);
  for (let batch = 0; batch < 200; batch++) {
    const numTokens = random.between(10, 2000);
    const noise = random.between(90, 110) / 100;
    cost.observe(numTokens, (msPerRun! + msPerToken! * numTokens) * noise);
  }
}

Deno.test("BatchCost.limits() makes batches that take about 60 ms", () => {
  const cost = new BatchCost();
  teach(cost, { msPerRun: 1, msPerToken: 0.05 });
  const { maxTokens } = cost.limits(8);
  assert.ok(maxTokens > 900 && maxTokens < 1300, `${maxTokens}`);
});

Deno.test("BatchCost.limits() allows as much padding as a run costs", () => {
  const cost = new BatchCost();
  teach(cost, { msPerRun: 20, msPerToken: 0.1 });
  const { maxPadding = 0 } = cost.limits(8);
  assert.ok(maxPadding > 120 && maxPadding < 280, `${maxPadding}`);
});

Deno.test("BatchCost.limits() stays within bounds for unusually fast or slow devices", () => {
  const fast = new BatchCost();
  teach(fast, { msPerRun: 1, msPerToken: 1e-6 });
  assert.deepEqual(fast.limits(8), { maxTexts: 8, maxTokens: 16_384, maxPadding: 512 });
  const slow = new BatchCost();
  teach(slow, { msPerRun: 0, msPerToken: 50 });
  assert.equal(slow.limits(8).maxTokens, 256);
});

Deno.test("BatchCost.limits() does not enlarge batches on a machine that is temporarily busy", () => {
  const cost = new BatchCost();
  const random = new Random(5);
  for (let batch = 0; batch < 300; batch++) {
    const numTokens = random.between(10, 500);
    const isDisturbed = random.chance(0.3);
    cost.observe(numTokens, 0.5 + 0.05 * numTokens + (isDisturbed ? random.between(5, 60) : 0));
    const { maxTokens, maxPadding = Infinity } = cost.limits(8);
    assert.ok(batch < 5 || maxPadding < 100, `${maxPadding} after ${batch}`);
    assert.ok(maxTokens < 1600, `${maxTokens} after ${batch}`);
  }
});

Deno.test("BatchCost.limits() allows a little padding if disturbed large batches hide the cost of a run", () => {
  const cost = new BatchCost();
  for (let batch = 0; batch < 40; batch++) {
    const numTokens = 100 + 20 * (batch % 20);
    const disturbedMs = numTokens > 300 ? numTokens / 4 : 0;
    cost.observe(numTokens, 3 + 0.13 * numTokens + disturbedMs);
  }
  const { maxPadding = 0 } = cost.limits(8);
  assert.ok(maxPadding >= 8 && maxPadding < 32, `${maxPadding}`);
});

Deno.test("BatchCost soon forgets a slow start", () => {
  const cost = new BatchCost();
  for (let batch = 0; batch < 10; batch++) cost.observe(500, 400);
  teach(cost, { msPerRun: 1, msPerToken: 0.03 });
  assert.ok(cost.limits(8).maxTokens > 1500);
});

Deno.test("BatchCost learns no constant cost of a run from batches of one size", () => {
  const cost = new BatchCost();
  const { maxPadding = 0 } = cost.limits(8);
  for (let batch = 0; batch < 50; batch++) cost.observe(500, batch % 2 === 0 ? 20 : 30);
  assert.equal(cost.limits(8).maxPadding, maxPadding);
});

Deno.test("BatchCost.limits() respects a configured number of tokens", () => {
  const cost = new BatchCost(64);
  teach(cost, { msPerRun: 1, msPerToken: 0.01 });
  assert.equal(cost.limits(8).maxTokens, 64);
});
