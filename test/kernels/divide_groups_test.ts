import assert from "node:assert/strict";
import { divideGroups } from "../../kernels/matmul/row_products.ts";

const SIZES = { usual: 64, least: 6, maxParts: 32 };

Deno.test("divideGroups() gives each thread the same number of parts", () => {
  for (const numThreads of [2, 3, 4, 6, 8, 12, 16, 32]) {
    for (const numGroups of [256, 768, 1024, 37_984]) {
      const groups = divideGroups(numGroups, numThreads, SIZES);
      const numParts = Math.ceil(numGroups / groups);
      // Rounding up groups leaves at most this many parts out of the last rounds.
      const rounds = Math.ceil(numParts / numThreads);
      const busy = numGroups / (rounds * numThreads * groups);
      assert.ok(busy > 0.85, `${numGroups} groups on ${numThreads} threads: ${busy} busy`);
    }
  }
});

Deno.test("divideGroups() makes no part larger for more threads, and no parts of only a few groups", () => {
  for (const numGroups of [1, 5, 32, 64, 100, 256, 5000]) {
    const alone = divideGroups(numGroups, 1, SIZES);
    assert.ok(alone <= Math.max(64, Math.ceil(numGroups / 32)), `${alone} of ${numGroups}`);
    for (const numThreads of [2, 5, 16, 64]) {
      const groups = divideGroups(numGroups, numThreads, SIZES);
      assert.ok(groups <= alone && groups >= Math.min(numGroups, 4), `${groups} of ${numGroups}`);
    }
  }
});
