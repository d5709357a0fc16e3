import assert from "node:assert/strict";
import { SharedJobs } from "../../../src/models/threads/active_requests.ts";

const { signal: NEVER } = new AbortController();

Deno.test("SharedJobs.join() does at once what many want, and anew what is wanted later", async () => {
  const jobs = new SharedJobs<number>();
  let numBegun = 0;
  const begin = () => Promise.resolve(++numBegun);
  const results = await Promise.all([1, 2, 3].map(() => jobs.join("a", begin, NEVER)));
  assert.deepEqual(results, [1, 1, 1]);
  assert.equal(await jobs.join("a", begin, NEVER), 2);
});

Deno.test("SharedJobs.join() gives work up when the last has left, not before", async () => {
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

  // Whoever comes then does not get work that was given up.
  const again = jobs.join("a", () => Promise.resolve(7), NEVER);
  work.resolve(1);
  assert.equal(await again, 7);
});

Deno.test("SharedJobs.join() tells all of a failure", async () => {
  const jobs = new SharedJobs<number>();
  const begin = () => Promise.reject(new Error("broken"));
  for (const joined of [1, 2].map(() => jobs.join("a", begin, NEVER))) {
    await assert.rejects(joined, /broken/);
  }
});
