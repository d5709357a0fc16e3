/**
 * The headers of a stream are sent when the request is admitted, before any byte of the body, however long it then
 * waits.
 */
import assert from "node:assert/strict";
import { makeWav, RATE_HZ } from "../fixtures/audio/audio_files.ts";
import type { TestApp } from "../fixtures/servers/server.ts";
import { openSpeechApp, postSpeech } from "../fixtures/servers/speech_server.ts";
import { openTtsApp, speechBody } from "../fixtures/servers/tts_server.ts";

const ONE_AT_A_TIME = { engine: { prefixCache: true, maxSequences: 1 } };

/** Keeps timers of this delay from firing, so that no timeout sends the headers. */
function stopTimers(delayMs: number): Disposable {
  const { setTimeout } = globalThis;
  const stopped = (run: () => void, ms?: number) => setTimeout(run, ms === delayMs ? 2 ** 30 : ms);
  Object.assign(globalThis, { setTimeout: stopped });
  return { [Symbol.dispose]: () => Object.assign(globalThis, { setTimeout }) };
}

/** Sends three requests to a model that answers one at a time. The headers of those that wait must arrive too. */
async function assertHeads(app: TestApp, send: () => Promise<Response>): Promise<void> {
  using _ = stopTimers(5000);
  const waiting = async () => {
    const metrics = await (await app.request("/metrics")).text();
    return Number(/^hearth_sequences_waiting (\d+)/m.exec(metrics)![1]);
  };
  const responses = [];
  for (let i = 0; i < 3; i++) {
    const response = await send();
    assert.equal(response.status, 200);
    responses.push(response);
  }
  assert.ok(await waiting() > 0, "a waiting stream has its headers");
  for (const response of responses.toReversed()) await response.body!.cancel();
}

Deno.test("transcriptions: a stream's headers arrive at admission", async () => {
  await using app = await openSpeechApp(ONE_AT_A_TIME);
  // Noise without speech, which takes much work.
  const noise = Float32Array.from({ length: 300 * RATE_HZ }, () => Math.random() - 0.5);
  const audio = makeWav(noise);
  await assertHeads(app, () => postSpeech(app, audio, { stream: "true" }));
  const refused = await postSpeech(app, audio, { stream: "true", language: "xx" });
  assert.equal(refused.status, 400);
});

Deno.test("speech: a stream's headers arrive at admission", async () => {
  await using app = await openTtsApp();
  const options = { param: "input", speed: 1, format: "wav", seed: 1 } as const;
  const task = { type: "speak", requestId: "1", text: "Hello.", ...options } as const;
  const stream = app.session.stream(task);
  // Nothing is spoken yet. The test above shows that this event sends the headers.
  assert.deepEqual((await stream.next()).value, { type: "admitted" });
  await stream.return();
  const body = speechBody({ stream_format: "sse" });
  const response = await app.post("/audio/speech", body);
  assert.ok((await response.text()).startsWith("data: "));
  const refused = await app.post("/audio/speech", { ...body, voice: "nobody" });
  assert.equal(refused.status, 400);
});
