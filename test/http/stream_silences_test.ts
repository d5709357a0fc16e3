/** Streams with pauses, read as Dify does: split at blank lines, without the blocks that begin with a comment. */
import assert from "node:assert/strict";
import { chatBody, TestApp } from "../fixtures/servers/server.ts";
import {
  CLIP,
  CLIP_TEXT,
  openSpeechApp,
  readRecording,
  speechForm,
} from "../fixtures/servers/speech_server.ts";
import { openTtsApp, speechBody } from "../fixtures/servers/tts_server.ts";

const KEEP_ALIVE_MS = 10_000;

/** Shortens the wait before a keep-alive comment to 0 ms, until it is disposed. */
function hurrySilences(): Disposable {
  const { setTimeout } = globalThis;
  globalThis.setTimeout =
    ((run: () => void, ms: number, ...rest: unknown[]) =>
      setTimeout(run, ms === KEEP_ALIVE_MS ? 0 : ms, ...rest)) as typeof setTimeout;
  return { [Symbol.dispose]: () => void (globalThis.setTimeout = setTimeout) };
}

/**
 * Repeats the request until its stream has a keep-alive comment: a fast machine may make no pause of a millisecond.
 */
// deno-lint-ignore no-explicit-any -- `JSON.parse` returns any.
async function readAsDify(ask: () => Promise<Response>): Promise<any[]> {
  let stream = "";
  for (let i = 0; i < 30 && !/^: keep-alive$/m.test(stream); i++) {
    stream = await (await ask()).text();
  }
  assert.match(stream, /^: keep-alive$/m);
  return stream.split("\n\n").filter((piece) => piece !== "" && !piece.startsWith(":"))
    .map((piece) => piece.slice(piece.indexOf("data: ") + "data: ".length))
    .filter((data) => data !== "[DONE]").map((data) => JSON.parse(data));
}

Deno.test("streams of a chat model lose nothing because of a comment before an event", async () => {
  using _silences = hurrySilences();
  await using app = await new TestApp().ready();
  const read = async (path: string, body: Record<string, unknown>) =>
    await readAsDify(async () => await app.post(path, { ...body, stream: true, temperature: 0 }));
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const chat = await read("/v1/chat/completions", chatBody({ messages }));
  const said = chat.map(({ choices }) => choices[0].delta.content ?? "").join("");
  assert.equal(said, "The capital of France is Paris.");
  const prompt = "The capital of France is";
  const completed = await read("/v1/completions", chatBody({ prompt, max_tokens: 3 }));
  const whole = await app.post(
    "/v1/completions",
    chatBody({ prompt, max_tokens: 3, temperature: 0 }),
  );
  const { choices: [{ text }] } = await whole.json();
  assert.equal(completed.map(({ choices }) => choices[0].text).join(""), text);
  const message = await read("/v1/messages", chatBody({ messages, max_tokens: 20 }));
  assert.equal(message.map(({ delta }) => delta?.text ?? "").join(""), said);
});

Deno.test("streams of recognition and synthesis lose nothing because of a comment before an event", async () => {
  using _silences = hurrySilences();
  await using ears = await openSpeechApp();
  const recording = await readRecording(CLIP.file);
  const heard = await readAsDify(async () =>
    await ears.request("/v1/audio/transcriptions", {
      method: "POST",
      body: speechForm(recording, { stream: "true" }),
    })
  );
  const deltas = heard.map(({ delta = "" }) => delta);
  assert.equal(deltas.join(""), CLIP_TEXT);
  await using mouth = await openTtsApp();
  const wanted = { response_format: "wav", seed: 1 };
  const whole = await mouth.post("/v1/audio/speech", speechBody(wanted));
  const spoken = await readAsDify(async () =>
    await mouth.post("/v1/audio/speech", speechBody({ ...wanted, stream_format: "sse" }))
  );
  const parts = spoken.map(({ audio = "" }) => audio);
  const sound = parts.map((part) => atob(part)).join("");
  assert.equal(
    sound,
    (await whole.bytes()).reduce((text, byte) => text + String.fromCharCode(byte), ""),
  );
});
