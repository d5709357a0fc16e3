import assert from "node:assert/strict";
import { assertSameValues } from "../fixtures/engine/compare_values.ts";
import { requireEndpoint } from "../../src/wire/models.ts";
import type { TestApp } from "../fixtures/servers/server.ts";
import { decodeAll, openTtsApp, speechBody, VOICE_MODEL } from "../fixtures/servers/tts_server.ts";
import { eventJson } from "../fixtures/servers/sse.ts";

const RATE_HZ = 16_000;
const PATH = "/v1/audio/speech";
const app = await openTtsApp();

async function speak(extra: Record<string, unknown> = {}): Promise<Uint8Array<ArrayBuffer>> {
  const response = await app.post(PATH, speechBody(extra));
  assert.equal(response.status, 200, await response.clone().text());
  return await response.bytes();
}

function int32(file: Uint8Array, at: number): number {
  return new DataView(file.buffer, file.byteOffset).getUint32(at, true);
}

Deno.test("POST /audio/speech answers with the sound, in mp3 unless asked otherwise", async () => {
  const types = {
    mp3: "audio/mpeg",
    opus: "audio/ogg; codecs=opus",
    flac: "audio/flac",
    wav: "audio/wav",
    pcm: "audio/pcm; rate=24000; channels=1",
  };
  for (const [format, type] of Object.entries(types)) {
    const response = await app.post(PATH, speechBody({ response_format: format }));
    assert.equal(response.headers.get("content-type"), type);
    assert.ok((await response.bytes()).length > 1_000);
  }
  const response = await app.post("/audio/speech", speechBody());
  assert.equal(response.headers.get("content-type"), "audio/mpeg");
  await response.bytes();
});

Deno.test("POST /audio/speech writes the length into a WAV header if it is known", async () => {
  const long = await speak({ response_format: "wav" });
  assert.deepEqual([int32(long, 4), int32(long, 40)], [0xffff_ffff, 0xffff_ffff]);
  assert.equal(int32(long, 24), RATE_HZ);
  const response = await app.post(PATH, speechBody({ input: "One.", response_format: "wav" }));
  assert.ok(response.headers.has("content-length"));
  const short = await response.bytes();
  assert.deepEqual([int32(short, 4), int32(short, 40)], [short.length - 8, short.length - 44]);
});

Deno.test("POST /audio/speech sends each sentence as a separate chunk", async () => {
  const input = "This is the first. This is the second! And is this the third?";
  const response = await app.post(PATH, speechBody({ input, response_format: "pcm" }));
  const pieces: number[] = [];
  for await (const piece of response.body!) pieces.push(piece.length);
  assert.equal(pieces.length, 3);
  assert.ok(pieces.every((length) => length > 500));
});

Deno.test("POST /audio/speech with messages answers a chat completion with the sound", async () => {
  const content = [{ type: "text", text: "Hello there." }, { type: "text", text: "How are you?" }];
  const body = { model: VOICE_MODEL, messages: [{ role: "user", content }] };
  const response = await app.post("/audio/speech", body);
  assert.equal(response.status, 200);
  const completion = await response.json();
  assert.equal(completion.object, "chat.completion");
  assert.equal(completion.model, VOICE_MODEL);
  const [choice] = completion.choices;
  assert.equal(choice.finish_reason, "stop");
  assert.equal(choice.message.role, "assistant");
  assert.equal(choice.message.content.length, 1);
  assert.equal(choice.message.content[0].type, "audio");
  const { url } = choice.message.content[0].audio_url;
  const prefix = "data:audio/wav;base64,";
  assert.ok(url.startsWith(prefix));
  const file = Uint8Array.fromBase64(url.slice(prefix.length));
  assert.deepEqual([int32(file, 4), int32(file, 40)], [file.length - 8, file.length - 44]);
  assert.ok(completion.usage.prompt_tokens > 20);
  // The same bytes as without messages, except for the header.
  const streamed = await speak({ input: "Hello there.\n\nHow are you?", response_format: "wav" });
  assertSameValues(file.subarray(44), streamed.subarray(44));
});

