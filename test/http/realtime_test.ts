/** Live speech: transcripts, and the course of sessions. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import { encodeALaw, encodeMuLaw } from "../fixtures/audio/g711.ts";
import {
  getBytes,
  LiveClient,
  type LiveEvent,
  readSamples,
} from "../fixtures/servers/live_client.ts";
import {
  askForWebSocket,
  makeFrame,
  openWebSocket,
  writeAll,
} from "../fixtures/servers/raw_web_socket.ts";
import { BODY_LIMITS, BodyBudget } from "../../src/server/http/body/body.ts";
import { makeWavFile } from "../../src/media/sound_format.ts";
import { bridgeUpgrades, MessageSocket } from "../../src/server/http/connection/message_socket.ts";
import { LiveSession } from "../../src/server/http/realtime/live_session.ts";
import { TestListener } from "../fixtures/servers/listener.ts";
import {
  CLIP,
  CLIP_TEXT,
  openSpeechApp,
  openSpeechServer,
  readRecording,
  speechForm,
} from "../fixtures/servers/speech_server.ts";
import { makeTinyVad } from "../fixtures/models/tiny_vad.ts";
import { TestApp, type TestServer } from "../fixtures/servers/server.ts";

const RATE_HZ = 24_000;
const TRANSCRIPTION = "conversation.item.input_audio_transcription";
const CLIP_SAMPLES = await readSamples(await readRecording(CLIP.file), RATE_HZ);
const SILENCE = new Uint8Array(2 * RATE_HZ);
const MANUAL = {
  type: "session.update",
  session: { type: "transcription", audio: { input: { turn_detection: null } } },
} as const;

/** A server for tests that do not change it. */
const server = await openSpeechServer();
Deno.test.afterAll(() => server[Symbol.asyncDispose]());

/** Uploads a recording, and returns its transcript. */
async function transcribe(server: TestServer, wav: Uint8Array<ArrayBuffer>): Promise<string> {
  const init = { method: "POST", body: speechForm(wav) };
  return (await (await fetch(`${server.base}/v1/audio/transcriptions`, init)).json()).text;
}

/** Sends samples in short events, like a microphone, but without waiting. */
function appendAll(client: LiveClient, samples: Int16Array<ArrayBuffer>, step = 2400): void {
  for (let at = 0; at < samples.length; at += step) {
    client.append(getBytes(samples.subarray(at, at + step)));
  }
}

function deltas(events: readonly LiveEvent[]): string {
  return events.filter(({ type }) => type === `${TRANSCRIPTION}.delta`)
    .map(({ delta }) => delta).join("");
}

Deno.test("live speech: a committed recording has the same transcript as its upload", async () => {
  const { samples, wav } = CLIP_SAMPLES;
  using client = await LiveClient.open(server.base);
  const [created] = client.events;
  assert.equal(created!.type, "session.created");
  assert.equal(created!["session"].audio.input.turn_detection.type, "server_vad");
  client.send({ ...MANUAL, event_id: "mine" });
  const updated = await client.next();
  assert.equal(updated.type, "session.updated");
  assert.equal(updated["session"].audio.input.turn_detection, null);
  appendAll(client, samples, 1111);
  const odd = getBytes(samples);
  client.send({ type: "input_audio_buffer.clear" });
  assert.equal((await client.next()).type, "input_audio_buffer.cleared");
  // An odd number of bytes per event splits samples between two events.
  for (let at = 0; at < odd.length; at += 4801) client.append(odd.subarray(at, at + 4801));
  client.send({ type: "input_audio_buffer.commit" });
  const committed = await client.next();
  assert.equal(committed.type, "input_audio_buffer.committed");
  assert.equal(committed["previous_item_id"], null);
  const completed = await client.until(`${TRANSCRIPTION}.completed`);
  assert.equal(completed["item_id"], committed["item_id"]);
  assert.equal(completed["transcript"], await transcribe(server, wav));
  assert.equal(completed["transcript"], CLIP_TEXT);
  assert.equal(deltas(client.events), CLIP_TEXT);
  assert.deepEqual(completed["usage"], { type: "duration", seconds: 3.918 });
  const ids = client.events.map(({ event_id }) => event_id);
  assert.equal(new Set(ids).size, ids.length);
});

