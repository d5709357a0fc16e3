import assert from "node:assert/strict";
import { StartupError } from "../../../../src/base/errors.ts";
import { Session } from "../../../../src/server/session/session.ts";
import { notReadyError, type Prepare } from "../../../../src/server/session/supervisor.ts";
import { loadOptions } from "../../../fixtures/servers/server.ts";

function noWorker(): Worker {
  return assert.fail("A worker was started.");
}

function prepareWith(prepare: Prepare, spawnWorker = noWorker): Session {
  return new Session({ load: prepare, maxQueue: 1, spawnWorker });
}

Deno.test("Session reports the progress of the preparation before there is a worker", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const session = prepareWith(async ({ onProgress }) => {
    onProgress({ what: "downloading onnx/model_q4f16.onnx", fraction: 0.4299 });
    await promise;
    throw new StartupError("The hub is closed.");
  });
  session.start();
  const { state } = session;
  assert.ok(state.phase === "loading");
  assert.equal(notReadyError(state).message, "loading: downloading onnx/model_q4f16.onnx 42%");
  resolve();
  await assert.rejects(session.ready(), /The hub is closed\./);
  assert.deepEqual(session.state, { phase: "failed", reason: "The hub is closed." });
});

Deno.test("Session.stop() aborts the preparation and starts no worker", async () => {
  let signal: AbortSignal | undefined;
  const session = prepareWith(async (options) => {
    signal = options.signal;
    await new Promise((resolve) => options.signal.addEventListener("abort", resolve));
    return loadOptions();
  });
  session.start();
  await session.stop();
  assert.equal(signal?.aborted, true);
  assert.equal(session.state.phase, "stopping");
});

Deno.test("Session loads the result of the preparation", async () => {
  const session = new Session({ load: () => Promise.resolve(loadOptions()), maxQueue: 1 });
  session.start();
  session.start();
  assert.equal((await session.ready()).kind, "text");
  await session.stop();
});