Deno.test("POST /audio/speech with stream_format sse sends the same bytes in events", async () => {
  for (const format of ["wav", "opus"]) {
    const response = await app.post(
      PATH,
      speechBody({ response_format: format, stream_format: "sse" }),
    );
    assert.match(response.headers.get("content-type")!, /^text\/event-stream/);
    const events = eventJson(await response.text());
    const done = events.pop();
    assert.equal(done.type, "speech.audio.done");
    const { input_tokens: tokens } = done.usage;
    assert.ok(tokens > 0);
    assert.deepEqual(done.usage, { input_tokens: tokens, output_tokens: 0, total_tokens: tokens });
    assert.ok(events.every(({ type }) => type === "speech.audio.delta") && events.length === 2);
    const bytes = events.flatMap(({ audio }) => [...Uint8Array.fromBase64(audio)]);
    assertSameValues(Uint8Array.from(bytes), await speak({ response_format: format }));
  }
});

Deno.test("POST /audio/speech speaks faster and slower", async () => {
  const lengths: number[] = [];
  for (const speed of [0.25, 1, 4]) {
    lengths.push(
      (await decodeAll(await speak({ speed, response_format: "flac" }), RATE_HZ)).length,
    );
  }
  const [slow, usual, fast] = lengths as [number, number, number];
  assert.ok(Math.abs(slow / usual - 4) < 0.1 && Math.abs(usual / fast - 4) < 0.1, `${lengths}`);
});

Deno.test("POST /audio/speech normalizes its text", async () => {
  const written = await speak({ input: "Dr. Lee paid $5 on May 3.", response_format: "wav" });
  const said = await speak({
    input: "Doctor Lee paid five dollars on May third.",
    response_format: "wav",
  });
  assert.deepEqual(written, said);
});

const REFUSED: Readonly<Record<string, readonly [Record<string, unknown>, string, RegExp]>> = {
  "no text": [{ input: undefined }, "invalid_value", /^input: want a text to speak.*saw nothing/],
  "an empty text": [{ input: "" }, "invalid_value", /^input: want a text of 1 to 500000.*nothing/],
  "blanks": [{ input: " \n\t" }, "invalid_value", /^input: want a text of 1 to 500000.*nothing/],
  "a text of only signs": [
    { input: "... \u{1f600} !!!" },
    "invalid_value",
    /^input: want words in a language that the model speaks, saw "\.\.\. \u{1f600} !!!"\. Signs/u,
  ],
  "a text in an unknown script": [
    { input: "\u4f60\u597d\u3002" },
    "invalid_value",
    /^input: want words in a language that the model speaks, saw "\u4f60\u597d\u3002"\. Signs/,
  ],
  "a text that is too long": [
    { input: "a".repeat(500_001) },
    "invalid_value",
    /^input: want a text of 1 to 500000 characters, saw 500001/,
  ],
  "a number as the text": [{ input: 5 }, "invalid_value", /^input: want a string, saw 5/],
  "both input and messages": [
    { messages: [{ role: "user", content: "x" }] },
    "invalid_value",
    /^messages: want no value together with input/,
  ],
  "no user message": [
    { input: undefined, messages: [{ role: "assistant", content: "x" }] },
    "invalid_value",
    /^messages: want a user message/,
  ],
  "a voice that the model does not have": [
    { voice: "nobody" },
    "invalid_value",
    /^voice: .*default.*saw "nobody"/,
  ],
  "a voice that is not a name": [{ voice: 3 }, "invalid_value", /^voice: want the name of a voice/],
  "too slow": [{ speed: 0.2 }, "invalid_value", /^speed: want a number from 0.25 to 4, saw 0.2/],
  "too fast": [{ speed: 4.1 }, "invalid_value", /^speed: want a number from 0.25 to 4, saw 4.1/],
  "an unsupported format": [
    { response_format: "wma" },
    "unsupported_format",
    /^response_format: want one of mp3, opus, flac, wav, pcm, saw "wma"/,
  ],
  "an unknown format": [
    { response_format: 5 },
    "invalid_value",
    /^response_format: want one of mp3, opus, flac, wav, pcm, saw 5/,
  ],
  "an unknown stream format": [
    { stream_format: "x" },
    "invalid_value",
    /^stream_format: want audio or sse/,
  ],
  "events for a request with messages": [
    { input: undefined, messages: [{ role: "user", content: "x" }], stream_format: "sse" },
    "invalid_value",
    /^stream_format: /,
  ],
  "a seed below -1": [
    { seed: -2 },
    "invalid_value",
    /^seed: want a whole number from -1 to 4294967295/,
  ],
};

