// deno-lint-ignore-file no-explicit-any -- answers of many shapes
import assert from "node:assert/strict";
import { TestApp } from "../fixtures/server.ts";

const app = await new TestApp().ready();
const QUESTION = [{ role: "user", content: "What is the capital of France?" }];

async function post(path: string, body: unknown, to = app): Promise<{ status: number; body: any }> {
  const response = await to.post(path, body);
  return { status: response.status, body: await response.json() };
}

/** The data of a stream's events but its end. */
async function events(response: Response): Promise<any[]> {
  const lines = (await response.text()).split("\n").filter((line) => line.startsWith("data: "));
  assert.equal(lines.pop(), "data: [DONE]");
  return lines.map((line) => JSON.parse(line.slice(6)));
}

Deno.test("/apply-template, /tokenize and /detokenize lead from a conversation to its tokens and back", async () => {
  const { body: { prompt } } = await post("/apply-template", { messages: QUESTION });
  assert.match(prompt, /What is the capital of France\?.*<\|im_start\|>assistant/s);
  const { body: ofChat } = await post("/tokenize", { messages: QUESTION });
  const { body: ofText } = await post("/tokenize", { content: prompt });
  assert.deepEqual(ofChat.tokens, ofText.tokens);
  assert.equal(ofChat.count, ofChat.tokens.length);
  assert.equal(ofChat.max_model_len, 2048);
  const { body: back } = await post("/detokenize", { tokens: ofChat.tokens });
  assert.deepEqual(back, { prompt, content: prompt });
  const { body: usage } = await post("/chat/completions", {
    model: "hearth-demo-chat",
    messages: QUESTION,
    max_tokens: 1,
  });
  assert.equal(usage.usage.prompt_tokens, ofChat.count);
});

Deno.test("/tokenize speaks vLLM's form and llama.cpp's", async () => {
  const { body: vllm } = await post("/tokenize", {
    prompt: "Hello there",
    return_token_strs: true,
  });
  assert.equal(vllm.token_strs.join(""), "Hello there");
  const { body: llama } = await post("/tokenize", { content: "Hello there", with_pieces: true });
  assert.deepEqual(llama.tokens.map(({ id }: { id: number }) => id), vllm.tokens);
  assert.deepEqual(llama.tokens.map(({ piece }: { piece: string }) => piece), vllm.token_strs);
});

Deno.test("/tokenize and /detokenize refuse what they cannot do", async () => {
  const cases: [string, unknown, string | undefined][] = [
    ["/tokenize", {}, "prompt"],
    ["/tokenize", { prompt: "a", content: "b" }, "prompt"],
    ["/tokenize", { prompt: "a".repeat(1_000_001) }, undefined],
    ["/detokenize", { tokens: [999_999] }, "tokens[0]"],
    ["/detokenize", { tokens: "a" }, "tokens"],
    ["/apply-template", { messages: [] }, "messages"],
  ];
  for (const [path, body, param] of cases) {
    const answer = await post(path, body);
    assert.equal(answer.status, 400, path);
    assert.equal(answer.body.error.code, "invalid_value");
    assert.equal(answer.body.error.param, param);
  }
});

Deno.test("embedding models have /tokenize, /v2/embed and no template", async () => {
  await using embed = await new TestApp({ model: "hearth-demo-embed" }).ready();
  const { body: framed } = await post("/tokenize", { prompt: "a green apple" }, embed);
  const { body: bare } = await post("/tokenize", { content: "a green apple" }, embed);
  assert.ok(framed.count > bare.count);
  const { status, body } = await post("/apply-template", { messages: QUESTION }, embed);
  assert.equal(status, 400);
  assert.equal(body.error.code, "unsupported_by_model");
  const texts = ["a green apple", "a red pear"];
  const { body: plain } = await post("/embeddings", { input: texts }, embed);
  const { body: cohere } = await post("/v2/embed", {
    texts,
    embedding_types: ["float", "int8", "ubinary"],
  }, embed);
  assert.deepEqual(
    cohere.embeddings.float,
    plain.data.map(({ embedding }: { embedding: number[] }) => embedding),
  );
  assert.equal(cohere.embeddings.int8[0].length, cohere.embeddings.float[0].length);
  assert.equal(cohere.embeddings.ubinary[0].length * 8, cohere.embeddings.float[0].length);
});

Deno.test("/score gives what /rerank gives, in the order of the request", async () => {
  await using rerank = await new TestApp({ model: "hearth-demo-rerank" }).ready();
  const documents = ["a blue car", "a green apple"];
  const { body: ranked } = await post("/rerank", { query: "fruit", documents }, rerank);
  const { body: scored } = await post("/score", { text_1: "fruit", text_2: documents }, rerank);
  for (const { index, relevance_score: wanted } of ranked.results) {
    assert.ok(Math.abs(scored.data[index].score - wanted) < 1e-4);
  }
  const pairs = { text_1: ["fruit", "vehicle"], text_2: documents };
  assert.equal((await post("/score", pairs, rerank)).body.data.length, 2);
  const uneven = await post("/score", { text_1: ["a", "b"], text_2: ["c"] }, rerank);
  assert.equal(uneven.status, 400);
});

