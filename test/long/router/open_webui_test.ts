/**
 * The requests of Open WebUI, as in its source (backend/open_webui: routers/openai.py, tasks.py and audio.py,
 * retrieval/utils.py, retrieval/models/external.py), sent to a router with the models of docs/open_webui.md; and the
 * parts of the answers that it reads.
 */
import assert from "node:assert/strict";
import { HearthProcess } from "../../fixtures/servers/hearth_process.ts";
import { readStrictly } from "../../fixtures/servers/sse.ts";
import { CLIP, CLIP_TEXT, readRecording } from "../../fixtures/servers/speech_server.ts";

const KEY = "secret";
const CONFIG = `models:
  - model: hearth-demo-chat
  - model: hearth-demo-vision
  - model: hearth-demo-embed
    model-alias: text-embedding-3-small
  - model: hearth-demo-rerank
    model-alias: reranker
  - model: hearth-demo-asr
    model-alias: whisper-1
  - model: hearth-demo-tts
    model-alias: tts-1
`;
/** Open WebUI sends its user's name to servers that an administrator trusts. */
const HEADERS = {
  authorization: `Bearer ${KEY}`,
  "content-type": "application/json",
  "x-openwebui-user-name": "Ada%20Lovelace",
  "x-openwebui-user-role": "admin",
};

const config = Deno.makeTempFileSync({ suffix: ".yaml" });
Deno.writeTextFileSync(config, CONFIG);
const words = ["--config", config, "-p", "0", "--device", "cpu", "--max-loaded", "3"];
const router = new HearthProcess(["router", ...words], { env: { HEARTH_API_KEY: KEY } });
const base = `${await router.url()}/v1`;

async function post(path: string, body: unknown): Promise<Response> {
  const init = { method: "POST", headers: HEADERS, body: JSON.stringify(body) };
  const response = await fetch(`${base}${path}`, init);
  assert.equal(response.status, 200, response.ok ? "" : await response.text());
  return response;
}

const USER = { role: "user", content: "What is the capital of France?" };

Deno.test("Open WebUI lists the models, which also verifies the connection", async () => {
  const { data } = await (await fetch(`${base}/models`, { headers: HEADERS })).json();
  assert.equal(data.length, 6);
  for (const model of data) assert.equal(typeof model.id, "string");
  const refused = await fetch(`${base}/models`, { headers: { authorization: "Bearer wrong" } });
  assert.equal(refused.status, 401);
  // Open WebUI shows this field, or else the whole body.
  assert.equal(typeof (await refused.json()).error.message, "string");
});

Deno.test("Open WebUI streams a chat, with its usage", async () => {
  const response = await post("/chat/completions", {
    stream: true,
    model: "hearth-demo-chat",
    messages: [{ role: "system", content: "User Context:\n\nBe brief." }, USER],
    temperature: 0,
    max_tokens: 8,
    stream_options: { include_usage: true },
  });
  assert.match(response.headers.get("content-type")!, /^text\/event-stream/);
  const text = await response.text();
  assert.ok(text.endsWith("data: [DONE]\n\n"));
  const chunks = readStrictly(text);
  const content = chunks.map(({ choices }) => choices[0]?.delta?.content ?? "").join("");
  assert.notEqual(content, "");
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.ok(chunks.at(-1).usage.completion_tokens > 0);
});

Deno.test("Open WebUI asks for a title without a stream", async () => {
  const response = await post("/chat/completions", {
    model: "hearth-demo-chat",
    messages: [{
      role: "user",
      content: "### Task:\nGenerate a concise title.\n<chat_history>\nUSER: Hello\n</chat_history>",
    }],
    stream: false,
    max_completion_tokens: 20,
  });
  const { choices: [{ message }] } = await response.json();
  assert.equal(typeof message.content, "string");
});

Deno.test("Open WebUI gets a whole stream for a chat with tools", async () => {
  const response = await post("/chat/completions", {
    stream: true,
    model: "hearth-demo-chat",
    messages: [USER],
    max_tokens: 8,
    tools: [{
      type: "function",
      function: {
        name: "search_web",
        description: "Search the web.",
        parameters: {
          type: "object",
          properties: { query: { type: "string", description: "What to look for." } },
          required: ["query"],
        },
      },
    }],
    stream_options: { include_usage: true },
  });
  assert.ok((await response.text()).endsWith("data: [DONE]\n\n"));
});