Deno.test("POST /audio/speech ignores instructions, writes mp3 for aac, and accepts numbers as text", async () => {
  const plain = await app.post(PATH, speechBody({ response_format: "mp3", speed: 1.5 }));
  const wanted = new Uint8Array(await plain.arrayBuffer());
  const extra = { response_format: "aac", speed: "1.5", instructions: "Sound sad." };
  const response = await app.post(PATH, speechBody(extra));
  assert.equal(response.headers.get("content-type"), "audio/mpeg");
  assert.match(response.headers.get("warning")!, /instructions.*aac.*mp3/);
  assertSameValues(new Uint8Array(await response.arrayBuffer()), wanted);
  for (const speed of ["", "fast", "9"]) {
    assert.equal((await app.post(PATH, speechBody({ speed }))).status, 400, speed);
  }
  await using noisy = await openTtsApp({ noise: 0.3 });
  const random = async () => {
    const answer = await noisy.post(PATH, speechBody({ seed: -1, response_format: "wav" }));
    return new Uint8Array(await answer.arrayBuffer());
  };
  assert.notDeepEqual(await random(), await random());
});

Deno.test("GET /audio/models lists the model as speech clients read it", async () => {
  for (const path of ["/audio/models", "/v1/audio/models"]) {
    const list = await (await app.request(path)).json();
    assert.deepEqual(list.models, [{ id: VOICE_MODEL, name: VOICE_MODEL }]);
    assert.equal(list.data[0].id, VOICE_MODEL);
  }
});

for (const [what, [extra, code, message]] of Object.entries(REFUSED)) {
  Deno.test(`POST /audio/speech refuses ${what}`, async () => {
    const response = await app.post(PATH, speechBody(extra));
    const { error } = await response.json();
    assert.equal(response.status, 400);
    assert.equal(error.code, code);
    assert.match(error.message, message);
    assert.ok(message.source.startsWith(`^${error.param}`), error.param);
  });
}

Deno.test("POST /audio/speech refuses a recording of a voice, and names the alternative", async () => {
  const audio = { type: "audio", audio_url: { url: "base64://AAAA" } };
  const content = [{ type: "text", text: "Hello." }, audio];
  const body = { model: VOICE_MODEL, messages: [{ role: "user", content }] };
  const response = await app.post(PATH, body);
  assert.equal(response.status, 400);
  const { error } = await response.json();
  assert.equal(error.code, "unsupported_by_model");
  assert.equal(error.param, "messages[0].content[1]");
  assert.match(
    error.message,
    /tiny-voice \(tts\) cannot clone the voice of a recording: .*only Chatterbox can, and SpeechT5/,
  );
});

Deno.test("POST /audio/speech with the name of another model answers 404", async () => {
  const response = await app.post(PATH, speechBody({ model: "tts-1" }));
  assert.equal(response.status, 404);
  assert.equal((await response.json()).error.code, "model_not_found");
});

Deno.test("GET /audio/voices lists the model's voice", async () => {
  for (const path of ["/audio/voices", "/v1/audio/voices"]) {
    assert.deepEqual(await (await app.request(path)).json(), {
      object: "list",
      voices: [{ id: "default", name: "default", language: "en" }],
    });
  }
});

Deno.test("voices of Kokoro are found by their ids and by OpenAI's names", async () => {
  await using kokoro = await openTtsApp({ family: "kokoro" });
  const { voices } = await (await kokoro.request("/v1/audio/voices")).json();
  // The Japanese voice is left out, because its phonemes are not supported.
  assert.deepEqual(
    voices.map(({ id, language }: { id: string; language: string }) => [id, language]),
    [
      ["af_heart", "en-US"],
      ["af_alloy", "en-US"],
      ["bm_george", "en-GB"],
    ],
  );
  const say = async (voice: unknown) => {
    const response = await kokoro.post(
      PATH,
      speechBody({ voice, input: "Hi.", response_format: "wav" }),
    );
    assert.equal(response.status, 200);
    return await response.bytes();
  };
  assert.deepEqual(await say("alloy"), await say({ id: "af_alloy" }));
  assert.deepEqual(await say("default"), await say(undefined));
  assert.notDeepEqual(await say("alloy"), await say("af_heart"));
  const foreign = await kokoro.post(PATH, speechBody({ input: "Привет, 世界!" }));
  assert.equal(foreign.status, 400);
  assert.match(
    (await foreign.json()).error.message,
    /want words in a language that the model speaks/,
  );
  const unknown = await kokoro.post(PATH, speechBody({ voice: "jf_alpha" }));
  assert.match((await unknown.json()).error.message, /af_heart, af_alloy, bm_george/);
});

