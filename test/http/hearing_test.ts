/** Chats with sounds over HTTP: parts of all types, and damaged and unreadable sounds. */
import assert from "node:assert/strict";
import OpenAI from "openai";
import { makeWav, readFixture, SPEECH_FILES } from "../fixtures/audio/audio_files.ts";
import { damage } from "../fixtures/files/damage.ts";
import { makeSound } from "../fixtures/models/vision/vision_cases.ts";
import { makeVisionFolder } from "../fixtures/models/vision/vision_folder.ts";
import { TestApp, TestServer } from "../fixtures/servers/server.ts";
import { Random } from "../unit/engine/random.ts";

const MODEL = "hearth-demo-chat";
const WAV = makeWav(makeSound(0));
const DATA = WAV.toBase64();

function body(part: unknown): Record<string, unknown> {
  const content = [part, { type: "text", text: "What is said?" }];
  return { model: MODEL, messages: [{ role: "user", content }], temperature: 0, max_tokens: 6 };
}

Deno.test("chat: the official client sends sounds, and their tokens are counted", async () => {
  await using folder = await makeVisionFolder("gemma4");
  await using server = await TestServer.start({ folder: folder.path });
  const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });
  const part = {
    type: "input_audio" as const,
    input_audio: { data: DATA, format: "wav" as const },
  };
  const text = { type: "text" as const, text: "What is said?" };
  const ask = { model: MODEL, temperature: 0, max_tokens: 6 };
  const messages = [{ role: "user" as const, content: [part, text] }];
  const { choices: [choice], usage } = await client.chat.completions.create({ ...ask, messages });
  // Frames of 10 ms, four to a token.
  assert.equal(usage!.prompt_tokens_details!.audio_tokens, 17);
  assert.ok(usage!.prompt_tokens > 17);
  let streamed = "";
  const stream = await client.chat.completions.create({
    ...ask,
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  let streamedUsage: OpenAI.CompletionUsage | undefined;
  for await (const chunk of stream) {
    streamed += chunk.choices[0]?.delta.content ?? "";
    streamedUsage = chunk.usage ?? streamedUsage;
  }
  assert.equal(streamed, choice!.message.content);
  assert.equal(streamedUsage!.prompt_tokens_details!.audio_tokens, 17);
  assert.ok(streamedUsage!.prompt_tokens_details!.cached_tokens! >= 16);
  const response = await client.responses.create({
    model: MODEL,
    temperature: 0,
    max_output_tokens: 6,
    input: [{
      role: "user",
      content: [
        { type: "input_audio", input_audio: { data: DATA, format: "wav" } },
        { type: "input_text", text: "What is said?" },
      ] as OpenAI.Responses.ResponseInputMessageContentList,
    }],
  });
  assert.equal(response.output_text, choice!.message.content);
  const next = await client.responses.create({
    model: MODEL,
    max_output_tokens: 3,
    previous_response_id: response.id,
    input: "And now?",
  });
  assert.ok(next.usage!.input_tokens > response.usage!.input_tokens);
  assert.equal(await server.figure("hearth_audio_encoder_runs_total"), 1);
});

Deno.test("chat: sounds are accepted in every format of audio parts", async () => {
  await using folder = await makeVisionFolder("gemma3n");
  await using app = await new TestApp({ folder: folder.path }).ready();
  const ask = async (part: unknown) => {
    const response = await app.post("/v1/chat/completions", body(part));
    const json = await response.json();
    assert.equal(response.status, 200, JSON.stringify(json));
    return [json.choices[0].message.content, json.usage.prompt_tokens_details.audio_tokens];
  };
  const wanted = await ask({ type: "input_audio", input_audio: { data: DATA, format: "wav" } });
  assert.equal(wanted[1], 24);
  const parts = [
    { type: "audio", audio_url: `data:audio/wav;base64,${DATA}` },
    { type: "audio_url", audio_url: { url: `base64://${DATA}` } },
    // The format is detected from the content.
    { type: "input_audio", input_audio: { data: DATA, format: "webm" } },
    { type: "file", file: { file_data: `data:audio/wav;base64,${DATA}` } },
  ];
  for (const part of parts) assert.deepEqual(await ask(part), wanted);
  const opus = readFixture("speech_48k_opus.webm").toBase64();
  await ask({ type: "input_audio", input_audio: { data: opus, format: "webm" } });
});

