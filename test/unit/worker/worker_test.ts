/** Messages of the worker, the thread that runs the model. */
import assert from "node:assert/strict";
import { makeStepMemory, serveThreads } from "../../../src/base/threads.ts";
import { spawnModelWorker } from "../../../src/server/session/spawn_worker.ts";
import type { FromWorker, ToWorker } from "../../../src/worker/protocol.ts";
import { loadOptions } from "../../fixtures/servers/server.ts";

/** Stops a worker at its message number `stopAt`, or immediately if it is 0. @returns the types of all its messages. */
async function stopWhileLoading(stopAt: number): Promise<FromWorker["type"][]> {
  const worker = spawnModelWorker();
  const { port1, port2 } = new MessageChannel();
  serveThreads(port1);
  const send = (message: ToWorker, transfer: Transferable[] = []) =>
    worker.postMessage(message, transfer);
  const said: FromWorker["type"][] = [];
  const stopped = Promise.withResolvers<void>();
  worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    if (data.type === "stopped") stopped.resolve();
    said.push(data.type);
    if (said.length === stopAt) send({ type: "stop" });
  };
  send({ type: "load", options: loadOptions(), threads: port2, steps: makeStepMemory() }, [port2]);
  if (stopAt === 0) send({ type: "stop" });
  await stopped.promise;
  // Waits for later messages, in case it is still loading.
  await new Promise((resolve) => setTimeout(resolve, 500));
  worker.terminate();
  port1.close();
  return said;
}

Deno.test("a worker that is stopped while it loads does not report a failure, and reports its end", async () => {
  const all = await Promise.all([0, 1, 2].map(stopWhileLoading));
  for (const [stopAt, said] of all.entries()) {
    assert.deepEqual(said.filter((type) => type !== "progress"), ["stopped"], String(stopAt));
  }
});
