import assert from "node:assert/strict";
import OpenAI from "openai";
import type { SpeechCreateParams } from "openai/resources/audio/speech";
import { decodeAll, openTtsServer, VOICE_MODEL } from "../../fixtures/servers/tts_server.ts";

const RATE_HZ = 16_000;
const INPUT = "Hello there. How are you? It is good to see you.";

/** Samples of silence that the encoder inserts before the sound. */
const MP3_DELAY = 1_105;

const server = await openTtsServer({ maxQueue: 60 });
const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });

function request(extra: Partial<SpeechCreateParams> = {}): SpeechCreateParams {
  return { model: VOICE_MODEL, voice: "default", input: INPUT, ...extra };
}

Deno.test("openai: audio.speech.create in every format decodes to the same speech", async () => {
  const create = async (format: NonNullable<SpeechCreateParams["response_format"]>) => {
    const response = await client.audio.speech.create(request({ response_format: format }));
    return new Uint8Array(await response.arrayBuffer());
  };
  const spoken = await decodeAll(await create("wav"), RATE_HZ);
  assert.ok(spoken.length > 10_000);
  const lossless = await decodeAll(await create("flac"), RATE_HZ);
  assert.equal(lossless.length, spoken.length);
  // The two decoders divide by 32767 and by 32768.
  assert.ok(spoken.every((sample, i) => Math.abs(sample - lossless[i]!) < 1 / 32_768));
  const pcm = new Int16Array((await create("pcm")).buffer);
  assert.equal(pcm.length, Math.ceil(spoken.length * 24_000 / RATE_HZ));
  for (const [format, delay] of [["mp3", MP3_DELAY], ["opus", 0]] as const) {
    const heard = (await decodeAll(await create(format), RATE_HZ)).subarray(delay);
    assert.ok(Math.abs(heard.length - spoken.length) < 0.05 * RATE_HZ, `${heard.length}`);
    assert.ok(loudnessDistance(spoken, heard) < 0.35, `${loudnessDistance(spoken, heard)}`);
  }
});

Deno.test("openai: audio.speech.create can be read during synthesis", async () => {
  const NUM_SENTENCES = 300;
  const before = await server.figure("hearth_prompt_tokens_total");
  const input = "This sentence is like all the others in a long text. ".repeat(NUM_SENTENCES);
  const response = await client.audio.speech.create(request({ input, response_format: "pcm" }));
  const reader = response.body!.getReader();
  const first = await reader.read();
  assert.ok(first.value!.length > 1_000);
  const spoken = await server.figure("hearth_prompt_tokens_total") - before;
  assert.ok(spoken < 50 * NUM_SENTENCES, `${spoken} tokens when the first sound came`);
  await reader.cancel();
  await server.untilIdle();
});

Deno.test("openai: stream_format sse sends the sound as events; unsupported input is a BadRequestError", async () => {
  const response = await client.audio.speech.create(
    request({ response_format: "wav", stream_format: "sse" }),
  );
  const types = (await response.text()).trim().split("\n\n")
    .filter((event) => event.startsWith("data: "))
    .map((event) => JSON.parse(event.slice("data: ".length)).type);
  assert.deepEqual(types, [
    "speech.audio.delta",
    "speech.audio.delta",
    "speech.audio.delta",
    "speech.audio.done",
  ]);

  const refused = async (extra: Partial<SpeechCreateParams>, message: RegExp) => {
    await assert.rejects(client.audio.speech.create(request(extra)), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.match(error.message, message);
      return true;
    });
  };
  await refused({ input: "" }, /input: want a text/);
  await refused({ voice: "marin" }, /voice: want a voice of/);
  const other = "wma" as SpeechCreateParams["response_format"];
  await refused({ response_format: other! }, /want one of mp3, opus, flac, wav, pcm/);
});

Deno.test("openai: 60 requests, of which 30 disconnect at random times, leave nothing running", async () => {
  const formats = ["mp3", "opus", "flac", "wav", "pcm"] as const;
  let numWhole = 0;
  await Promise.all(Array.from({ length: 60 }, async (_, i) => {
    const signal = i < 30 ? AbortSignal.timeout(13 * i) : undefined;
    const body = request({
      input: "One more sentence is spoken here. ".repeat(i < 30 ? 200 : 3),
      response_format: formats[i % formats.length]!,
    });
    try {
      const response = await client.audio.speech.create(body, signal ? { signal } : {});
      await response.arrayBuffer();
      numWhole++;
    } catch (error) {
      if (i >= 30) throw error;
    }
  }));
  assert.ok(numWhole >= 30);
  await server.untilIdle();
  assert.equal(await server.figure("hearth_queue_room"), server.app.session.capacity);
  assert.equal(await server.figure("hearth_worker_losses_total"), 0);
});

Deno.test.afterAll(() => server[Symbol.asyncDispose]());

/** How much the loudness of two sounds differs over time, as a share of the first one's. */
function loudnessDistance(first: Float32Array, second: Float32Array): number {
  const frame = RATE_HZ / 10;
  let [difference, sum] = [0, 0];
  for (let at = 0; at + frame <= first.length; at += frame) {
    const loudness = (samples: Float32Array) => Math.hypot(...samples.subarray(at, at + frame));
    difference += Math.abs(loudness(first) - loudness(second));
    sum += loudness(first);
  }
  return difference / sum;
}
