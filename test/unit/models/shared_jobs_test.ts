import assert from "node:assert/strict";
import { SharedJobs } from "../../../src/models/threads/active_requests.ts";

const { signal: NEVER } = new AbortController();

Deno.test("SharedJobs.join() runs a job once for concurrent callers, and again for later ones", async () => {
  const jobs = new SharedJobs<number>();
  let numBegun = 0;
  const begin = () => Promise.resolve(++numBegun);
  const results = await Promise.all([1, 2, 3].map(() => jobs.join("a", begin, NEVER)));
  assert.deepEqual(results, [1, 1, 1]);
  assert.equal(await jobs.join("a", begin, NEVER), 2);
});

Deno.test("SharedJobs.join() cancels a job only when the last caller has left", async () => {
  const jobs = new SharedJobs<number>();
  const work = Promise.withResolvers<number>();
  let given: AbortSignal | undefined;
  const begin = (signal: AbortSignal) => {
    given = signal;
    return work.promise;
  };
  const aborts = [new AbortController(), new AbortController()];
  const joined = aborts.map(({ signal }) => jobs.join("a", begin, signal));
  aborts[0]!.abort(new Error("gone"));
  await assert.rejects(joined[0]!, /gone/);
  assert.equal(given!.aborted, false);
  aborts[1]!.abort(new Error("gone too"));
  await assert.rejects(joined[1]!, /gone too/);
  assert.equal(given!.aborted, true);

  // Later callers do not get a cancelled job.
  const again = jobs.join("a", () => Promise.resolve(7), NEVER);
  work.resolve(1);
  assert.equal(await again, 7);
});

Deno.test("SharedJobs.join() reports a failure to all callers", async () => {
  const jobs = new SharedJobs<number>();
  const begin = () => Promise.reject(new Error("broken"));
  for (const joined of [1, 2].map(() => jobs.join("a", begin, NEVER))) {
    await assert.rejects(joined, /broken/);
  }
});
