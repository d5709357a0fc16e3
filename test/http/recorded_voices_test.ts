/** Speech with the voice of a recording, with the real worker. */
import assert from "node:assert/strict";
import { assertSameValues } from "../fixtures/engine/compare_values.ts";
import type { TestApp } from "../fixtures/servers/server.ts";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import { recordSomebody } from "../fixtures/audio/recordings.ts";
import {
  decodeAll,
  makeSound,
  openSpeechT5App,
  openTtsApp,
  recordingBody,
  speechBody,
  VOICE_MODEL,
} from "../fixtures/servers/tts_server.ts";

const PATH = "/v1/audio/speech";
const LOW = recordSomebody({ pitchHz: 110, seconds: 2, sampleRateHz: 22_050 });
const HIGH = recordSomebody({ pitchHz: 300, seconds: 2, sampleRateHz: 48_000 });

const chatterbox = await openTtsApp({ family: "chatterbox" });

async function speakAs(
  recording: Uint8Array<ArrayBuffer>,
  app: TestApp = chatterbox,
): Promise<Uint8Array<ArrayBuffer>> {
  const response = await app.post(PATH, recordingBody(recording));
  assert.equal(response.status, 200, await response.clone().text());
  return await makeSound(response);
}

async function countVoices(app: TestApp): Promise<number> {
  const text = await (await app.request("/metrics")).text();
  return Number(/^hearth_cloned_voices_total (\d+)$/m.exec(text)?.[1]);
}

for (
  const [family, open] of [
    ["chatterbox", () => openTtsApp({ family: "chatterbox" })],
    ["speecht5", openSpeechT5App],
  ] as const
) {
  Deno.test(`${family} speaks with the voice of a recording, which is encoded once`, async () => {
    await using app = await open();
    const low = await speakAs(LOW, app);
    const [high, again] = await Promise.all([speakAs(HIGH, app), speakAs(HIGH, app)]);
    assert.deepEqual(high, again);
    assert.notDeepEqual(low, high);
    assert.deepEqual(await speakAs(LOW, app), low);
    assert.equal(await countVoices(app), 2);
    // The default voice sounds different, and is not encoded.
    const content = [{ type: "text", text: "Hello there." }];
    const body = { model: VOICE_MODEL, messages: [{ role: "user", content }] };
    assert.notDeepEqual(await makeSound(await app.post(PATH, body)), low);
    assert.equal(await countVoices(app), 2);
  });
}

Deno.test("a recording is accepted in every format of audio parts", async () => {
  const data = LOW.toBase64();
  const parts = [
    { type: "audio", audio_url: `data:audio/wav;base64,${data}` },
    { type: "audio_url", audio_url: { url: `base64://${data}` } },
    { type: "input_audio", input_audio: { data, format: "wav" } },
  ];
  const wanted = await speakAs(LOW);
  for (const part of parts) {
    const content = [part, { type: "text", text: "Hello there." }];
    const body = { model: VOICE_MODEL, messages: [{ role: "user", content }] };
    assertSameValues(await makeSound(await chatterbox.post(PATH, body)), wanted);
  }
});

Deno.test("chatterbox speaks with the voice in its folder, sentence by sentence", async () => {
  const { voices } = await (await chatterbox.request("/v1/audio/voices")).json();
  assert.deepEqual(voices, [{ id: "default", name: "default", language: "en" }]);
  const input = "This is the first. This is the second! And is this the third?";
  const body = speechBody({ input, voice: "default", response_format: "pcm" });
  const pieces: number[] = [];
  for await (const { length } of (await chatterbox.post(PATH, body)).body!) pieces.push(length);
  assert.equal(pieces.length, 3);
});

Deno.test("chatterbox sounds the same with the same seed, and not with another", async () => {
  await using app = await openTtsApp({ family: "chatterbox", noise: 0.5 });
  const say = async (seed: number) =>
    await (await app.post(PATH, speechBody({ seed, response_format: "wav" }))).bytes();
  const first = await say(1);
  assert.notDeepEqual(await say(2), first);
  assert.deepEqual(await say(1), first);
});

