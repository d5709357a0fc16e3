import assert from "node:assert/strict";
import { HearthError } from "../../../src/base/errors.ts";
import { configureLog } from "../../../src/base/log.ts";
import { CapturedStderr } from "../../fixtures/servers/capture_stderr.ts";
import type { ErrorEvent } from "../../../src/models/task.ts";
import { ActiveRequests } from "../../../src/models/threads/active_requests.ts";

/** The error event of work that fails with `error`. */
async function hear(error: unknown, param?: string): Promise<ErrorEvent["error"]> {
  const { promise, resolve } = Promise.withResolvers<ErrorEvent>();
  const answer = () => Promise.reject(error);
  new ActiveRequests().start({ requestId: "test", what: "a test", emit: resolve, param, answer });
  return (await promise).error;
}

Deno.test("ActiveRequests puts the field's path before an error about media, and before no other error", async () => {
  const refused = await hear(new HearthError("invalid_media", "It is no image."), "image");
  assert.deepEqual([refused.message, refused.param], ["image: It is no image.", "image"]);
  const unnamed = await hear(new HearthError("invalid_media", "It is no image."));
  assert.equal(unnamed.message, "It is no image.");
  const other = await hear(new HearthError("invalid_value", "n: one."), "image");
  assert.deepEqual([other.kind, other.message], ["invalid_value", "n: one."]);
});

Deno.test("ActiveRequests hides internal errors from the client", async () => {
  configureLog({ level: "error", format: "text" });
  const { kind, message } = await hear(new Error("a secret path"));
  assert.equal(kind, "inference_failed");
  assert.doesNotMatch(message, /secret/);
});

Deno.test("ActiveRequests logs an error that ends several requests once, with their number", async () => {
  configureLog({ level: "error", format: "text" });
  using stderr = new CapturedStderr();
  const failure = new Error("the batch failed");
  await Promise.all([hear(failure), hear(failure), hear(failure), hear(new Error("another"))]);
  const lines = stderr.lines.filter((line) => line.includes("a test failed"));
  assert.deepEqual(lines.map((line) => /numRequests=\d error=.*/.exec(line)?.[0]), [
    "numRequests=3 error=Error: the batch failed",
    "numRequests=1 error=Error: another",
  ]);
  // The same error may come again, as a lost device's does.
  await hear(failure);
  assert.equal(stderr.lines.filter((line) => line.includes("the batch failed")).length, 2);
});

Deno.test("ActiveRequests emits nothing for cancelled work, and waits for it", async () => {
  const requests = new ActiveRequests();
  const heard: ErrorEvent[] = [];
  let numEnded = 0;
  const start = () =>
    requests.start({
      requestId: "test",
      what: "a test",
      emit: (event) => heard.push(event),
      answer: async (signal) => {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        numEnded++;
        throw new Error("too late");
      },
    });
  const cancel = start();
  start();
  assert.equal(requests.size, 2);
  cancel();
  requests.cancel();
  await requests.settle();
  assert.deepEqual([numEnded, heard.length, requests.size], [2, 0, 0]);
});

Deno.test("ActiveRequests runs at most the given number at a time, and never one that was cancelled while it waited", async () => {
  const requests = new ActiveRequests(2);
  const begun: [string, number][] = [];
  const ends = new Map<string, () => void>();
  const start = (requestId: string) =>
    requests.start({
      requestId,
      what: "a test",
      emit: () => assert.fail("nothing goes wrong"),
      answer: (_, slot) => {
        begun.push([requestId, slot]);
        return new Promise((resolve) => ends.set(requestId, resolve));
      },
    });
  const turn = () => new Promise((resolve) => setTimeout(resolve));
  start("a");
  start("b");
  const cancel = start("c");
  start("d");
  await turn();
  assert.deepEqual(requests.counts, { running: 2, waiting: 2 });
  cancel();
  const slotOfA = begun[0]![1];
  ends.get("a")!();
  await turn();
  assert.deepEqual(begun.map(([id]) => id), ["a", "b", "d"]);
  assert.equal(begun[2]![1], slotOfA);
  assert.deepEqual(requests.counts, { running: 2, waiting: 0 });
  ends.get("b")!();
  ends.get("d")!();
  await requests.settle();
  assert.deepEqual(requests.counts, { running: 0, waiting: 0 });
});
