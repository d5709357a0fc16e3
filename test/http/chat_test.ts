import assert from "node:assert/strict";
import { yieldToEvents } from "../../src/base/timing.ts";
import type { ChatChunk, ChatCompletion } from "../../src/wire/chat_response.ts";
import { CapturedStderr } from "../fixtures/servers/capture_stderr.ts";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { chatBody, ENDLESS, MODEL, shareApp, TestApp } from "../fixtures/servers/server.ts";
import { eventData } from "../fixtures/servers/sse.ts";

const app = shareApp();

const CHAT = "/v1/chat/completions";

async function complete(
  app: TestApp,
  extra: Record<string, unknown> = {},
): Promise<ChatCompletion> {
  const response = await app.post(CHAT, chatBody(extra));
  assert.equal(response.status, 200);
  return await response.json();
}

/** The data of all events of a streamed answer, in order. */
async function streamData(app: TestApp, extra: Record<string, unknown> = {}): Promise<string[]> {
  const response = await app.post(CHAT, chatBody({ stream: true, ...extra }));
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  return eventData(await response.text());
}

/** The chunks of a stream that ends correctly. */
async function streamChunks(app: TestApp, extra?: Record<string, unknown>): Promise<ChatChunk[]> {
  const data = await streamData(app, extra);
  assert.equal(data.pop(), "[DONE]");
  return data.map((each) => JSON.parse(each));
}

function readText(chunks: readonly ChatChunk[], index = 0): string {
  const choices = chunks.flatMap((chunk) => chunk.choices).filter((each) => each.index === index);
  return choices.map(({ delta }) => delta.content ?? "").join("");
}