Deno.test("Open WebUI shows a picture to a vision model", async () => {
  const picture = await Deno.readFile(new URL("../../../docs/samples/circle.png", import.meta.url));
  const response = await post("/chat/completions", {
    stream: true,
    model: "hearth-demo-vision",
    messages: [{
      role: "user",
      content: [
        { type: "text", text: "What is in this image?" },
        { type: "image_url", image_url: { url: `data:image/png;base64,${picture.toBase64()}` } },
      ],
    }],
    max_tokens: 8,
    stream_options: { include_usage: true },
  });
  const chunks = readStrictly(await response.text());
  assert.notEqual(chunks.map(({ choices }) => choices[0]?.delta?.content ?? "").join(""), "");
});

Deno.test("Open WebUI embeds the chunks of a document, and a question", async () => {
  for (const input of [["A first piece.", "A second piece."], ["What is it about?"]]) {
    const response = await post("/embeddings", { input, model: "text-embedding-3-small" });
    const { data } = await response.json();
    assert.equal(data.length, input.length);
    assert.equal(typeof data[0].embedding[0], "number");
  }
});

Deno.test("Open WebUI ranks chunks for a hybrid search", async () => {
  const documents = ["Stocks fell on Monday.", "The cat sat on the mat."];
  const body = { model: "reranker", query: "cats", documents, top_n: documents.length };
  const { results } = await (await post("/rerank", body)).json();
  assert.deepEqual(results.map(({ index }: { index: number }) => index), [1, 0]);
  assert.ok(results[0].relevance_score > results[1].relevance_score);
});

Deno.test("Open WebUI transcribes speech, with the form data of requests and of aiohttp", async () => {
  const file = await readRecording(CLIP.file);
  const boundary = "7d1a6b0e9f3c4d5e8a2b";
  const field = (name: string, value: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  // Python's requests gives the part no content type, and sends the fields first.
  for (
    const [type, fields] of [["", ""], ["Content-Type: audio/wav\r\n", field("language", "en")]]
  ) {
    const head = `${field("model", "whisper-1")}${fields}--${boundary}\r\n` +
      `Content-Disposition: form-data; name="file"; filename="1b2c.wav"\r\n${type}\r\n`;
    const body = new Blob([head, file, `\r\n--${boundary}--\r\n`]);
    const response = await fetch(`${base}/audio/transcriptions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${KEY}`,
        "content-type": `multipart/form-data; boundary=${boundary}`,
      },
      body,
    });
    assert.equal(response.status, 200);
    assert.equal((await response.json()).text, CLIP_TEXT);
  }
});

Deno.test("Open WebUI reads an answer aloud, with a voice from the list", async () => {
  // Open WebUI requests models and voices without a key, and uses OpenAI's names if they are refused.
  assert.equal((await fetch(`${base}/audio/models`)).status, 401);
  const { models } = await (await fetch(`${base}/audio/models`, { headers: HEADERS })).json();
  assert.deepEqual(models.map(({ id }: { id: string }) => id), [
    "hearth-demo-asr",
    "hearth-demo-tts",
  ]);
  const { voices } = await (await fetch(`${base}/audio/voices`, { headers: HEADERS })).json();
  for (const voice of ["alloy", voices[0].id]) {
    const response = await post("/audio/speech", { input: "Hello.", voice, model: "tts-1" });
    assert.equal(response.headers.get("content-type"), "audio/mpeg");
    assert.ok((await response.arrayBuffer()).byteLength > 500);
  }
});

Deno.test("Open WebUI's image generation is refused as not served", async () => {
  const response = await fetch(`${base}/images/generations`, {
    method: "POST",
    headers: HEADERS,
    body: JSON.stringify({ model: "dall-e-2", prompt: "a cat", n: 1, size: "512x512" }),
  });
  assert.equal(response.status, 404);
  assert.equal(typeof (await response.json()).error.message, "string");
});

Deno.test.afterAll(async () => {
  await router[Symbol.asyncDispose]();
  Deno.removeSync(config);
});