Deno.test("/completions goes on from text and from tokens without a template", async () => {
  const request = { model: "hearth-demo-chat", prompt: "Once upon a time", temperature: 0 };
  const { body } = await post("/completions", request);
  assert.equal(body.object, "text_completion");
  assert.equal(body.usage.completion_tokens, 16);
  assert.equal(body.choices[0].finish_reason, "length");
  const { body: { tokens } } = await post("/tokenize", { prompt: request.prompt });
  const { body: ofTokens } = await post("/completions", { ...request, prompt: tokens });
  assert.equal(ofTokens.choices[0].text, body.choices[0].text);
  const { body: echoed } = await post("/completions", { ...request, echo: true });
  assert.equal(echoed.choices[0].text, request.prompt + body.choices[0].text);
});

Deno.test("/completions answers several prompts, each n times, whole and streamed alike", async () => {
  const request = {
    model: "hearth-demo-chat",
    prompt: ["Once upon a time", "The capital of"],
    n: 2,
    seed: 7,
    max_tokens: 6,
    logprobs: 2,
  };
  const { body } = await post("/completions", request);
  assert.deepEqual(body.choices.map(({ index }: { index: number }) => index), [0, 1, 2, 3]);
  const [first] = body.choices;
  assert.equal(first.logprobs.tokens.join(""), first.text);
  assert.equal(first.logprobs.tokens.length, 6);
  assert.deepEqual(first.logprobs.text_offset[0], 0);
  assert.ok(Object.keys(first.logprobs.top_logprobs[0]).length >= 2);
  const chunks = await events(
    await app.post("/completions", {
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    }),
  );
  const usage = chunks.pop();
  assert.deepEqual(usage.usage.completion_tokens, body.usage.completion_tokens);
  const texts = ["", "", "", ""];
  for (const { choices: [choice] } of chunks) texts[choice.index] += choice.text;
  assert.deepEqual(texts, body.choices.map(({ text }: { text: string }) => text));
});

Deno.test("/completions follows grammars, and refuses what it does not serve", async () => {
  const request = { model: "hearth-demo-chat", prompt: "Yes or no? " };
  const { body } = await post("/completions", { ...request, guided_choice: ["yes", "no"] });
  assert.ok(["yes", "no"].includes(body.choices[0].text));
  const cases: [object, number, string][] = [
    [{ suffix: "the end" }, 400, "suffix"],
    [{ best_of: 3 }, 400, "best_of"],
    [{ echo: true, logprobs: 1 }, 400, "echo"],
    [{ prompt_logprobs: 1 }, 400, "prompt_logprobs"],
    [{ prompt: [] }, 400, "prompt"],
    [{ prompt: [999_999] }, 400, "prompt"],
    [{ model: "other" }, 404, "model"],
  ];
  for (const [fields, status, param] of cases) {
    const answer = await post("/completions", { ...request, ...fields });
    assert.equal(answer.status, status, param);
    assert.equal(answer.body.error.param, param);
  }
});

Deno.test("paths with slashes too many answer as without, and 404 names the nearest endpoint", async () => {
  for (const path of ["/v1/models/", "//v1//models", "/v1/models//"]) {
    assert.equal((await app.request(path)).status, 200, path);
  }
  const missing = await app.post("/v1/chat/completion", {});
  assert.equal(missing.status, 404);
  assert.match((await missing.json()).error.message, /Did you mean \/v1\/chat\/completions\?/);
});

Deno.test("created is null on /models and a time on /v1/models", async () => {
  const list = async (path: string) => (await (await app.request(path)).json()).data[0].created;
  assert.equal(await list("/models"), null);
  const created = await list("/v1/models");
  assert.ok(Number.isInteger(created) && created > 1_600_000_000 && created <= Date.now() / 1000);
});

Deno.test("100,000 stored responses leave no more behind than the store may hold", async () => {
  const { ResponseStore } = await import("../../src/http/response_store.ts");
  const limits = { maxResponses: 1000, maxBytes: 2 ** 20 };
  const store = new ResponseStore(limits);
  const { body: response } = await post("/responses", {
    model: "hearth-demo-chat",
    input: "Hello",
    max_output_tokens: 1,
  });
  for (let index = 0; index < 100_000; index++) {
    store.add({ response: { ...response, id: `resp_${index}` }, input: [] });
    assert.ok(store.size <= limits.maxResponses && store.numBytes <= limits.maxBytes);
  }
  assert.ok(store.size > 100);
  assert.throws(() => store.get("resp_0"), /no stored response/);
  assert.equal(store.get("resp_99999").response.id, "resp_99999");
});

Deno.test.afterAll(() => app[Symbol.asyncDispose]());
