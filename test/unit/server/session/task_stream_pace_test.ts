import assert from "node:assert/strict";
import type { SpeakEvent } from "../../../../src/models/task.ts";
import { TaskStream } from "../../../../src/server/session/task_stream.ts";

const piece = (isLast: boolean): SpeakEvent => ({
  type: "audio",
  bytes: new Uint8Array(1),
  isLast,
});

Deno.test("TaskStream tells the worker of each piece that is read, and of none that is not", async () => {
  const { port1, port2 } = new MessageChannel();
  const told: unknown[] = [];
  port2.onmessage = ({ data }) => told.push(data.type);
  const stream = new TaskStream<SpeakEvent>(port1, { onEnd: () => {} });
  const settle = () => new Promise((resolve) => setTimeout(resolve, 5));
  for (let i = 0; i < 3; i++) port2.postMessage(piece(false));
  await settle();
  assert.deepEqual(told, []);
  await stream.next();
  await settle();
  assert.deepEqual(told, ["taken"]);
  await stream.next();
  await stream.next();
  const waiting = stream.next();
  port2.postMessage(piece(true));
  await waiting;
  await settle();
  assert.deepEqual(told, ["taken", "taken", "taken", "taken"]);
  await stream.return();
  await settle();
  assert.equal(told.at(-1), "cancel");
  port2.close();
});
