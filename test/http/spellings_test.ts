/** Requests in the spellings of other servers' APIs have the same meaning here. */
import assert from "node:assert/strict";
import { encodePng } from "../../src/media/image/png.ts";
import { chatBody, ENDLESS, MODEL, shareApp, TestApp } from "../fixtures/servers/server.ts";
import { readStrictly } from "../fixtures/servers/sse.ts";
import { askWeather, TOOLS } from "../fixtures/servers/weather.ts";

const app = shareApp();

const CHAT = "/v1/chat/completions";

type Fields = Readonly<Record<string, unknown>>;

async function readAnswer(app: TestApp, path: string, body: Fields) {
  const response = await app.post(path, body);
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify([body, answer]));
  return answer;
}

/** The first choice of the answer to a chat with these fields. */
async function readChoice(app: TestApp, fields: Fields) {
  return (await readAnswer(app, CHAT, chatBody(fields))).choices[0];
}

Deno.test("the limit of tokens has many names; 0 is no limit in chats, and generates nothing in completions", async () => {
  const chat = { max_tokens: undefined };
  const whole = await readChoice(app, chat);
  assert.equal(whole.finish_reason, "stop");
  for (const name of ["n_predict", "num_predict", "max_new_tokens", "max_output_tokens"]) {
    const cut = await readChoice(app, { ...chat, [name]: 3 });
    assert.deepEqual([cut.message.content, cut.finish_reason], ["The capital of", "length"], name);
  }
  for (const fields of [{ max_tokens: 0 }, { max_completion_tokens: 0 }, { n_predict: -2 }]) {
    assert.deepEqual(await readChoice(app, { ...chat, ...fields }), whole);
  }
  const prompt = "The capital of France is";
  const completion = { model: MODEL, prompt, temperature: 0 };
  const { choices, usage } = await readAnswer(app, "/v1/completions", {
    ...completion,
    n_predict: 2,
  });
  assert.equal(usage.completion_tokens, 2);
  const none = await readAnswer(app, "/v1/completions", { ...completion, max_tokens: 0 });
  assert.deepEqual([none.choices[0].text, none.choices[0].finish_reason], ["", "length"]);
  assert.notEqual(choices[0].text, "");
});

Deno.test("chat: empty stops, biases and options have no effect, and stop_sequences are stops", async () => {
  const plain = await readChoice(app, {});
  const empty = { stop: "", logit_bias: [], best_of: 1, echo: false, format: "", tools: [] };
  assert.deepEqual(await readChoice(app, empty), plain);
  assert.deepEqual(await readChoice(app, { stop: ["", ""], web_search_options: {} }), plain);
  for (const stop of [{ stop: ["", " of"] }, { stop_sequences: [" of"] }]) {
    assert.equal((await readChoice(app, stop)).message.content, "The capital");
  }
  const { logprobs } = await readChoice(app, { n_probs: 2 });
  assert.equal(logprobs.content[0].top_logprobs.length, 2);
});

Deno.test("chat: seed -1 draws new tokens each time", async () => {
  const options = { seed: -1, temperature: 2, max_tokens: 40, logit_bias: ENDLESS.logit_bias };
  const texts = new Set<string>();
  for (let i = 0; i < 3; i++) texts.add((await readChoice(app, options)).message.content);
  assert.equal(texts.size, 3);
});

Deno.test("chat: repeat_penalty considers repeat_last_n tokens", async () => {
  const long = { ...ENDLESS, max_tokens: 60 };
  const text = async (fields: Fields) =>
    (await readChoice(app, { ...long, ...fields })).message.content;
  const plain = await text({});
  const penalised = await text({ repetition_penalty: 1.5 });
  assert.notEqual(penalised, plain);
  assert.equal(await text({ repeat_penalty: 1.5, repeat_last_n: -1 }), penalised);
  assert.equal(await text({ repeat_penalty: 1.5, repeat_last_n: 0 }), plain);
  assert.equal(await text({ repeat_penalty: 1 }), plain);
  const windowed = await text({ repeat_penalty: 1.5, repeat_last_n: 4 });
  assert.ok(windowed !== plain && windowed !== penalised);
});