for (const [name, makeVad] of [["by loudness", undefined], ["by a model", makeTinyVad]] as const) {
  Deno.test(`live speech: turns are detected ${name}`, async () => {
    await using vad = await makeVad?.();
    await using server = await openSpeechServer({ vadFolder: vad?.folder });
    using client = await LiveClient.open(server.base);
    for (let turn = 0; turn < 2; turn++) {
      appendAll(client, CLIP_SAMPLES.samples);
      client.append(SILENCE);
    }
    const heard = [];
    for (let turn = 0; turn < 2; turn++) {
      heard.push(await client.until(`${TRANSCRIPTION}.completed`));
    }
    assert.deepEqual(heard.map(({ transcript }) => transcript), [CLIP_TEXT, CLIP_TEXT]);
    const of = (type: string) =>
      client.events.filter((event) => event.type === `input_audio_buffer.${type}`);
    const [committed, started, stopped] = ["committed", "speech_started", "speech_stopped"].map(of);
    const items = heard.map(({ item_id }) => item_id);
    for (const events of [committed, started, stopped]) {
      assert.deepEqual(events!.map(({ item_id }) => item_id), items);
    }
    assert.equal(committed![1]!["previous_item_id"], items[0]);
    // Speech begins 0.4 s after the clip's start, and ends 0.1 s before its end. The second turn begins 4.9 s later.
    const near = (seen: number, wanted: number) =>
      assert.ok(Math.abs(seen - wanted) < 250, `${seen} ms, not ${wanted}`);
    const periodMs = 1000 * CLIP.seconds + 1000;
    for (let turn = 0; turn < 2; turn++) {
      near(started![turn]!["audio_start_ms"], turn * periodMs + 150);
      near(stopped![turn]!["audio_end_ms"], turn * periodMs + 4150);
    }
    assert.equal(deltas(client.events), CLIP_TEXT + CLIP_TEXT);
  });
}

Deno.test("live speech: G.711 in OpenAI's older session format has the same transcript as its upload", async () => {
  const { samples } = await readSamples(await readRecording(CLIP.file), 8000);
  const laws = [["g711_ulaw", 7, encodeMuLaw], ["g711_alaw", 6, encodeALaw]] as const;
  for (const [format, tag, encode] of laws) {
    const bytes = Uint8Array.from(samples, encode);
    const wav = makeWav(samples, { sampleRateHz: 8000, bits: 8 });
    wav[20] = tag;
    wav.set(bytes, wav.length - bytes.length);
    using client = await LiveClient.open(server.base, {
      protocols: ["realtime", "openai-beta.realtime-v1"],
    });
    assert.equal(client.socket.protocol, "realtime");
    assert.equal(client.events[0]!.type, "transcription_session.created");
    client.send({
      type: "transcription_session.update",
      session: { input_audio_format: format, turn_detection: null },
    });
    const { session } = await client.until("transcription_session.updated");
    assert.equal(session.input_audio_format, format);
    client.append(bytes);
    client.send({ type: "input_audio_buffer.commit" });
    const created = await client.until("conversation.item.created");
    const { transcript, item_id } = await client.until(`${TRANSCRIPTION}.completed`);
    assert.equal(item_id, created["item"].id);
    assert.equal(transcript, await transcribe(server, wav));
    assert.notEqual(transcript, "");
  }
});

