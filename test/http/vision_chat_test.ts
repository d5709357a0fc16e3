/** Chats with images over HTTP: references of all kinds, hostile files, clients that disconnect. */
import assert from "node:assert/strict";
import OpenAI from "openai";
import { damage } from "../fixtures/files/damage.ts";
import { IMAGES } from "../fixtures/images/images.ts";
import { TestApp, TestServer } from "../fixtures/servers/server.ts";
import { drawImage } from "../fixtures/models/vision/vision_cases.ts";
import { makeVisionFolder } from "../fixtures/models/vision/vision_folder.ts";
import { Random } from "../unit/engine/random.ts";

const NUM_FILES = 300;
const AT_ONCE = 20;
const SIZE = [84, 56] as const;

function dataUrl(file: Uint8Array<ArrayBuffer>): string {
  return `data:image/png;base64,${file.toBase64()}`;
}

function body(url: string, extra: Record<string, unknown> = {}): Record<string, unknown> {
  const content = [
    { type: "image_url", image_url: { url } },
    { type: "text", text: "What colors are there?" },
  ];
  const messages = [{ role: "user", content }];
  return { model: "hearth-demo-chat", messages, temperature: 0, max_tokens: 6, ...extra };
}

Deno.test("chat: the official client sends images as data, by address, several at once, and with a stream", async () => {
  await using folder = await makeVisionFolder("qwen2_5_vl");
  await using server = await TestServer.start({ folder: folder.path });
  const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });
  const [first, second] = [drawImage(0, SIZE), drawImage(1, SIZE)];
  await using files = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    (request) => new Response(request.url.endsWith("/0.png") ? first : second),
  );
  const ask = (urls: readonly string[]) => ({
    model: "hearth-demo-chat",
    messages: [{
      role: "user" as const,
      content: [
        ...urls.map((url) => ({ type: "image_url" as const, image_url: { url } })),
        { type: "text" as const, text: "What differs?" },
      ],
    }],
    temperature: 0,
    max_tokens: 8,
  });
  const byData = await client.chat.completions.create(ask([dataUrl(first), dataUrl(second)]));
  const base = `http://127.0.0.1:${files.addr.port}`;
  const byAddress = await client.chat.completions.create(ask([`${base}/0.png`, `${base}/1.png`]));
  assert.deepEqual(byAddress.choices, byData.choices);
  const shouted = dataUrl(first).replace("data:image/png;base64", "DATA:IMAGE/PNG;BASE64");
  const byShouting = await client.chat.completions.create(ask([
    shouted,
    `${base}/1.png`.replace("http:", "HTTP:"),
  ]));
  assert.deepEqual(byShouting.choices, byData.choices);
  // An image has 24 patches, 4 to a token, and a token before and after them.
  const alone = await client.chat.completions.create(ask([dataUrl(first)]));
  assert.equal(byData.usage!.prompt_tokens - alone.usage!.prompt_tokens, 6 + 2);
  assert.ok(byAddress.usage!.prompt_tokens_details!.cached_tokens! >= 16);
  assert.equal(await server.figure("hearth_vision_encoder_runs_total"), 2);

  let streamed = "";
  const stream = await client.chat.completions.create({
    ...ask([dataUrl(first), dataUrl(second)]),
    stream: true,
  });
  for await (const { choices: [choice] } of stream) streamed += choice?.delta.content ?? "";
  assert.equal(streamed, byData.choices[0]!.message.content);
});

Deno.test(`chat: ${NUM_FILES} damaged images get 400 or an answer, and affect no other request`, async () => {
  await using folder = await makeVisionFolder("idefics3");
  await using app = await new TestApp({ folder: folder.path }).ready();
  const random = new Random(5);
  const intact = dataUrl(drawImage(0, SIZE));
  const ask = async (url: string) => {
    const response = await app.post("/v1/chat/completions", body(url));
    return { status: response.status, json: await response.json() };
  };
  const wanted = (await ask(intact)).json.choices[0].message.content;
  let numAnswers = 0;
  for (let from = 0; from < NUM_FILES; from += AT_ONCE) {
    const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => {
      const { file } = IMAGES[random.between(0, IMAGES.length - 1)]!;
      return ask(dataUrl(damage(file, random)));
    }));
    for (const { status, json } of answers) {
      if (status === 200) numAnswers++;
      else {
        assert.deepEqual([status, json.error.code], [400, "invalid_media"], json.error.message);
        assert.equal(json.error.param, "messages[0].content[0]");
      }
    }
    assert.equal((await ask(intact)).json.choices[0].message.content, wanted);
  }
  assert.ok(numAnswers > 0 && numAnswers < NUM_FILES, `${numAnswers} answers`);
});