Deno.test("DRY keeps a completion from continuing a repetition, up to breakers and within its window", async () => {
  const prompt = "one two three one two three one two three one two";
  const text = async (fields: Fields) => {
    const body = chatBody({ prompt, max_tokens: 16, temperature: 0, ...fields });
    const response = await app.post("/v1/completions", body);
    assert.deepEqual([response.status, response.headers.get("warning")], [200, null]);
    return (await response.json()).choices[0].text as string;
  };
  const repeated = " three one two three one two three one two three one two three one two three";
  assert.equal(await text({}), repeated);
  const breakers = { dry_sequence_breakers: [] };
  const penalised = await text({ dry_multiplier: 5, ...breakers });
  assert.ok(!penalised.includes("three one two three one two"), penalised);
  assert.equal(await text({ dry_multiplier: "5", dry_sequence_breakers: "[]" }), penalised);
  for (
    const off of [
      { dry_multiplier: 0 },
      { dry_multiplier: 5, ...breakers, dry_base: 0 },
      { dry_multiplier: 5, ...breakers, dry_penalty_last_n: 0 },
      { dry_multiplier: 5, ...breakers, dry_penalty_last_n: 3 },
      { dry_multiplier: 5, ...breakers, dry_allowed_length: 40 },
      // Each word contains a breaker.
      { dry_multiplier: 5, dry_sequence_breakers: [" "] },
    ]
  ) assert.equal(await text(off), repeated, JSON.stringify(off));
});

Deno.test("chat: a small top_n_sigma keeps only the likeliest tokens, and 0 and -1 turn it off", async () => {
  const text = async (fields: Fields) => {
    const body = chatBody({ ...ENDLESS, max_tokens: 40, temperature: 2, seed: 3, ...fields });
    const response = await app.post("/v1/chat/completions", body);
    assert.deepEqual([response.status, response.headers.get("warning")], [200, null]);
    return (await response.json()).choices[0].message.content as string;
  };
  const greedy = await text({ temperature: 0 });
  const hot = await text({});
  assert.notEqual(hot, greedy);
  assert.equal(await text({ top_n_sigma: 0.001 }), greedy);
  for (const off of [0, -1]) assert.equal(await text({ top_n_sigma: off }), hot);
});

Deno.test("chat: the fields of other APIs turn thinking on and off", async () => {
  const thought = "The user asks for the capital of France.";
  const on: readonly Fields[] = [
    { enable_thinking: true },
    { enable_thinking: "true" },
    { think: true },
    { think: "high" },
    { thinking: { type: "enabled", budget_tokens: 1024 } },
    { thinking: true },
    { reasoning: { effort: "low" } },
    { reasoning: { enabled: true } },
    { reasoning: "on" },
    { reasoning_effort: "default" },
    { chat_template_kwargs: { enable_thinking: "true" } },
  ];
  for (const fields of on) {
    const { message } = await readChoice(app, { max_tokens: 40, ...fields });
    assert.equal(message.reasoning_content, thought, JSON.stringify(fields));
  }
  const off: readonly Fields[] = [
    { enable_thinking: false },
    { think: false },
    { think: "" },
    { thinking: { type: "disabled" } },
    { reasoning: { effort: "none" } },
    { reasoning: { enabled: false } },
    { reasoning_effort: "off" },
    { thinking_budget: 0 },
    { chat_template_kwargs: { enable_thinking: "False" } },
  ];
  for (const fields of off) {
    const { message } = await readChoice(app, { max_tokens: 40, ...fields });
    assert.equal("reasoning_content" in message, false, JSON.stringify(fields));
    assert.equal(message.content, "The capital of France is Paris.");
  }
  const hidden = { reasoning: { effort: "low", exclude: true }, max_tokens: 40 };
  const { message } = await readChoice(app, hidden);
  assert.equal("reasoning_content" in message, false);
});

