import assert from "node:assert/strict";
import { Coverage, Workload } from "./workload.ts";

const NUM_WORKLOADS = 400;

Deno.test("Scheduler keeps its invariants over hundreds of random workloads with cancellations", () => {
  const coverage = new Coverage();
  for (let seed = 0; seed < NUM_WORKLOADS; seed++) {
    try {
      new Workload(seed, coverage).run(12);
    } catch (error) {
      throw new Error(`Workload ${seed} went wrong.`, { cause: error });
    }
  }
  for (const [event, count] of Object.entries(coverage)) {
    assert(count > 25, `Only ${count} times in all workloads: ${event}.`);
  }
});