Deno.test("chat without a stream answers with one chat completion", async () => {
  // A new server, so that nothing is cached.
  await using app = await new TestApp().ready();
  const { id, created, ...completion } = await complete(app);
  assert.match(id, /^chatcmpl-/);
  assert.ok(Math.abs(created - Date.now() / 1000) < 60);
  assert.deepEqual(completion, {
    object: "chat.completion",
    model: MODEL,
    choices: [{
      index: 0,
      message: { role: "assistant", content: "The capital of France is Paris." },
      finish_reason: "length",
      logprobs: null,
    }],
    usage: {
      prompt_tokens: 20,
      completion_tokens: 8,
      total_tokens: 28,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  });
});

Deno.test("chat stream: the role comes first, then a chunk for each fragment, the finish reason, and [DONE]", async () => {
  const chunks = await streamChunks(app);
  const [first] = chunks;
  for (const { id, object, created, model, choices, ...rest } of chunks) {
    assert.deepEqual({ id, created }, { id: first!.id, created: first!.created });
    assert.deepEqual({ object, model }, { object: "chat.completion.chunk", model: MODEL });
    assert.deepEqual(choices.map(({ index }) => index), [0]);
    assert.deepEqual(rest, {});
  }
  const choices = chunks.map((chunk) => chunk.choices[0]!);
  assert.deepEqual(choices[0]!.delta, { role: "assistant", content: "The" });
  assert.ok(choices.slice(1).every(({ delta }) => delta.role === undefined));
  assert.deepEqual(choices.at(-1), { index: 0, delta: {}, finish_reason: "length" });
  assert.ok(choices.slice(0, -1).every(({ finish_reason }) => finish_reason === null));
  assert.equal(readText(chunks), (await complete(app)).choices[0]!.message.content);
});

Deno.test("chat stream: continuous_usage_stats adds usage to each chunk, if usage is requested", async () => {
  const options = { include_usage: true, continuous_usage_stats: true };
  const chunks = await streamChunks(app, { n: 2, temperature: 1, stream_options: options });
  const { usage: total } = chunks.pop()!;
  const last = new Map<number, number>();
  for (const { choices: [choice], usage } of chunks) {
    assert.equal(usage!.prompt_tokens, total!.prompt_tokens);
    assert.equal(usage!.total_tokens, usage!.prompt_tokens + usage!.completion_tokens);
    assert.ok(usage!.completion_tokens >= Math.max(1, last.get(choice!.index) ?? 0));
    last.set(choice!.index, usage!.completion_tokens);
  }
  assert.deepEqual([...last.values()], [8, 8]);
  for (const alone of [{ include_usage: true }, { continuous_usage_stats: true }]) {
    const [first] = await streamChunks(app, { stream_options: alone });
    assert.equal(first!.usage, undefined);
  }
});

Deno.test("chat stream: include_usage adds one chunk without choices", async () => {
  const chunks = await streamChunks(app, { stream_options: { include_usage: true } });
  const { choices, usage } = chunks.at(-1)!;
  assert.deepEqual(choices, []);
  assert.equal(usage!.total_tokens, 28);
  assert.ok(chunks.slice(0, -1).every((chunk) => !("usage" in chunk)));
});

Deno.test("chat stream: each of n choices has its own index, role and finish reason", async () => {
  const options = { n: 3, temperature: 1.5, seed: 7 };
  const chunks = await streamChunks(app, options);
  const { choices } = await complete(app, options);
  assert.equal(choices.length, 3);
  for (const { index, message, finish_reason } of choices) {
    assert.equal(readText(chunks, index), message.content);
    const own = chunks.flatMap((chunk) => chunk.choices).filter((each) => each.index === index);
    assert.equal(own[0]!.delta.role, "assistant");
    assert.equal(own.filter(({ delta }) => delta.role !== undefined).length, 1);
    assert.equal(own.at(-1)!.finish_reason, finish_reason);
  }
});

Deno.test("chat reports log-probabilities in OpenAI's shape, streamed and not", async () => {
  const options = { logprobs: true, top_logprobs: 2, max_tokens: 3 };
  // Caches the prompt, so that both requests below compute equally many rows: rounding depends on their number.
  await complete(app, options);
  const { choices } = await complete(app, options);
  const { content } = choices[0]!.logprobs!;
  assert.deepEqual(content.map(({ token }) => token), ["The", " capital", " of"]);
  for (const { token, bytes, logprob, top_logprobs } of content) {
    assert.deepEqual(bytes, [...new TextEncoder().encode(token)]);
    assert.equal(top_logprobs.length, 2);
    assert.deepEqual(top_logprobs[0], { token, logprob, bytes });
    assert.ok(top_logprobs[1]!.logprob <= logprob);
  }
  const chunks = await streamChunks(app, options);
  const streamed = chunks.flatMap((chunk) => chunk.choices[0]!.logprobs?.content ?? []);
  assert.deepEqual(streamed, content);
});

Deno.test("chat stream: log-probabilities arrive with their text, also for split characters", async () => {
  const guided_choice = ["🦔 it isn't."];
  const chunks = await streamChunks(app, { logprobs: true, guided_choice, max_tokens: 32 });
  const deltas = chunks.flatMap(({ choices: [choice] }) => choice!.logprobs ? [choice!] : []);
  assert.ok(deltas.some(({ logprobs }) => logprobs!.content.length > 1));
  for (const { delta, logprobs } of deltas) {
    const bytes = Uint8Array.from(logprobs!.content.flatMap((token) => token.bytes));
    assert.equal(new TextDecoder().decode(bytes), delta.content);
  }
  assert.equal(readText(chunks, 0), guided_choice[0]);
});

Deno.test("chat: of 31 stop strings, as editors send them, the only one in the text ends the answer", async () => {
  const others = Array.from({ length: 30 }, (_, i) => `\nfunction ${i}`);
  const { choices } = await complete(app, { stop: [...others, " Fran"] });
  assert.equal(choices[0]!.message.content, "The capital of");
});

Deno.test("chat stream: a completion without text still names the role", async () => {
  const chunks = await streamChunks(app, { stop: "T", temperature: 0 });
  assert.deepEqual(chunks.map(({ choices }) => choices[0]), [
    { index: 0, delta: { role: "assistant", content: "" }, finish_reason: null },
    { index: 0, delta: {}, finish_reason: "stop" },
  ]);
});

Deno.test("chat takes the model by id and alias, text in parts, and developer for system", async () => {
  const expected = (await complete(app)).choices;
  const parts = [{ type: "text", text: "What is the capital of France?" }];
  const messages = [{ role: "user", content: parts }];
  assert.deepEqual((await complete(app, { model: `hearth/${MODEL}`, messages })).choices, expected);
  const asked = (role: string) => [{ role, content: "Be brief." }, ...messages];
  assert.deepEqual(
    (await complete(app, { messages: asked("developer") })).choices,
    (await complete(app, { messages: asked("system") })).choices,
  );
});

Deno.test("chat refuses media for a text model, naming the part", async () => {
  const content = [
    { type: "text", text: "What is this?" },
    { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
  ];
  const response = await app.post(CHAT, chatBody({ messages: [{ role: "user", content }] }));
  assert.equal(response.status, 400);
  const { error } = await response.json();
  assert.equal(error.code, "unsupported_by_model");
  assert.equal(error.param, "messages[0].content[1]");
});

Deno.test("chat: a prompt that is too long is answered 400, even if a stream was requested", async () => {
  for (const stream of [false, true]) {
    const messages = [{ role: "user", content: "word ".repeat(5000) }];
    const response = await app.post(CHAT, chatBody({ messages, stream }));
    assert.equal(response.status, 400);
    const { error } = await response.json();
    assert.equal(error.code, "context_length_exceeded");
    assert.match(error.message, /This model's maximum context length is 2048 tokens/);
  }
});

Deno.test("chat stream: the headers arrive at admission, before any token", async () => {
  const endless = chatBody({ stream: true, ...ENDLESS });
  const running = await Promise.all(
    Array.from({ length: app.session.capacity - 1 }, () => app.post(CHAT, endless)),
  );
  const response = await app.post(CHAT, endless);
  assert.equal(response.status, 200);
  await response.body!.cancel();
  for (const each of running) await each.body!.cancel();
});

Deno.test("chat accepts fields that clients send by default", async () => {
  const expected = (await complete(app)).choices;
  const habits = {
    stop: null,
    top_k: -1,
    logprobs: false,
    top_logprobs: 0,
    tools: [],
    store: true,
    metadata: { a: "b" },
    user: "u",
    service_tier: "auto",
    prediction: { type: "content", content: "x" },
    prompt_cache_key: "k",
    safety_identifier: "s",
    verbosity: "low",
    modalities: ["text"],
    audio: null,
    best_of: 1,
    add_special_tokens: false,
    spaces_between_special_tokens: true,
    separate_reasoning: true,
    reasoning_format: "auto",
    lora: [],
    repeat_penalty: 1,
    n_predict: -1,
  };
  const { top_k: _, ...rest } = habits;
  assert.deepEqual((await complete(app, rest)).choices, expected);
  assert.equal((await complete(app, { ...habits, temperature: 0 })).choices.length, 1);
  const { messages } = chatBody() as { messages: unknown[] };
  const history = [
    { role: "user", content: [{ type: "text", text: "Hello!" }], name: "Ann" },
    { role: "assistant", content: null, refusal: "I cannot." },
    { role: "user", content: "Why?" },
    { role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
    ...messages,
  ];
  assert.equal((await complete(app, { messages: history })).choices.length, 1);
});

Deno.test("chat refuses unsupported fields that would change the answer, by name", async () => {
  const fields = {
    modalities: ["text", "audio"],
    audio: { voice: "alloy", format: "mp3" },
    bad_words: ["x"],
    add_special_tokens: true,
    structural_tag: "{}",
    stop_regex: "a+",
    lora: [{ id: 0, scale: 1 }],
  };
  for (const [name, value] of Object.entries(fields)) {
    const response = await app.post(CHAT, chatBody({ [name]: value }));
    assert.equal(response.status, 400, name);
    const { error } = await response.json();
    assert.equal(error.code, "invalid_value");
    assert.equal(error.param, name);
    assert.match(error.message, /is not supported/);
  }
});

Deno.test("chat ignores unsupported fields that tune sampling, with a header and one log line", async () => {
  const plain = await complete(app);
  const fields = {
    web_search_options: {},
    best_of: 2,
    top_a: 0.5,
    mirostat: 2,
    mm_processor_kwargs: { min_pixels: 1 },
    guided_whitespace_pattern: " ?",
    thinking_token_budget: 5,
    t_max_predict_ms: 100,
    dynatemp_range: 0.5,
    typical_p: 0.5,
  };
  for (const stream of [false, true]) {
    using log = new CapturedStderr("warn");
    const response = await app.post(CHAT, chatBody({ ...fields, stream }));
    assert.equal(response.status, 200);
    const warning = response.headers.get("warning")!;
    assert.match(warning, /^299 hearth "[^"]+"$/);
    const text = await response.text();
    if (!stream) assert.deepEqual(JSON.parse(text).choices, plain.choices);
    const { lines } = log;
    assert.equal(lines.length, 1, lines.join("\n"));
    for (const name of Object.keys(fields)) {
      assert.ok(warning.includes(name), name);
      assert.ok(lines[0]!.includes(name), name);
    }
  }
  assert.equal((await app.post(CHAT, chatBody({ mirostat: 0 }))).headers.has("warning"), false);
});

Deno.test("chat: stop_token_ids end the answer early, min_tokens and ignore_eos keep it from ending", async () => {
  const greedy = { temperature: 0, max_tokens: 20 };
  const plain = await complete(app, greedy);
  assert.equal(plain.choices[0]!.finish_reason, "stop");
  // The token " of" in "The capital of France is Paris."
  const stopped = await complete(app, { ...greedy, stop_token_ids: [470] });
  assert.equal(stopped.choices[0]!.message.content, "The capital");
  assert.equal(stopped.choices[0]!.finish_reason, "stop");
  assert.equal(stopped.usage.completion_tokens, 3);
  for (const extra of [{ min_tokens: 20 }, { ignore_eos: true }]) {
    const longer = await complete(app, { ...greedy, ...extra });
    assert.equal(longer.choices[0]!.finish_reason, "length");
    assert.equal(longer.usage.completion_tokens, 20);
    assert.ok(longer.choices[0]!.message.content!.startsWith("The capital of France is Paris."));
  }
  const late = await complete(app, { ...greedy, min_tokens: 4, stop: ["capital", "Paris"] });
  assert.equal(late.choices[0]!.message.content, "The capital of France is ");
});

Deno.test("chat and completions: max_tokens -1 sets no limit", async () => {
  for (const limit of [{ max_tokens: -1 }, { max_tokens: 3, max_completion_tokens: -1 }]) {
    const { choices: [choice] } = await complete(app, { ...limit, min_tokens: 5 });
    assert.equal(choice!.message.content, "The capital of France is Paris.");
    assert.equal(choice!.finish_reason, "stop");
  }
  const { logit_bias } = ENDLESS;
  const body = { model: MODEL, prompt: "Once upon a time", temperature: 0, logit_bias };
  const response = await app.post("/v1/completions", { ...body, max_tokens: -1 });
  const { choices: [choice], usage } = await response.json();
  assert.equal(choice.finish_reason, "length");
  assert.equal(usage.total_tokens, 2048);
});

Deno.test("chat and completions: include_stop_str_in_output and skip_special_tokens decide what the text contains", async () => {
  const whole = "The capital of France is Paris.";
  const includes = { include_stop_str_in_output: true };
  const keeps = { skip_special_tokens: false };
  const cases: [Record<string, unknown>, string][] = [
    [{ stop: ["pital o"], ...includes }, "The capital o"],
    [{ stop: ["pital o"], ...keeps }, "The ca"],
    // The token " of".
    [{ stop_token_ids: [470], ...includes }, "The capital of"],
    [{ ...includes }, whole],
    [{ ...keeps }, whole],
    [{ ...includes, ...keeps }, `${whole}<|im_end|>`],
    [{ ...keeps, stop: ["_end|>"], ignore_eos: true }, `${whole}<|im`],
    [{ ...includes, ...keeps, stop: ["_end|>"], ignore_eos: true }, `${whole}<|im_end|>`],
  ];
  const logprobs = { logprobs: true, max_tokens: 20 };
  for (const [extra, expected] of cases) {
    const { choices: [choice] } = await complete(app, { ...logprobs, ...extra });
    const { message, finish_reason, logprobs: scored } = choice!;
    assert.deepEqual([message.content, finish_reason], [expected, "stop"], JSON.stringify(extra));
    const tokens = scored!.content.map(({ token }) => token).join("");
    assert.ok(tokens.startsWith(expected), `${tokens} ${JSON.stringify(extra)}`);
    assert.equal(readText(await streamChunks(app, { max_tokens: 20, ...extra })), expected);
  }
  const prompt =
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n" +
    "<think>\n\n</think>\n\n";
  const body = { model: MODEL, prompt, temperature: 0, max_tokens: 20, ...includes, ...keeps };
  const { choices } = await (await app.post("/v1/completions", body)).json();
  assert.deepEqual([choices[0].text, choices[0].finish_reason], [`${whole}<|im_end|>`, "stop"]);
});

const LLAMA = findModelFolder("stories260k-llama");

Deno.test({
  name: "completions: add_special_tokens false leaves BOS out" +
    unlessThere(LLAMA !== undefined, "models/stories260k-llama", "a model with BOS"),
  ignore: LLAMA === undefined,
  fn: async () => {
    await using app = await new TestApp({ folder: LLAMA! }).ready();
    const numTokens = async (extra: Record<string, unknown>) => {
      const body = { model: MODEL, prompt: "Once upon a time", max_tokens: 1, ...extra };
      const answer = await (await app.post("/v1/completions", body)).json();
      return answer.usage.prompt_tokens;
    };
    const whole = await numTokens({});
    assert.equal(await numTokens({ add_special_tokens: true }), whole);
    assert.equal(await numTokens({ add_special_tokens: false }), whole - 1);
  },
});

Deno.test("chat: continue_final_message continues the last message", async () => {
  const { messages } = chatBody() as { messages: unknown[] };
  const begun = [...messages, { role: "assistant", content: "The capital of" }];
  const { choices } = await complete(app, {
    messages: begun,
    continue_final_message: true,
    add_generation_prompt: false,
    temperature: 0,
  });
  assert.equal(choices[0]!.message.content, " France is Paris.");
});

Deno.test("chat: the same seed gives the same tokens, also if it is negative or exceeds 32 bits", async () => {
  const texts = new Set<string>();
  for (const seed of [1, -2, 2 ** 40, 2 ** 40 + 1]) {
    const options = { seed, temperature: 2, max_tokens: 60, logit_bias: ENDLESS.logit_bias };
    const [first, second] = [await complete(app, options), await complete(app, options)];
    assert.deepEqual(first.choices, second.choices);
    texts.add(first.choices[0]!.message.content!);
  }
  assert.equal(texts.size, 4);
});

Deno.test("chat stream: an error after the beginning is the last event, without [DONE]", async () => {
  const { spawnWorker, workers } = fragileSpawner("lose-on=metrics");
  await using app = await new TestApp({ spawnWorker }).ready();
  const endless = chatBody({ stream: true, ...ENDLESS });
  const response = await app.post(CHAT, endless);
  assert.equal(response.status, 200);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  await reader.read();
  workers[0]!.postMessage({ type: "metrics", id: 0 });
  let last = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) last = read.value;
  const { error, ...rest } = JSON.parse(last.slice("data: ".length));
  assert.deepEqual(rest, {});
  assert.equal(error.code, "model_not_loaded");
  assert.match(error.message, /lost to order/);
});

Deno.test("chat answers 429 with Retry-After when the queue is full", async () => {
  await using app = await new TestApp({ maxQueue: 0 }).ready();
  const endless = chatBody({ stream: true, ...ENDLESS });
  const running = await Promise.all(
    Array.from({ length: app.session.capacity }, () => app.post(CHAT, endless)),
  );
  const response = await app.post(CHAT, chatBody());
  assert.equal(response.status, 429);
  assert.ok(response.headers.has("retry-after"));
  assert.equal((await response.json()).error.code, "overloaded");
  // Refused at admission, before the request's content is validated.
  assert.equal((await app.post(CHAT, { model: 5 })).status, 429);
  for (const each of running) await each.body!.cancel();
  await complete(app);
});

Deno.test("health is answered before a running generation sends twenty more events", async () => {
  const endless = chatBody({ stream: true, ...ENDLESS });
  const events = (await app.post(CHAT, endless)).body!.getReader();
  await events.read();
  for (let round = 0; round < 5; round++) {
    let isHealthFirst = true;
    const health = app.request("/health").then(({ status }) => ({ status, isHealthFirst }));
    // Events that have already arrived need no iteration of the event loop, but an answer does.
    for (let event = 0; event < 20; event++) await Promise.all([events.read(), yieldToEvents()]);
    isHealthFirst = false;
    assert.deepEqual(await health, { status: 200, isHealthFirst: true });
  }
  await events.cancel();
});

Deno.test("chat counts the prompt tokens it found in the cache, streamed and not", async () => {
  const content = "How many legs does a spider have? ".repeat(4);
  const extra = { messages: [{ role: "user", content }], temperature: 0 };
  const first = await complete(app, extra);
  assert.equal(first.usage.prompt_tokens_details.cached_tokens, 0);
  const again = await complete(app, extra);
  const whole = Math.floor((again.usage.prompt_tokens - 1) / 16) * 16;
  assert.ok(whole >= 32);
  assert.equal(again.usage.prompt_tokens_details.cached_tokens, whole);
  assert.equal(again.choices[0]!.message.content, first.choices[0]!.message.content);
  const chunks = await streamChunks(app, { ...extra, stream_options: { include_usage: true } });
  assert.equal(chunks.at(-1)!.usage!.prompt_tokens_details!.cached_tokens, whole);
});

Deno.test("chat: a prompt of megabytes is refused because no context could hold it", async () => {
  for (const prefix of ["", "data:", "base64://"]) {
    const content = prefix + "snow ".repeat(1_000_000);
    const response = await app.post(
      "/v1/chat/completions",
      chatBody({ messages: [{ role: "user", content }] }),
    );
    assert.equal(response.status, 400);
    const { error } = await response.json();
    assert.equal(error.code, "context_length_exceeded");
    assert.match(
      error.message,
      /more than \d+ tokens; this model's maximum context length is \d+ tokens/,
    );
  }
});
