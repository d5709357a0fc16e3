import assert from "node:assert/strict";
import { basename } from "node:path";
import { WorkerRpc } from "../../../src/models/threads/worker_pool.ts";
import { serveThreads } from "../../../src/base/threads.ts";
import type { NumberedWorker } from "../../fixtures/threads/numbered_worker.ts";
import { listWorkerThreads } from "../../fixtures/threads/worker_threads.ts";

const NUMBERED = new URL("../../fixtures/threads/numbered_worker.ts?7", import.meta.url);
const NOWHERE = new URL("../../fixtures/nowhere.ts", import.meta.url);
const ASKING = new URL("../../fixtures/images/image_threads_worker.ts", import.meta.url);
const PATIENCE_MS = 60_000;

const isLinux = Deno.build.os === "linux";

function openNumbered(module: URL = NUMBERED): WorkerRpc<NumberedWorker> {
  return new WorkerRpc(module, "numbered worker");
}

/** Waits until the threads started after `before` have ended. */
async function untilOnly(before: ReadonlySet<string>): Promise<void> {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  while (listWorkerThreads().difference(before).size > 0) {
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

Deno.test("WorkerRpc.call() rejects if the worker does not start", async () => {
  const rpc = openNumbered(NOWHERE);
  await assert.rejects(rpc.call("number", undefined), /numbered worker died: .*nowhere\.ts/);
  await assert.rejects(rpc.call("number", undefined), /numbered worker died: .*nowhere\.ts/);
});

for (const ending of ["die", "slow"] as const) {
  Deno.test(
    `WorkerRpc leaves no thread running after ${ending === "die" ? "its worker's death" : "end()"}`,
    { ignore: !isLinux },
    async () => {
      const before = listWorkerThreads();
      const rpc = openNumbered();
      assert.equal(await rpc.call("number", undefined), 7);
      assert.equal(listWorkerThreads().difference(before).size, 1);
      const call = rpc.call(ending, undefined);
      if (ending === "slow") rpc.end();
      await assert.rejects(call, /died: the worker is broken|was ended/);
      await untilOnly(before);
    },
  );
}

Deno.test({
  name: "serveThreads() starts a worker's image threads, which end after the worker was terminated",
  ignore: !isLinux,
  async fn() {
    const before = listWorkerThreads();
    const worker = new Worker(ASKING, { type: "module" });
    const theirs = new MessageChannel();
    const ours = new MessageChannel();
    serveThreads(ours.port1);
    const asked: string[] = [];
    theirs.port1.onmessage = ({ data }) => {
      asked.push(basename(data.module));
      ours.port2.postMessage(data, data.ports);
    };
    worker.postMessage({ threads: theirs.port2 }, [theirs.port2]);
    for (let decoded = 0; decoded < 2; decoded++) {
      await new Promise((resolve) => worker.onmessage = resolve);
    }
    assert.deepEqual(asked, ["image_thread.ts", "codec_thread.ts"]);
    assert.equal(listWorkerThreads().difference(before).size, 3);
    worker.terminate();
    await untilOnly(before);
    for (const port of [theirs.port1, ours.port1, ours.port2]) port.close();
  },
});
