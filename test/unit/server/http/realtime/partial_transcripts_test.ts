import assert from "node:assert/strict";
import {
  type InputAudioBuffer,
  PartialTranscripts,
} from "../../../../../src/server/http/realtime/partial_transcripts.ts";
import type { Session } from "../../../../../src/server/session/session.ts";

/** Starts a partial transcript that lasts until it is aborted. `transcript` is its signal. */
function startTranscript(signal: AbortSignal) {
  const started: AbortSignal[] = [];
  const session = {
    state: { phase: "ready", info: { maxSequences: 8 } },
    numInFlight: 0,
    stream: async function* (_task: unknown, { signal }: { signal: AbortSignal }) {
      started.push(signal);
      const { promise, reject } = Promise.withResolvers<never>();
      signal.addEventListener("abort", () => reject(signal.reason));
      yield await promise;
    },
  } as unknown as Session;
  const send = () => assert.fail("an aborted transcript was sent");
  const partials = new PartialTranscripts({ session, requestId: "test", signal, send });
  const audio = {
    ...{ startMs: 0, endMs: 2_000, format: { sampleRateHz: 16_000 } },
    copyFrom: () => new Int16Array(32_000),
  } as unknown as InputAudioBuffer;
  // The first transcript starts at least a second after the turn.
  const { now } = performance;
  try {
    for (const nowMs of [0, 999, 1_000]) {
      assert.equal(started.length, 0, `a transcript started before ${nowMs} ms`);
      performance.now = () => nowMs;
      partials.update({ itemId: "item", audio, language: undefined });
    }
  } finally {
    performance.now = now;
  }
  assert.equal(started.length, 1);
  return { partials, transcript: started[0]! };
}

Deno.test("PartialTranscripts.end() aborts the transcript of the turn, and waits for its end", async () => {
  const { partials, transcript } = startTranscript(new AbortController().signal);
  const agreed = await partials.end();
  assert.ok(transcript.aborted);
  assert.equal(agreed.text, "");
});

Deno.test("PartialTranscripts aborts its transcript when the client is gone", async () => {
  const client = new AbortController();
  const { partials, transcript } = startTranscript(client.signal);
  assert.ok(!transcript.aborted);
  client.abort();
  assert.ok(transcript.aborted);
  await partials.end();
});