for (const name of ["until it is committed", "in detected turns"]) {
  Deno.test(`live speech: text arrives while somebody speaks, ${name}`, async () => {
    using client = await LiveClient.open(server.base);
    if (name === "until it is committed") client.send(MANUAL);
    const said: Int16Array<ArrayBuffer>[] = [];
    const isWriting = () => client.events.some(({ type }) => type === `${TRANSCRIPTION}.delta`);
    // The clip's first sentence, repeated in real time.
    const speech = CLIP_SAMPLES.samples.subarray(0.4 * RATE_HZ, 1.9 * RATE_HZ);
    for (let at = 0; !isWriting(); at += 2400) {
      const piece = speech.slice(at % speech.length, at % speech.length + 2400);
      client.append(getBytes(piece));
      said.push(piece);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.deepEqual(client.events.filter(({ type }) => type.endsWith(".committed")), []);
    const rest = new Int16Array(RATE_HZ);
    client.append(getBytes(rest));
    if (name === "until it is committed") client.send({ type: "input_audio_buffer.commit" });
    const committed = await client.until("input_audio_buffer.committed");
    const completed = await client.until(`${TRANSCRIPTION}.completed`);
    const ids = new Set(client.events.flatMap(({ item_id = [] }) => item_id));
    assert.deepEqual(ids, new Set([committed["item_id"]]));
    assert.equal(deltas(client.events), completed["transcript"]);
    if (name !== "until it is committed") return;
    const all = new Int16Array([...said, rest].flatMap((piece) => [...piece]));
    assert.equal(completed["transcript"], await transcribe(server, makeWavFile(all, RATE_HZ)));
  });
}

Deno.test("live speech: OpenAI's own client reads the events", async () => {
  const { port } = new URL(server.base);
  const openai = new OpenAI({ apiKey: "none", baseURL: `${server.base}/v1` });
  // The client requires TLS.
  const options = { createConnection: () => connect(Number(port), "127.0.0.1") };
  const client = new OpenAIRealtimeWS({ intent: "transcription", options } as never, openai);
  const completed = Promise.withResolvers<string>();
  const created = Promise.withResolvers<string>();
  client.on("error", completed.reject);
  client.on("session.created", ({ session }) => created.resolve(session.type));
  client.on(`${TRANSCRIPTION}.completed`, ({ transcript }) => completed.resolve(transcript));
  assert.equal(await created.promise, "transcription");
  client.send(MANUAL as never);
  client.send({
    type: "input_audio_buffer.append",
    audio: getBytes(CLIP_SAMPLES.samples).toBase64(),
  });
  client.send({ type: "input_audio_buffer.commit" });
  assert.equal(await completed.promise, CLIP_TEXT);
  client.close();
});

Deno.test("live speech: a client that sends a minute at once gets all turns, in order", async () => {
  const budget = new BodyBudget(64 * 2 ** 20);
  await using server = await openSpeechServer({ bodyLimits: { ...BODY_LIMITS, budget } });
  {
    using client = await LiveClient.open(server.base);
    client.send({
      type: "transcription_session.update",
      // The clip has a pause of about half a second.
      session: { turn_detection: { type: "server_vad", silence_duration_ms: 800 } },
    });
    const turn = new Uint8Array([...getBytes(CLIP_SAMPLES.samples), ...SILENCE]);
    const all = new Uint8Array(12 * turn.length);
    for (let n = 0; n < 12; n++) all.set(turn, n * turn.length);
    client.append(all);
    const committed: string[] = [];
    const completed: LiveEvent[] = [];
    while (completed.length < 12) {
      const event = await client.next();
      if (event.type === "input_audio_buffer.committed") committed.push(event["item_id"]);
      if (event.type === `${TRANSCRIPTION}.completed`) completed.push(event);
    }
    assert.deepEqual(completed.map(({ item_id }) => item_id), committed);
    assert.deepEqual([...new Set(completed.map(({ transcript }) => transcript))], [CLIP_TEXT]);
  }
  await server.untilIdle();
  while (budget.numBytes > 0) await new Promise((resolve) => setTimeout(resolve, 10));
});

Deno.test("live speech: 32 simultaneous sessions are all transcribed", async () => {
  await using server = await openSpeechServer({ maxQueue: 8 });
  const texts = await Promise.all(Array.from({ length: 32 }, async () => {
    using client = await LiveClient.open(server.base);
    appendAll(client, CLIP_SAMPLES.samples);
    client.append(SILENCE);
    return (await client.until(`${TRANSCRIPTION}.completed`))["transcript"];
  }));
  assert.deepEqual([...new Set(texts)], [CLIP_TEXT]);
});

Deno.test("live speech: the work for a client ends when it disconnects", async () => {
  const budget = new BodyBudget(2 ** 26);
  await using server = await openSpeechServer({ bodyLimits: { ...BODY_LIMITS, budget } });
  const connection = await openWebSocket(server.base);
  assert.equal(await server.figure("hearth_live_sessions"), 1);
  const long = new Uint8Array(20 * 2 * RATE_HZ);
  const event = { type: "input_audio_buffer.append", audio: long.toBase64() };
  for (const message of [MANUAL, event, { type: "input_audio_buffer.commit" }, event]) {
    await writeAll(connection, makeFrame(JSON.stringify(message)));
  }
  while (budget.numBytes === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  connection.close();
  while (budget.numBytes > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  await server.untilIdle();
  assert.equal(await server.figure("hearth_live_sessions"), 0);
  assert.equal(await transcribe(server, CLIP_SAMPLES.wav), CLIP_TEXT);
});

Deno.test("live speech: garbage is answered with errors, and the session continues", async () => {
  using client = await LiveClient.open(server.base);
  const error = async (text: string | Uint8Array<ArrayBuffer>): Promise<LiveEvent> => {
    client.socket.send(text);
    const event = await client.next();
    assert.equal(event.type, "error", JSON.stringify(event));
    return event["error"];
  };
  const many = `{"type":"x","y":[${"0,".repeat(100_000)}0]}`;
  for (
    const [text, code, message] of [
      ["", "invalid_json", /not JSON/],
      ["{", "invalid_json", /not JSON/],
      ["[1]", "invalid_value", /want an object/],
      ["{}", "invalid_value", /^type: want a string, saw nothing/],
      [crypto.getRandomValues(new Uint8Array(500)), "invalid_json", /not JSON/],
      [many, "payload_too_large", /at most 1000 values/],
      ["[".repeat(60_000), "invalid_json", /not JSON/],
      ['{"type":"response.create"}', "invalid_value", /only transcribes/],
      ['{"type":"input_audio_buffer.append"}', "invalid_value", /^audio: want the audio in base64/],
      ['{"type":"input_audio_buffer.append","audio":"*"}', "invalid_value", /^audio: want base64/],
      ['{"type":"input_audio_buffer.commit"}', "input_audio_buffer_commit_empty", /0 ms/],
      ['{"type":"session.update"}', "invalid_value", /^session: want an object/],
      ['{"type":"session.update","session":{"type":"realtime"}}', "invalid_value", /transcribes/],
      [
        '{"type":"session.update","session":{"audio":{"input":{"turn_detection":{"type":"semantic_vad"}}}}}',
        "invalid_value",
        /turn_detection.type: want "server_vad", or null/,
      ],
      [
        '{"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/mp3"}}}}}',
        "invalid_value",
        /audio\/pcmu/,
      ],
      [
        '{"type":"session.update","session":{"audio":{"input":{"transcription":{"language":"xx"}}}}}',
        "invalid_value",
        /language/,
      ],
    ] as const
  ) {
    const seen = await error(text);
    assert.equal(seen["code"], code, `${text} ${JSON.stringify(seen)}`);
    assert.match(seen["message"], message);
  }
  const named = await error('{"type":"unknown","event_id":"event_7"}');
  assert.equal(named["event_id"], "event_7");
  assert.equal(named["type"], "invalid_request_error");
  client.send(MANUAL);
  await client.until("session.updated");
  client.append(getBytes(CLIP_SAMPLES.samples));
  client.send({ type: "input_audio_buffer.commit" });
  assert.equal((await client.until(`${TRANSCRIPTION}.completed`))["transcript"], CLIP_TEXT);
});

Deno.test("live speech: broken frames, and messages that are too large, close the connection", async () => {
  using other = await LiveClient.open(server.base);
  const closeCode = async (bytes: Uint8Array<ArrayBuffer>) => {
    using connection = await openWebSocket(server.base);
    await writeAll(connection, bytes).catch(() => {});
    const answer = new Uint8Array(await new Response(connection.readable).arrayBuffer());
    // The last frame closes: two bytes of header, then the code.
    for (let at = 0; at < answer.length - 3; at++) {
      if (answer[at] === 0x88) return answer[at + 2]! * 256 + answer[at + 3]!;
    }
    return undefined;
  };
  const reserved = makeFrame("{}");
  reserved[0]! |= 0x40;
  assert.equal(await closeCode(reserved), 1002);
  assert.equal(await closeCode(new Uint8Array([0x81, 2, 0x7b, 0x7d])), 1002, "no mask");
  assert.equal(await closeCode(new Uint8Array([0x83, 0x80, 0, 0, 0, 0])), 1002, "no such frame");
  const huge = new Uint8Array([0x81, 0xff, 0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4]);
  assert.equal(await closeCode(huge), 1009);
  assert.equal(await closeCode(new Uint8Array([0x81, 0x81, 0, 0, 0, 0, 0xff])), 1007, "no UTF-8");
  other.send({ type: "input_audio_buffer.clear" });
  await other.until("input_audio_buffer.cleared");
});

Deno.test("live speech: memory for sound is limited", async () => {
  const budget = new BodyBudget(2 ** 20);
  await using server = await openSpeechServer({ bodyLimits: { ...BODY_LIMITS, budget } });
  using client = await LiveClient.open(server.base);
  client.append(new Uint8Array(2 ** 20));
  const { code, reason } = await client.closed;
  assert.equal(code, 1013);
  assert.match(reason, /more than the 1 MiB/);
  while (budget.numBytes > 0) await new Promise((resolve) => setTimeout(resolve, 10));
});

Deno.test("live speech: the handshake is guarded like all requests", async () => {
  await using server = await openSpeechServer({
    settings: { apiKeys: [{ key: "secret", label: "one" }], corsOrigins: ["https://a.example"] },
  });
  const status = async (headers: string, path = "/v1/realtime?intent=transcription") => {
    using connection = await askForWebSocket(server.base, { path, headers });
    const bytes = new Uint8Array(4096);
    const text = new TextDecoder().decode(bytes.subarray(0, (await connection.read(bytes)) ?? 0));
    const [, code] = /^HTTP\/1\.1 (\d+) /.exec(text)!;
    if (code !== "101") assert.match(text, /x-request-id: .*\{"error":/s);
    return Number(code);
  };
  const key = "Authorization: Bearer secret\r\n";
  assert.equal(await status(""), 401);
  assert.equal(await status("Authorization: Bearer wrong\r\n"), 401);
  assert.equal(await status(key), 101);
  const protocols = (value: string) => `Sec-WebSocket-Protocol: ${value}\r\n`;
  assert.equal(await status(protocols("realtime, openai-insecure-api-key.secret")), 101);
  assert.equal(await status(protocols("realtime, openai-insecure-api-key.secre")), 401);
  assert.equal(await status(`${key}Origin: https://b.example\r\n`), 403);
  assert.equal(await status(`${key}Origin: https://a.example\r\n`), 101);
  assert.equal(await status(`${key}Host: evil.example\r\n`), 403);
  assert.equal(await status(key, "/v1/realtime?intent=conversation"), 400);
  assert.equal(await status(key, "/v1/nothing"), 404);
  const headers = { authorization: "Bearer secret" };
  const plain = await fetch(`${server.base}/v1/realtime`, { headers });
  assert.equal(plain.status, 426);
  assert.equal(plain.headers.get("upgrade"), "websocket");
  assert.match((await plain.json()).error.message, /WebSocket/);
});

Deno.test("live speech: a stopping server transcribes the received sound, then closes with its reason", async () => {
  const server = await openSpeechServer({ settings: { drainSeconds: 20 } });
  const client = await LiveClient.open(server.base);
  client.send(MANUAL);
  client.append(getBytes(CLIP_SAMPLES.samples));
  client.send({ type: "input_audio_buffer.commit" });
  await client.until("input_audio_buffer.committed");
  const stopped = server[Symbol.asyncDispose]();
  assert.equal((await client.until(`${TRANSCRIPTION}.completed`))["transcript"], CLIP_TEXT);
  assert.deepEqual(await client.closed, { code: 1001, reason: "The server is shutting down." });
  await stopped;
});

Deno.test("live speech: a chat model refuses the connection", async () => {
  await using app = await new TestApp().ready();
  const refused = await app.request("/v1/realtime?intent=transcription");
  assert.equal(refused.status, 400);
  assert.equal((await refused.json()).error.code, "unsupported_by_model");
});

const IDLE_MS = 123_000;

/** Holds back all timers of one duration until it is disposed. The test runs their functions itself. */
class HeldTimers implements Disposable {
  numSet = 0;
  readonly waiting = new Map<number, () => void>();
  readonly #before = { setTimeout, clearTimeout };

  constructor(heldMs: number) {
    const { setTimeout, clearTimeout } = this.#before;
    Object.assign(globalThis, {
      setTimeout: (run: () => void, ms?: number, ...args: unknown[]) => {
        if (ms !== heldMs) return setTimeout(run, ms, ...args);
        this.waiting.set(--this.#lastId, run);
        this.numSet++;
        return this.#lastId;
      },
      clearTimeout: (id?: number) => {
        if (!this.waiting.delete(id!)) clearTimeout(id);
      },
    });
  }

  #lastId = 0;

  [Symbol.dispose](): void {
    Object.assign(globalThis, this.#before);
  }
}

Deno.test("live speech: a session whose client sends nothing ends", async () => {
  await using app = await openSpeechApp();
  const { session } = app;
  const budget = new BodyBudget(2 ** 20);
  const limits = { protocol: "realtime", maxMessageBytes: 2 ** 20, budget };
  await using listener = new TestListener(() => {}, {
    upgradeHandler: bridgeUpgrades((_request, { upgrade }) =>
      Promise.resolve(
        upgrade!((connection) =>
          MessageSocket.accept(connection, limits, (socket) => {
            const options = { socket, session, requestId: "one", budget, isBeta: false };
            void new LiveSession({ ...options, idleMs: IDLE_MS }).run();
          })
        ),
      )
    ),
  });
  using timers = new HeldTimers(IDLE_MS);
  using client = await LiveClient.open(listener.base);
  for (let n = 0; n < 5; n++) {
    client.send({ type: "input_audio_buffer.clear" });
    assert.equal((await client.next()).type, "input_audio_buffer.cleared");
  }
  // Each message restarts the timer.
  assert.equal(timers.numSet, 6);
  assert.equal(timers.waiting.size, 1);
  for (const end of timers.waiting.values()) end();
  assert.deepEqual(await client.closed, {
    code: 1000,
    reason: "The client sent nothing for 123 s.",
  });
});