Deno.test("chat: unreadable sounds are refused with the reason", async () => {
  await using folder = await makeVisionFolder("gemma3n");
  await using app = await new TestApp({ folder: folder.path }).ready();
  const refuse = async (request: Record<string, unknown>) => {
    const response = await app.post("/v1/chat/completions", request);
    const { error } = await response.json();
    return [response.status, error.code, error.param, error.message];
  };
  const input = (data: string) => ({ type: "input_audio", input_audio: { data, format: "wav" } });
  const [status, code, param, message] = await refuse(body(input(btoa("no sound"))));
  assert.deepEqual([status, code, param], [400, "invalid_media", "messages[0].content[0]"]);
  assert.match(message, /^messages\[0\]\.content\[0\]: The file is not supported audio/);
  const long = makeWav(new Float32Array(31 * 8000), { sampleRateHz: 8000 }).toBase64();
  assert.match((await refuse(body(input(long))))[3], /lasts longer than 3\.84 s/);
  const posed = {
    ...body(input(DATA)),
    messages: [{ role: "user", content: "<audio_soft_token>" }],
  };
  assert.match((await refuse(posed))[3], /"<audio_soft_token>", which stands for a sound/);
  await using deaf = await new TestApp({}).ready();
  const response = await deaf.post("/v1/chat/completions", body(input(DATA)));
  const { error } = await response.json();
  assert.deepEqual([response.status, error.code], [400, "unsupported_by_model"]);
  assert.match(error.message, /takes text and PDF files, saw audio/);
});

Deno.test("chat: damaged sounds get 400 or an answer, and affect no other request", async () => {
  await using folder = await makeVisionFolder("gemma4");
  await using app = await new TestApp({ folder: folder.path }).ready();
  const random = new Random(11);
  const ask = async (file: Uint8Array<ArrayBuffer>) => {
    const input_audio = { data: file.toBase64(), format: "wav" };
    const response = await app.post(
      "/v1/chat/completions",
      body({ type: "input_audio", input_audio }),
    );
    return { status: response.status, json: await response.json() };
  };
  const wanted = (await ask(WAV)).json.choices[0].message.content;
  let numAnswers = 0;
  for (let round = 0; round < 6; round++) {
    const files = Array.from({ length: 10 }, () => {
      const name = SPEECH_FILES[random.between(0, SPEECH_FILES.length - 1)]!;
      return damage(readFixture(name), random);
    });
    for (const { status, json } of await Promise.all(files.map(ask))) {
      if (status === 200) numAnswers++;
      else assert.deepEqual([status, json.error.code], [400, "invalid_media"], json.error.message);
    }
    assert.equal((await ask(WAV)).json.choices[0].message.content, wanted);
  }
  assert.ok(numAnswers > 0 && numAnswers < 60, `${numAnswers} answers`);
});

Deno.test("chat: clients that disconnect while a sound is read or answered leave nothing behind", async () => {
  await using folder = await makeVisionFolder("gemma3n");
  await using server = await TestServer.start({ folder: folder.path });
  const random = new Random(13);
  await Promise.all(Array.from({ length: 30 }, async (_, i) => {
    // Different samples each time, so that every sound is read.
    const data = makeWav(new Float32Array(3 * 16_000).fill(i / 100)).toBase64();
    const request = { ...body({ type: "input_audio", input_audio: { data, format: "wav" } }) };
    try {
      const response = await fetch(`${server.base}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ ...request, max_tokens: 40, stream: i % 2 === 0 }),
        signal: AbortSignal.timeout(random.between(1, 600)),
      });
      await response.text();
    } catch (error) {
      assert.equal((error as Error).name, "TimeoutError");
    }
  }));
  const { choices: [choice] } = await (await fetch(`${server.base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body({ type: "input_audio", input_audio: { data: DATA, format: "wav" } })),
  })).json();
  assert.ok(choice.message.content.length > 0);
  await server.untilIdle();
  assert.equal(await server.figure("hearth_kv_blocks_used"), 0);
});
