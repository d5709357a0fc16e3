/** Native memory after workers are replaced. */
import assert from "node:assert/strict";
import { Session } from "../../../src/server/session/session.ts";
import { loadOptions } from "../../fixtures/servers/server.ts";

const NUM_WARM_UP = 6;
const NUM_WORKERS = 18;
/** Forty workers that leaked their memory took 141 MiB, 3.5 each. */
const MOST_GROWTH_BYTES = 24 * 2 ** 20;

/** Runs a session whose worker is lost at every call, by an uncaught error. */
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

Deno.test(`${NUM_WORKERS} replaced workers leak no native memory`, async () => {
  await replaceOften(NUM_WARM_UP / 2);
  const before = Deno.memoryUsage().rss;
  await replaceOften((NUM_WORKERS - NUM_WARM_UP) / 2);
  const growth = Deno.memoryUsage().rss - before;
  assert.ok(growth < MOST_GROWTH_BYTES, `${growth} bytes more`);
});
