/** Native memory after workers are replaced. */
import assert from "node:assert/strict";
import { Session } from "../../../src/server/session/session.ts";
import { loadOptions } from "../../fixtures/servers/server.ts";

const NUM_ROUNDS = 3;
/** Workers of a round, half of them replacements. As many run before the first round. */
const NUM_WORKERS = 6;
/**
 * Forty workers that leaked their memory took 141 MiB: 21 in a round. Resident memory grows by up to 30 MiB in a single
 * round without a leak, but not in each round.
 */
const MOST_GROWTH_BYTES = 12 * 2 ** 20;

/** Runs sessions, each of which loses its worker by an uncaught error and gets another one. */
async function replaceOften(numTimes: number): Promise<void> {
  for (let n = 0; n < numTimes; n++) {
    const workers: Worker[] = [];
    const session = new Session({
      load: { ...loadOptions(), device: "cpu", cpuRuntime: "native" },
      maxQueue: 1,
      spawnWorker: () => {
        const url = new URL(
          "../../fixtures/threads/fragile_worker.ts?crash-on=metrics",
          import.meta.url,
        );
        workers.push(new Worker(url, { type: "module" }));
        return workers.at(-1)!;
      },
    });
    session.start();
    await session.ready();
    await session.metrics();
    await session.ready();
    assert.equal(workers.length, 2);
    await session.stop();
  }
}

Deno.test(`${NUM_ROUNDS * NUM_WORKERS} workers, half of them replacements, leak no native memory`, async () => {
  await replaceOften(NUM_WORKERS / 2);
  const growths: number[] = [];
  for (let round = 0; round < NUM_ROUNDS; round++) {
    const before = Deno.memoryUsage().rss;
    await replaceOften(NUM_WORKERS / 2);
    growths.push(Deno.memoryUsage().rss - before);
  }
  assert.ok(Math.min(...growths) < MOST_GROWTH_BYTES, `bytes more in each round: ${growths}`);
});