Deno.test("POST /audio/speech sounds the same with the same seed, and different with another", async () => {
  await using noisy = await openTtsApp({ noise: 0.3 });
  const say = async (seed?: number) =>
    await (await noisy.post(PATH, speechBody({ seed, response_format: "wav" }))).bytes();
  const first = await say(7);
  await say(8);
  assert.deepEqual(await say(7), first);
  assert.notDeepEqual(await say(8), first);
  assert.deepEqual(await say(), await say(0));
});

Deno.test("POST /audio/speech gives 24 simultaneous texts the same sound as each alone", async () => {
  const texts = Array.from(
    { length: 24 },
    (_, i) => `Number ${i} is here. It is followed by ${i * i}.`,
  );
  const say = (input: string) => speak({ input, response_format: "wav", speed: 1.2 });
  const together = await Promise.all(texts.map(say));
  for (const [i, text] of texts.entries()) assert.deepEqual(together[i], await say(text));
});

/** Parts of texts that nobody would say. */
const HOSTILE = [
  "\u0000",
  "\ufffd",
  "\ud800",
  "\u202e",
  "\u200b",
  "e\u0301",
  "\u{1f468}\u200d\u{1f469}",
  "\n\n",
  "\r",
  "...",
  "$$$",
  "1e308",
  "-0",
  "NaN",
  "00:00",
  "99/99/9999",
  "((((",
  "]]]]",
  "<b>",
  "&amp;",
  "\\",
  "'",
  '"',
  "%s",
  "${x}",
  "\u4f60",
  "\u0627\u0644",
  "Mr.",
  "e.g.",
  "U.S.",
  "a",
  "B",
  " ",
  "https://x.y/z?q=1",
  "\u00bd",
  "1,000,000.01",
  "#",
  "*",
  "_",
  "`",
];

/** Sends `count` texts of random hostile parts. @returns how many were spoken (200) and refused (400). */
async function speakHostile(to: TestApp, count: number): Promise<{ 200: number; 400: number }> {
  let state = 5;
  const next = (n: number) => (state = (state * 48271) % 2147483647) % n;
  const answered = { 200: 0, 400: 0 };
  for (let i = 0; i < count; i++) {
    const parts = Array.from({ length: 1 + next(30) }, () => HOSTILE[next(HOSTILE.length)]);
    const input = parts.join("");
    const format = ["mp3", "wav", "opus", "flac", "pcm"][next(5)];
    const response = await to.post(PATH, speechBody({ input, response_format: format }));
    const { status } = response;
    assert.ok(status === 200 || status === 400, `${status} ${JSON.stringify(input)}`);
    await response.bytes();
    answered[status]++;
  }
  return answered;
}

Deno.test("300 hostile texts: never a 5xx, and always sound or a reason", async () => {
  const answered = await speakHostile(app, 300);
  assert.ok(answered[200] > 100 && answered[400] > 5, JSON.stringify(answered));
});

Deno.test("20 hostile texts for Kokoro, which uses eSpeak's rules: never a 5xx, and mostly sound", async () => {
  await using kokoro = await openTtsApp({ family: "kokoro" });
  const answered = await speakHostile(kokoro, 20);
  assert.ok(answered[200] > 10, JSON.stringify(answered));
});

Deno.test.afterAll(() => app[Symbol.asyncDispose]());

Deno.test("requireEndpoint() names the path that was requested, not the one that it is checked as", () => {
  const model = { id: "toy", aliases: [], kind: "text" } as const;
  assert.throws(
    () => requireEndpoint(model, "/audio/speech", "/audio/voices"),
    /does not serve \/audio\/voices; it serves \/chat\/completions/,
  );
});