Deno.test("chat: a schema is accepted next to its type, and as Ollama's format", async () => {
  const schema = {
    type: "object",
    properties: { city: { enum: ["Rome", "Oslo"] } },
    required: ["city"],
    additionalProperties: false,
  };
  const formats: readonly Fields[] = [
    { response_format: { type: "json_schema", schema } },
    { response_format: { type: "json_schema", json_schema: null, schema } },
    { format: schema },
  ];
  for (const fields of formats) {
    const { message } = await readChoice(app, { ...fields, max_tokens: 30 });
    assert.match(JSON.parse(message.content).city, /^(Rome|Oslo)$/);
  }
  const { message } = await readChoice(app, { format: "json", max_tokens: 300 });
  assert.equal(message.content.trimStart()[0], "{");
  const refused = await app.post(CHAT, chatBody({ response_format: { type: "json_schema" } }));
  assert.equal((await refused.json()).error.param, "response_format.json_schema");
});

Deno.test("chat: `any` forces a call, tools may be flat, and hosted tools are ignored", async () => {
  const [{ function: weather }] = TOOLS as unknown as [{ function: { name: string } }];
  const flat = { type: "function", ...weather };
  const hosted = { type: '日本語\n"x"', name: "x" };
  const choices: readonly unknown[] = [
    "any",
    { type: "any" },
    { type: "required" },
    { type: "function", name: weather.name },
  ];
  for (const tool_choice of choices) {
    const body = chatBody({
      messages: [askWeather],
      max_tokens: 100,
      tools: [hosted, flat],
      tool_choice,
    });
    const response = await app.post(CHAT, body);
    const { choices: [choice] } = await response.json();
    assert.equal(response.status, 200);
    assert.match(response.headers.get("warning")!, /^299 hearth "tools .*"$/);
    assert.equal(choice.message.tool_calls[0].function.name, weather.name);
  }
});

Deno.test("chat: text parts of other APIs are accepted, and images in every format are recognized", async () => {
  const plain = await readChoice(app, {});
  const text = "What is the capital of France?";
  for (const type of ["input_text", "output_text"]) {
    const messages = [{ role: "user", content: [{ type, text }] }];
    assert.deepEqual(await readChoice(app, { messages }), plain);
  }
  const png = encodePng({ width: 8, height: 8, channels: 3, data: new Uint8Array(8 * 8 * 3) });
  const base64 = png.toBase64();
  const url = `data:image/png;base64,${base64}`;
  const contents: readonly Fields[] = [
    { content: [{ type: "input_image", image_url: url }] },
    { content: [{ type: "image", image: url }] },
    { content: [{ type: "image", url }] },
    {
      content: [{
        type: "image",
        source: { type: "base64", media_type: "image/png", data: base64 },
      }],
    },
    { content: text, images: [base64] },
    { content: text, images: [url] },
    { images: [base64] },
  ];
  for (const fields of contents) {
    const response = await app.post(CHAT, chatBody({ messages: [{ role: "user", ...fields }] }));
    const { error } = await response.json();
    assert.deepEqual([response.status, error.code], [400, "unsupported_by_model"]);
    assert.match(error.message, /takes text and PDF files, saw an image/);
  }
});

Deno.test("chat: a stream whose text contains the thought consists of valid chunks", async () => {
  const body = chatBody({ think: true, reasoning_format: "none", stream: true, max_tokens: 40 });
  const chunks = readStrictly(await (await app.post(CHAT, body)).text());
  const text = chunks.map(({ choices: [choice] }) => choice?.delta.content ?? "").join("");
  assert.match(text, /^<think>\nThe user .*\n<\/think>\n\nThe capital of France is Paris\.$/);
});

Deno.test("/reranking answers like /rerank", async () => {
  await using app = await new TestApp({ model: "hearth-demo-rerank" }).ready();
  const body = { query: "What does a cow say?", documents: ["A cow says moo.", "Rome"] };
  for (const path of ["/reranking", "/v1/reranking"]) {
    const { results } = await readAnswer(app, path, body);
    assert.equal(results[0].index, 0);
  }
  assert.equal(typeof (await (await app.post("/reranking", {})).json()).error, "string");
});
