import assert from "node:assert/strict";
import OpenAI from "openai";
import { recordSomebody } from "../../fixtures/audio/recordings.ts";
import {
  decodeAll,
  openTtsServer,
  recordingBody,
  VOICE_MODEL,
} from "../../fixtures/servers/tts_server.ts";

const RATE_HZ = 24_000;

const server = await openTtsServer({ family: "chatterbox" });
const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });

Deno.test("openai: audio.speech.create speaks with the voice of the model's folder", async () => {
  const response = await client.audio.speech.create({
    model: VOICE_MODEL,
    voice: "default",
    input: "Hello there. How are you?",
    response_format: "flac",
  });
  const samples = await decodeAll(new Uint8Array(await response.arrayBuffer()), RATE_HZ);
  assert.ok(samples.some((sample) => Math.abs(sample) > 0.05));
});

Deno.test("openai: post with messages and a recording speaks with its voice", async () => {
  const recording = recordSomebody({ pitchHz: 250, seconds: 3, sampleRateHz: 44_100 });
  const completion = await client.post<
    { choices: [{ message: { content: [{ audio_url: { url: string } }] } }] }
  >("/audio/speech", { body: recordingBody(recording, { response_format: "flac" }) });
  const { url } = completion.choices[0].message.content[0].audio_url;
  const prefix = "data:audio/flac;base64,";
  assert.ok(url.startsWith(prefix));
  const samples = await decodeAll(Uint8Array.fromBase64(url.slice(prefix.length)), RATE_HZ);
  assert.ok(samples.some((sample) => Math.abs(sample) > 0.05));
  assert.equal(await server.figure("hearth_cloned_voices_total"), 1);
});

Deno.test("openai: a recording that cannot be used is a BadRequestError that names it", async () => {
  const body = recordingBody(new TextEncoder().encode("no sound"));
  await assert.rejects(() => client.post("/audio/speech", { body }), (error: unknown) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.code, "invalid_media");
    assert.equal(error.param, "messages[0].content[1]");
    return true;
  });
});

Deno.test("openai: clients that disconnect during a recorded voice leave nothing running", async () => {
  const recording = recordSomebody({ pitchHz: 180, seconds: 3, sampleRateHz: 16_000 });
  await Promise.all(Array.from({ length: 12 }, async (_, i) => {
    const signal = AbortSignal.timeout(7 * i);
    await client.post("/audio/speech", { body: recordingBody(recording), signal }).catch(() => {});
  }));
  await server.untilIdle();
  assert.equal(await server.figure("hearth_queue_room"), server.app.session.capacity);
});

Deno.test.afterAll(() => server[Symbol.asyncDispose]());