Deno.test("chat: clients that disconnect while images are read or answered leave nothing behind", async () => {
  await using folder = await makeVisionFolder("qwen2_5_vl");
  await using server = await TestServer.start({ folder: folder.path });
  const random = new Random(3);
  const image = drawImage(2, [500, 500]);
  const requests = Array.from({ length: 40 }, async (_, i) => {
    // Different bytes each time, so that every image is read.
    const file = new Uint8Array(image.length + i % 10);
    file.set(image);
    const signal = AbortSignal.timeout(random.between(1, 400));
    try {
      const response = await fetch(`${server.base}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body(dataUrl(file), { max_tokens: 60, stream: i % 2 === 0 })),
        signal,
      });
      await response.text();
    } catch (error) {
      assert.equal((error as Error).name, "TimeoutError");
    }
  });
  await Promise.all(requests);
  await server.untilIdle();
  assert.equal(await server.figure("hearth_kv_blocks_used"), 0);
  const response = await fetch(`${server.base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body(dataUrl(drawImage(0, SIZE)))),
  });
  assert.equal(response.status, 200);
  assert.equal((await response.json()).usage.completion_tokens, 6);
});

Deno.test("chat: images that are too large together are answered 413 and freed", async () => {
  await using folder = await makeVisionFolder("qwen2_5_vl");
  await using app = await new TestApp({ folder: folder.path }).ready();
  const file = `${folder.path}/large.png`;
  await Deno.writeFile(file, new Uint8Array(40 * 2 ** 20));
  const part = { type: "image_url", image_url: { url: `file://${file}` } };
  const response = await app.post("/v1/chat/completions", {
    model: "hearth-demo-chat",
    messages: [
      { role: "user", content: [part, part] },
      { role: "user", content: [part, { type: "text", text: "What differs?" }] },
    ],
  });
  const { error } = await response.json();
  assert.deepEqual([response.status, error.code], [413, "payload_too_large"]);
  assert.match(error.message, /messages\[1\]\.content\[0\]: .* 100 MiB/);
});

Deno.test("/messages and /responses read images as data, and a stored response keeps them as sent; one too large is not stored", async () => {
  await using folder = await makeVisionFolder("qwen2_5_vl");
  await using server = await TestServer.start({ folder: folder.path });
  const post = async (path: string, fields: Record<string, unknown>) => {
    const response = await fetch(`${server.base}/v1${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "hearth-demo-chat", temperature: 0, ...fields }),
    });
    const answer = await response.json();
    assert.equal(response.status, 200, JSON.stringify(answer));
    return answer;
  };
  const file = drawImage(2, SIZE);
  const image_url = dataUrl(file);
  // Bytes after the last chunk of a PNG are ignored.
  const padded = new Uint8Array(17 * 2 ** 20);
  padded.set(file);
  const input = (url: string) => [{
    role: "user",
    content: [{ type: "input_image", image_url: url }, { type: "input_text", text: "What?" }],
  }];
  const source = { type: "base64", media_type: "image/png", data: file.toBase64() };
  const content = [{ type: "image", source }, { type: "text", text: "What?" }];
  const message = await post("/messages", {
    messages: [{ role: "user", content }],
    max_tokens: 6,
  });
  const limit = { max_output_tokens: 6 };
  const first = await post("/responses", { input: input(image_url), ...limit });
  const text = first.output[0].content[0].text;
  assert.equal(message.content[0].text, text);
  const items = await (await fetch(`${server.base}/v1/responses/${first.id}/input_items`)).json();
  assert.equal(items.data[0].content[0].image_url, image_url);
  const previous = { previous_response_id: first.id, ...limit };
  const second = await post("/responses", { input: "And now?", ...previous });
  assert.ok(second.usage.input_tokens > first.usage.input_tokens);
  for (const truncation of ["disabled", "auto"]) {
    const large = await post("/responses", { input: input(dataUrl(padded)), ...limit, truncation });
    assert.equal(large.output[0].content[0].text, text);
    assert.equal((await fetch(`${server.base}/v1/responses/${large.id}`)).status, 404);
  }
});