Deno.test("chatterbox without a default voice only speaks with voices of recordings", async () => {
  await using app = await openTtsApp({
    family: "chatterbox",
    changes: { "default_voice.wav": undefined },
  });
  const samples = await decodeAll(await speakAs(LOW, app), 24_000);
  assert.ok(samples.some((sample) => Math.abs(sample) > 0.05));
  for (const voice of [undefined, "default"]) {
    const response = await app.post(PATH, speechBody({ voice }));
    assert.equal(response.status, 400);
    const { error } = await response.json();
    assert.equal(error.param, "voice");
    assert.match(error.message, /no voice of its own; .*recording/);
  }
});

const LENGTHS = /send 1 to 30 s of one person speaking/;
const UNUSABLE: Readonly<Record<string, readonly [Uint8Array<ArrayBuffer>, RegExp]>> = {
  "no audio": [new TextEncoder().encode("This is no audio."), /not supported audio/],
  "a damaged file": [HIGH.slice(0, 30), /WAV file/],
  "too short": [recordSomebody({ pitchHz: 200, seconds: 0.5, sampleRateHz: 8_000 }), LENGTHS],
  "too long": [recordSomebody({ pitchHz: 200, seconds: 31, sampleRateHz: 8_000 }), LENGTHS],
  "silence": [
    recordSomebody({ pitchHz: 200, seconds: 2, sampleRateHz: 8_000, loudness: 0 }),
    /silent/,
  ],
  "made of NaN": [
    makeWav(new Float32Array(48_000).fill(NaN), { bits: 32, isFloat: true }),
    /silent/,
  ],
};
for (const [what, [recording, message]] of Object.entries(UNUSABLE)) {
  Deno.test(`a recording that is ${what} is refused, and its part is named`, async () => {
    const response = await chatterbox.post(PATH, recordingBody(recording));
    const { error } = await response.json();
    assert.equal(response.status, 400);
    assert.equal(error.code, "invalid_media");
    assert.equal(error.param, "messages[0].content[1]");
    assert.match(error.message, /^messages\[0\]\.content\[1\]: /);
    assert.match(error.message, message);
  });
}

Deno.test("several recordings, a voice in addition to a recording, and images are refused", async () => {
  const refuse = async (body: unknown, { param, message }: { param: string; message: RegExp }) => {
    const response = await chatterbox.post(PATH, body);
    const { error } = await response.json();
    assert.equal(response.status, 400);
    assert.equal(error.param, param);
    assert.match(error.message, message);
  };
  await refuse(recordingBody(LOW, { voice: "default" }), {
    param: "voice",
    message: /want it left out, because the voice of the recording is cloned/,
  });
  const text = { type: "text", text: "Hello." };
  const audio = { type: "audio", audio_url: `base64://${LOW.toBase64()}` };
  const messages = (...content: unknown[]) => ({
    model: VOICE_MODEL,
    messages: [{ role: "user", content }],
  });
  await refuse(messages(text, audio, audio), {
    param: "messages[0].content[2]",
    message: /at most one recording, saw 2/,
  });
  await refuse(messages(text, { type: "image", image_url: "base64://AAAA" }), {
    param: "messages[0].content[1]",
    message: /takes text and recordings here, saw a part of type image/,
  });
  await refuse(messages(audio), { param: "messages[0].content", message: /saw nothing/ });
});

Deno.test("models that cannot clone a voice say which models can, or what is missing", async () => {
  for (
    const [family, message] of [
      [
        "kokoro",
        /only Chatterbox can, and SpeechT5 with a speaker enc/,
      ],
      ["speecht5", /unlike Chatterbox, SpeechT5 needs a speaker encoder/],
    ] as const
  ) {
    await using app = await openTtsApp({ family });
    // The recording is refused before it is read, so it may be empty.
    const response = await app.post(PATH, recordingBody(new Uint8Array()));
    const { error } = await response.json();
    assert.equal(response.status, 400);
    assert.equal(error.code, "unsupported_by_model");
    assert.equal(error.param, "messages[0].content[1]");
    assert.match(error.message, message);
  }
});

Deno.test.afterAll(() => chatterbox[Symbol.asyncDispose]());
