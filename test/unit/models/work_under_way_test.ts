import assert from "node:assert/strict";
import { HearthError } from "../../../src/errors.ts";
import { configureLog } from "../../../src/log.ts";
import type { ErrorEvent } from "../../../src/models/task.ts";
import { WorkUnderWay } from "../../../src/models/work_under_way.ts";

/** What is heard of work that ends with `error`. */
async function hear(error: unknown, param?: string): Promise<ErrorEvent["error"]> {
  const { promise, resolve } = Promise.withResolvers<ErrorEvent>();
  const answer = () => Promise.reject(error);
  new WorkUnderWay().start({ requestId: "test", what: "a test", emit: resolve, param, answer });
  return (await promise).error;
}

Deno.test("WorkUnderWay names the place of media that are refused, and of nothing else", async () => {
  const refused = await hear(new HearthError("invalid_media", "It is no picture."), "image");
  assert.deepEqual([refused.message, refused.param], ["image: It is no picture.", "image"]);
  const unnamed = await hear(new HearthError("invalid_media", "It is no picture."));
  assert.equal(unnamed.message, "It is no picture.");
  const other = await hear(new HearthError("invalid_value", "n: one."), "image");
  assert.deepEqual([other.kind, other.message], ["invalid_value", "n: one."]);
});

Deno.test("WorkUnderWay keeps what failed from the client", async () => {
  configureLog({ level: "error", format: "text" });
  const { kind, message } = await hear(new Error("a secret path"));
  assert.equal(kind, "inference_failed");
  assert.doesNotMatch(message, /secret/);
});

Deno.test("WorkUnderWay says nothing of work that is cancelled, and waits for it", async () => {
  const underWay = new WorkUnderWay();
  const heard: ErrorEvent[] = [];
  let numEnded = 0;
  const start = () =>
    underWay.start({
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
  assert.equal(underWay.size, 2);
  cancel();
  underWay.cancel();
  await underWay.settle();
  assert.deepEqual([numEnded, heard.length, underWay.size], [2, 0, 0]);
});
