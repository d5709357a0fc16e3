import assert from "node:assert/strict";
import type { SpeakEvent } from "../../../../src/models/task.ts";
import { TaskStream } from "../../../../src/server/session/task_stream.ts";

const piece = (isLast: boolean): SpeakEvent => ({
  type: "audio",
  bytes: new Uint8Array(1),
  isLast,
});

Deno.test("TaskStream tells the worker that an event was taken only after it has been read", async () => {
  const { port1, port2 } = new MessageChannel();
  const told: unknown[] = [];
  let onTold = () => {};
  port2.onmessage = ({ data }) => {
    told.push(data.type);
    onTold();
  };
  const untilTold = async (count: number) => {
    while (told.length < count) await new Promise<void>((resolve) => onTold = resolve);
    return told;
  };
  const stream = new TaskStream<SpeakEvent>(port1, { onEnd: () => {} });
  for (let i = 0; i < 3; i++) port2.postMessage(piece(false));
  // Enough time for reports of unread events, if there were any.
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(told, []);
  await stream.next();
  assert.deepEqual(await untilTold(1), ["taken"]);
  await stream.next();
  await stream.next();
  const waiting = stream.next();
  port2.postMessage(piece(true));
  await waiting;
  await stream.return();
  assert.deepEqual(await untilTold(5), ["taken", "taken", "taken", "taken", "cancel"]);
  port2.close();
});
