import assert from "node:assert/strict";
import { TaskStream } from "../../../../src/server/session/task_stream.ts";
import type { ChatEvent } from "../../../../src/models/task.ts";

const START: ChatEvent = { type: "start", promptTokens: 1 };
const DELTA: ChatEvent = { type: "delta", index: 0, text: "a" };
const DONE: ChatEvent = {
  type: "done",
  usage: { promptTokens: 1, completionTokens: 1, cachedTokens: 0 },
};

/** A stream and the worker's end of its port. */
class Wire implements Disposable {
  readonly worker: MessagePort;
  readonly stream: TaskStream<ChatEvent>;
  /** Messages to the worker. */
  readonly told: unknown[] = [];
  numEnds = 0;
  /** Whether the stream has closed its port. */
  isClosed = false;
  readonly #heard = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();

  constructor(signal?: AbortSignal) {
    const { port1, port2 } = new MessageChannel();
    port1.close = () => {
      this.isClosed = true;
      MessagePort.prototype.close.call(port1);
    };
    this.worker = port2;
    this.worker.onmessage = ({ data }) => {
      this.told.push(data);
      this.#heard.resolve();
    };
    this.stream = new TaskStream(port1, {
      signal,
      onEnd: () => {
        this.numEnds++;
        this.#ended.resolve();
      },
    });
  }

  /** Resolves after the stream has ended for its owner. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Waits for the first message to the worker. @returns all messages so far. */
  async heard(): Promise<unknown[]> {
    await this.#heard.promise;
    return this.told;
  }

  [Symbol.dispose](): void {
    this.worker.close();
  }
}

Deno.test("TaskStream yields all events in order and ends after done", async () => {
  using wire = new Wire();
  for (const event of [START, DELTA, DELTA, DONE]) wire.worker.postMessage(event);
  assert.deepEqual(await Array.fromAsync(wire.stream), [START, DELTA, DELTA, DONE]);
  assert.equal(wire.numEnds, 1);
  assert.deepEqual(wire.told, []);
});

Deno.test("TaskStream ends for its owner and closes its port when the last event arrives, even if it is not read", async () => {
  using wire = new Wire();
  const first = wire.stream.next();
  wire.worker.postMessage(START);
  wire.worker.postMessage(DONE);
  await first;
  await wire.ended;
  assert.equal(wire.numEnds, 1);
  assert.ok(wire.isClosed);
  assert.deepEqual(await wire.stream.next(), { done: false, value: DONE });
  assert.equal((await wire.stream.next()).done, true);
});

Deno.test("TaskStream.return() notifies the worker and ends a pending next()", async () => {
  using wire = new Wire();
  const pending = wire.stream.next();
  await wire.stream.return();
  assert.equal((await pending).done, true);
  assert.deepEqual(await wire.heard(), [{ type: "cancel" }]);
  assert.equal(wire.numEnds, 1);
  await wire.stream.return();
  assert.equal(wire.numEnds, 1);
});

Deno.test("TaskStream notifies the worker when the loop over it ends early", async () => {
  using wire = new Wire();
  wire.worker.postMessage(START);
  for await (const _ of wire.stream) break;
  assert.deepEqual(await wire.heard(), [{ type: "cancel" }]);
});

Deno.test("TaskStream rejects with the signal's reason and notifies the worker when aborted", async () => {
  const controller = new AbortController();
  using wire = new Wire(controller.signal);
  const pending = wire.stream.next();
  controller.abort(new Error("gone"));
  await assert.rejects(pending, { message: "gone" });
  await assert.rejects(wire.stream.next(), { message: "gone" });
  assert.deepEqual(await wire.heard(), [{ type: "cancel" }]);
  assert.equal(wire.numEnds, 1);
});

Deno.test("TaskStream with an aborted signal is cancelled from the start", async () => {
  using wire = new Wire(AbortSignal.abort(new Error("gone")));
  assert.equal(wire.numEnds, 1);
  await assert.rejects(wire.stream.next(), { message: "gone" });
  assert.deepEqual(await wire.heard(), [{ type: "cancel" }]);
});

Deno.test("TaskStream.fail() ends the stream with an error event and notifies the worker", async () => {
  using wire = new Wire();
  wire.worker.postMessage(START);
  assert.deepEqual((await wire.stream.next()).value, START);
  const error = { kind: "model_not_loaded", message: "lost" } as const;
  wire.stream.fail(error);
  wire.stream.fail({ ...error, message: "lost again" });
  assert.deepEqual(await Array.fromAsync(wire.stream), [{ type: "error", error }]);
  assert.equal(wire.numEnds, 1);
  assert.deepEqual(await wire.heard(), [{ type: "cancel" }]);
});
