/** Traffic through the router: live speech, streamed sound and slow readers. */
import assert from "node:assert/strict";
import { HearthProcess } from "../../fixtures/servers/hearth_process.ts";
import { getBytes, LiveClient, readSamples } from "../../fixtures/servers/live_client.ts";
import { CLIP, CLIP_TEXT, readRecording } from "../../fixtures/servers/speech_server.ts";
import { askForWebSocket } from "../../fixtures/servers/raw_web_socket.ts";

const ASR = "hearth-demo-asr";
const CHAT = "hearth-demo-chat";
const TTS = "hearth-demo-tts";
const TRANSCRIPTION = "conversation.item.input_audio_transcription";

function startRouter(models: readonly string[], flags: readonly string[] = []): HearthProcess {
  const words = models.flatMap((model) => ["-m", model]);
  return new HearthProcess(["router", ...words, "-p", "0", "--device", "cpu", ...flags]);
}

async function figure(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, "m").exec(text)?.[1] ?? 0);
}

Deno.test("router: live speech goes to the recogniser, which is loaded on demand", async () => {
  await using router = startRouter([CHAT, ASR], ["--api-key", "secret", "--drain-seconds", "20"]);
  const url = await router.url();
  const { samples } = await readSamples(await readRecording(CLIP.file));
  const client = await LiveClient.open(url, {
    protocols: ["realtime", "openai-insecure-api-key.secret"],
  });
  assert.equal(client.socket.protocol, "realtime");
  assert.equal(client.events[0]!["session"].audio.input.transcription.model, ASR);
  for (let at = 0; at < samples.length; at += 2400) {
    client.append(getBytes(samples.subarray(at, at + 2400)));
  }
  client.append(new Uint8Array(48_000));
  assert.equal((await client.until(`${TRANSCRIPTION}.completed`))["transcript"], CLIP_TEXT);
  const status = async (headers: string, path?: string) => {
    using connection = await askForWebSocket(url, { headers, ...(path && { path }) });
    const bytes = new Uint8Array(4096);
    const text = new TextDecoder().decode(bytes.subarray(0, (await connection.read(bytes)) ?? 0));
    return Number(/^HTTP\/1\.1 (\d+) /.exec(text)![1]);
  };
  const key = "Authorization: Bearer secret\r\n";
  assert.equal(await status(""), 401);
  assert.equal(await status(`${key}Origin: https://b.example\r\n`), 403);
  assert.equal(await status(key, `/v1/realtime?intent=transcription&model=${CHAT}`), 400);
  assert.equal(await status(key, "/v1/realtime?intent=other"), 400);
  assert.equal(await status(key, `/v1/realtime?model=${ASR}`), 101);
  // A client that disappears also ends its session with the model.
  const sessions = async () => {
    const headers = { authorization: "Bearer secret" };
    const text = await (await fetch(`${url}/metrics`, { headers })).text();
    const pattern = new RegExp(`^hearth_router_requests_in_flight\\{model="${ASR}"\\} (\\d+)`, "m");
    return Number(pattern.exec(text)![1]);
  };
  while (await sessions() !== 1) await new Promise((resolve) => setTimeout(resolve, 50));
  client.append(getBytes(samples));
  client.send({ type: "input_audio_buffer.commit" });
  await client.until("input_audio_buffer.committed");
  router.kill("SIGTERM");
  assert.equal((await client.until(`${TRANSCRIPTION}.completed`))["transcript"], CLIP_TEXT);
  assert.equal((await client.closed).code, 1001);
  assert.equal((await router.ending).code, 0);
});

Deno.test("router: speech plays during synthesis, and a slow reader slows down the model", async () => {
  await using router = startRouter([TTS]);
  const url = await router.url();
  const sentence = "The quick brown fox jumps over one more of those dogs. ";
  const speak = async (numSentences: number) => {
    const input = sentence.repeat(numSentences);
    const response = await fetch(`${url}/v1/audio/speech`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: TTS, input, response_format: "pcm" }),
    });
    assert.equal(response.status, 200);
    return response.body!.getReader();
  };
  const spoken = () => figure(url, "hearth_prompt_tokens_total");
  const short = await speak(1);
  for (let read = await short.read(); !read.done; read = await short.read());
  const perSentence = await spoken();
  const long = await speak(400);
  let numBytes = (await long.read()).value!.length;
  let before = -1;
  for (let now = await spoken(); now !== before; now = await spoken()) {
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  // The first bytes arrive long before the last are synthesized.
  assert.ok(before < 350 * perSentence, `${before / perSentence} sentences were made unread`);
  const heldBytes = await figure(url, "hearth_router_resident_memory_bytes");
  for (let read = await long.read(); !read.done; read = await long.read()) {
    numBytes += read.value.length;
  }
  assert.ok(numBytes > 2 ** 24, `${numBytes}`);
  assert.equal(await spoken(), 401 * perSentence);
  const grownBytes = await figure(url, "hearth_router_resident_memory_bytes") - heldBytes;
  assert.ok(grownBytes < 40 * 2 ** 20, `${grownBytes / 2 ** 20} MiB more`);
});
