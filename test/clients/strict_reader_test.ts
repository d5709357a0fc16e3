/**
 * Reads every kind of stream over a port, with a reader that treats each blank line as the end of an event with JSON.
 */
import assert from "node:assert/strict";
import { chatBody, ENDLESS, MODEL, TestServer } from "../fixtures/servers/server.ts";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";
import {
  CLIP,
  openSpeechServer,
  readRecording,
  speechForm,
} from "../fixtures/servers/speech_server.ts";
import { readStrictly } from "../fixtures/servers/sse.ts";
import { openTtsServer, speechBody } from "../fixtures/servers/tts_server.ts";

async function post(server: TestServer, path: string, body: unknown): Promise<Response> {
  const isForm = body instanceof FormData;
  const response = await fetch(server.base + path, {
    method: "POST",
    body: isForm ? body : JSON.stringify(body),
    ...(!isForm && { headers: { "content-type": "application/json" } }),
  });
  assert.equal(response.status, 200, path);
  assert.match(response.headers.get("content-type")!, /^text\/event-stream/);
  return response;
}

Deno.test("streams of a chat model: each block contains one JSON event, from the first byte on", async () => {
  await using server = await TestServer.start();
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const common = { model: MODEL, stream: true };
  const cases = [
    ["/v1/chat/completions", { messages, stream_options: { include_usage: true } }],
    ["/v1/completions", { prompt: "The capital of France is", max_tokens: 8 }],
    ["/v1/responses", { input: "What is the capital of France?" }],
    ["/v1/messages", { messages, max_tokens: 20 }],
  ] as const;
  for (const [path, body] of cases) {
    const events = readStrictly(await (await post(server, path, { ...common, ...body })).text());
    assert.ok(events.length > 2, path);
  }
});

Deno.test("streams: the headers of a waiting request arrive before any byte of its body", async () => {
  const { spawnWorker, workers } = fragileSpawner();
  await using server = await TestServer.start({
    engine: { prefixCache: true, maxSequences: 1 },
    spawnWorker,
  });
  workers[0]!.postMessage({ type: "slow-steps", ms: 20 });
  const endless = chatBody({ stream: true, ...ENDLESS });
  const running = await post(server, "/v1/chat/completions", endless);
  await server.untilBusy();
  const waiting = await post(server, "/v1/chat/completions", chatBody({ stream: true }));
  assert.ok(await server.figure("hearth_sequences_waiting") > 0);
  await running.body!.cancel();
  workers[0]!.postMessage({ type: "slow-steps", ms: 0 });
  const text = await waiting.text();
  assert.ok(text.startsWith("data: "), text.slice(0, 40));
  assert.ok(readStrictly(text).length > 2);
});

Deno.test("streams of recognition and synthesis: each block contains one JSON event", async () => {
  await using ears = await openSpeechServer();
  const form = speechForm(await readRecording(CLIP.file), { stream: "true" });
  const heard = readStrictly(await (await post(ears, "/v1/audio/transcriptions", form)).text());
  assert.equal(heard.at(-1).type, "transcript.text.done");
  await using mouth = await openTtsServer();
  const body = speechBody({ stream_format: "sse", response_format: "wav" });
  const spoken = readStrictly(await (await post(mouth, "/v1/audio/speech", body)).text());
  assert.equal(spoken.at(-1).type, "speech.audio.done");
});
