// deno-lint-ignore-file no-explicit-any -- answers of many shapes
import assert from "node:assert/strict";
import { TestApp } from "../fixtures/servers/server.ts";
import { TOOLS } from "../fixtures/servers/weather.ts";

const app = await new TestApp().ready();
const QUESTION = [{ role: "user", content: "What is the capital of France?" }];

async function post(path: string, body: unknown, to = app): Promise<{ status: number; body: any }> {
  const response = await to.post(path, body);
  return { status: response.status, body: await response.json() };
}

/** The data of a stream's events, without the last one. */
async function events(response: Response): Promise<any[]> {
  const lines = (await response.text()).split("\n").filter((line) => line.startsWith("data: "));
  assert.equal(lines.pop(), "data: [DONE]");
  return lines.map((line) => JSON.parse(line.slice(6)));
}

Deno.test("/apply-template, /tokenize and /detokenize convert a conversation to tokens and back", async () => {
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

Deno.test("/tokenize counts a text that no context could hold", async () => {
  const text = "What is the capital of France? ".repeat(3000);
  for (const body of [{ prompt: text }, { content: text }]) {
    const { status, body: { count, max_model_len: most } } = await post("/tokenize", body);
    assert.equal(status, 200);
    assert.ok(count > 2 * most, `${count}`);
  }
});

Deno.test("/completions refuses a prompt that no context could hold before all of it is tokenized", async () => {
  for (const add_special_tokens of [true, false]) {
    const prompt = "What is the capital of France? ".repeat(100_000);
    const { status, body } = await post("/completions", {
      ...{ model: "hearth-demo-chat", prompt, add_special_tokens },
    });
    assert.equal(status, 400);
    assert.match(body.error.message, /^The prompt has more than 4096 tokens/);
  }
});

Deno.test("/completions generates nothing if one of several prompts is refused", async () => {
  const long = "What is the capital of France? ".repeat(1000);
  for (const prompt of [["Hello", "Good day", long], [long, "Hello"]]) {
    for (const stream of [false, true]) {
      const { status } = await post("/completions", {
        ...{ model: "hearth-demo-chat", prompt, stream, max_tokens: 1500, ignore_eos: true },
      });
      assert.equal(status, 400);
      assert.equal(app.session.numInFlight, 0, "a refused request generates nothing");
    }
  }
});

Deno.test("/tokenize supports vLLM's format and llama.cpp's", async () => {
  const { body: vllm } = await post("/tokenize", {
    prompt: "Hello there",
    return_token_strs: true,
  });
  assert.equal(vllm.token_strs.join(""), "Hello there");
  const { body: llama } = await post("/tokenize", { content: "Hello there", with_pieces: true });
  assert.deepEqual(llama.tokens.map(({ id }: { id: number }) => id), vllm.tokens);
  assert.deepEqual(llama.tokens.map(({ piece }: { piece: string }) => piece), vllm.token_strs);
});

Deno.test("/tokenize loses no byte of tokens that are not whole characters", async () => {
  const prompt = "a 🦔 b";
  const { body: llama } = await post("/tokenize", { content: prompt, with_pieces: true });
  const bytes = llama.tokens.flatMap(({ piece }: { piece: string | number[] }) =>
    typeof piece === "string" ? [...new TextEncoder().encode(piece)] : piece
  );
  assert.equal(new TextDecoder().decode(Uint8Array.from(bytes)), prompt);
  assert.ok(llama.tokens.some(({ piece }: any) => Array.isArray(piece)));
  const { body: vllm } = await post("/tokenize", { prompt, return_token_strs: true });
  assert.equal(vllm.token_strs.join(""), "a \\xf0\\x9f\\xa6\\x94 b");
});

Deno.test("/tokenize counts the tokens that a chat with the same fields takes", async () => {
  const tools = TOOLS;
  const older = TOOLS.map((tool) => tool.function);
  const named = { type: "function", function: { name: "get_time" } };
  const counts = new Set<number>();
  for (
    const fields of [
      {},
      { reasoning_effort: "high" },
      { tools },
      { tools, tool_choice: "none" },
      {
        tools,
        tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [named] } },
      },
      { functions: older },
    ]
  ) {
    const request = { model: "hearth-demo-chat", messages: QUESTION, ...fields };
    const { body: chat } = await post("/chat/completions", { ...request, max_tokens: 1 });
    const { body: tokens } = await post("/tokenize", request);
    assert.equal(tokens.count, chat.usage.prompt_tokens, JSON.stringify(fields));
    counts.add(tokens.count);
  }
  assert.ok(counts.size >= 4, [...counts].join());
});

Deno.test("/tokenize and /apply-template accept text-only conversations of vision models", async () => {
  await using vision = await new TestApp({ model: "hearth-demo-vision" }).ready();
  const { body: { prompt } } = await post("/apply-template", { messages: QUESTION }, vision);
  const { body: tokens } = await post("/tokenize", { messages: QUESTION }, vision);
  const { body: ofText } = await post("/tokenize", { content: prompt }, vision);
  assert.deepEqual(tokens.tokens, ofText.tokens);
  const chat = { model: "hearth-demo-vision", messages: QUESTION, max_tokens: 1 };
  const { body: answer } = await post("/chat/completions", chat, vision);
  assert.equal(tokens.count, answer.usage.prompt_tokens);
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
  const messages = [{ role: "user", content: [{ type: "text", text: "What is it?" }, image] }];
  const { status, body } = await post("/tokenize", { messages }, vision);
  assert.deepEqual([status, body.error.code], [400, "unsupported_by_model"]);
  assert.equal(body.error.param, "messages[0].content[1]");
});

Deno.test("/tokenize, /detokenize and /apply-template refuse invalid requests", async () => {
  const cases: [string, unknown, string | undefined][] = [
    ["/tokenize", {}, "prompt"],
    ["/tokenize", { prompt: "a", content: "b" }, "prompt"],
    ["/tokenize", { prompt: "a".repeat(1_000_001) }, undefined],
    ["/detokenize", { tokens: [999_999] }, "tokens[0]"],
    ["/detokenize", { tokens: "a" }, "tokens"],
    ["/detokenize", { tokens: Array(250_001).fill(1) }, "tokens"],
    ["/apply-template", { messages: [] }, "messages"],
  ];
  for (const [path, body, param] of cases) {
    const answer = await post(path, body);
    assert.equal(answer.status, 400, path);
    assert.equal(answer.body.error.code, "invalid_value");
    assert.equal(answer.body.error.param, param);
  }
});

Deno.test("embedding models have /tokenize and /v2/embed, but no template", async () => {
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

Deno.test("/score gives the same scores as /rerank, in the order of the request", async () => {
  await using rerank = await new TestApp({ model: "hearth-demo-rerank" }).ready();
  // Neither the best nor the worst document comes first.
  const documents = ["a blue car", "a green apple", "a tall house"];
  const { body: ranked } = await post("/rerank", { query: "fruit", documents }, rerank);
  const { body: scored } = await post("/score", { text_1: "fruit", text_2: documents }, rerank);
  for (const { index, relevance_score: wanted } of ranked.results) {
    assert.ok(Math.abs(scored.data[index].score - wanted) < 1e-4);
  }
  const pairs = { text_1: ["vehicle", "fruit"], text_2: documents.slice(0, 2) };
  const [, second, ...more] = (await post("/score", pairs, rerank)).body.data;
  assert.ok(Math.abs(second.score - scored.data[1].score) < 1e-4);
  assert.equal(more.length, 0);
  // A request may have hundreds of pairs.
  const text_2 = Array(400).fill(documents[1]);
  const many = await post("/score", { text_1: Array(400).fill("fruit"), text_2 }, rerank);
  assert.equal(many.status, 200);
  assert.equal(many.body.data.length, 400);
  assert.ok(Math.abs(many.body.data[399].score - scored.data[1].score) < 1e-4);
  const one = await post("/score", { text_1: ["fruit"], text_2: documents }, rerank);
  assert.deepEqual(one.body.data, scored.data);
  for (const text_2 of ["c", ["c"], ["c", "d", "e"]]) {
    const uneven = await post("/score", { text_1: ["a", "b"], text_2 }, rerank);
    assert.equal(uneven.status, 400);
    assert.match(uneven.body.error.message, /^text_2: want as many texts as in text_1/);
  }
});

Deno.test("/completions continues text and tokens without a template", async () => {
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

Deno.test("/completions answers several prompts, each n times, with and without a stream", async () => {
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
  const counted = await events(
    await app.post("/completions", {
      ...request,
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
    }),
  );
  const total = counted.pop().usage;
  const lasts = new Map(counted.map(({ choices: [{ index }], usage }) => [index, usage]));
  const sum = (name: string) => [...lasts.values()].reduce((all, usage) => all + usage[name], 0);
  assert.equal(sum("completion_tokens"), total.completion_tokens);
  // Two prompts, each with two choices.
  assert.equal(sum("prompt_tokens"), 2 * total.prompt_tokens);
});

Deno.test("/completions returns the offset of each token, across stop strings and split characters", async () => {
  const words = "Yes.\n\nNo 🦔 it isn't so";
  const request = {
    ...{ model: "hearth-demo-chat", prompt: "Well: 🦔 ", guided_choice: [`${words}.\n\nUser: Hm`] },
    ...{ stop: [".\n\nUser:"], max_tokens: 64, logprobs: 0 },
  };
  for (const echo of [false, true]) {
    const { body } = await post("/completions", { ...request, echo });
    const chunks = await events(await app.post("/completions", { ...request, echo, stream: true }));
    const streamed = {
      text: chunks.map(({ choices: [{ text }] }) => text).join(""),
      logprobs: {
        tokens: chunks.flatMap(({ choices: [{ logprobs }] }) => logprobs.tokens),
        text_offset: chunks.flatMap(({ choices: [{ logprobs }] }) => logprobs.text_offset),
      },
    };
    const start = echo ? request.prompt.length : 0;
    for (
      const { text, logprobs: { tokens, text_offset: offsets } } of [body.choices[0], streamed]
    ) {
      assert.equal(text.slice(start), words);
      const numBefore = offsets.findIndex((offset: number) => offset >= start);
      const own: string[] = tokens.slice(numBefore);
      assert.equal(own.join("").replace("\\xf0\\x9f\\xa6\\x94", "🦔"), words);
      own.forEach((token, i) => {
        const offset = offsets[numBefore + i];
        const wanted = token.startsWith("\\x") ? "🦔" : token;
        assert.ok(text.startsWith(wanted, offset), `${token} ${offset}`);
      });
    }
  }
});

/** The tokens of `text`; for each but the first, its log-probability and the likeliest token, by a separate request. */
async function scoreOneByOne(text: string) {
  const { body: { tokens } } = await post("/tokenize", { prompt: text });
  const answers = await Promise.all(
    (tokens as number[]).slice(1).map((next, i) =>
      post("/completions", {
        ...{ model: "hearth-demo-chat", prompt: tokens.slice(0, i + 1), max_tokens: 1 },
        ...{ temperature: 0, logprobs: 1, logit_bias: { [next]: 100 } },
      })
    ),
  );
  const logprobs = answers.map(({ body }) => body.choices[0].logprobs);
  return {
    tokens: tokens as number[],
    logprobs: logprobs.map((each) => each.token_logprobs[0] as number),
    top: logprobs.map((each) => each.top_logprobs[0] as Record<string, number>),
  };
}

function assertClose(seen: readonly number[], wanted: readonly number[]) {
  assert.equal(seen.length, wanted.length);
  seen.forEach((each, i) => assert.ok(Math.abs(each - wanted[i]!) < 2e-3, `${i}: ${each}`));
}

Deno.test("/completions scores a prompt as evaluation harnesses request it", async () => {
  const text = "Q: What is the capital of France?\nA: Paris 🦔";
  const wanted = await scoreOneByOne(text);
  // The request of EleutherAI's lm-evaluation-harness, which batches prompts of tokens.
  const request = {
    ...{ model: "hearth-demo-chat", prompt: [wanted.tokens, wanted.tokens.slice(0, 9)] },
    ...{ temperature: 0, max_tokens: 1, logprobs: 1, seed: 1234, echo: true },
  };
  const { body } = await post("/completions", request);
  const [{ logprobs, text: echoed }, short] = body.choices;
  assert.ok(echoed.startsWith(text) && text.startsWith(short.text.slice(0, 10)));
  assert.equal(logprobs.tokens.length, wanted.tokens.length + 1);
  assert.equal(logprobs.tokens.join("").replace("\\xf0\\x9f\\xa6\\x94", "🦔"), echoed);
  assert.equal(logprobs.token_logprobs[0], null);
  assert.equal(logprobs.top_logprobs[0], null);
  assertClose(logprobs.token_logprobs.slice(1, -1), wanted.logprobs);
  assert.deepEqual(
    logprobs.top_logprobs.slice(1, -1).map((each: object) => Object.keys(each)),
    wanted.top.map((each) => Object.keys(each)),
  );
  // As with OpenAI, the chosen token is always listed among the likeliest.
  logprobs.top_logprobs.slice(1).forEach((top: Record<string, number>, i: number) =>
    assert.equal(top[logprobs.tokens[i + 1]], logprobs.token_logprobs[i + 1])
  );
  // This is how the harness finds out whether the model would have generated the same text.
  const isGreedy = (at: number) =>
    logprobs.token_logprobs[at] === Math.max(...Object.values<number>(logprobs.top_logprobs[at]));
  assert.ok(isGreedy(wanted.tokens.length), "the token that was chosen is the likeliest");
  const likeliest = wanted.top.map((each, i) => Object.values(each)[0] === wanted.logprobs[i]);
  assert.deepEqual(wanted.tokens.slice(1).map((_, i) => isGreedy(i + 1)), likeliest);
  logprobs.tokens.forEach((token: string, i: number) => {
    const isByte = token.startsWith("\\x");
    assert.ok(isByte || echoed.startsWith(token, logprobs.text_offset[i]), `token ${i}`);
  });
  const chunks = await events(await app.post("/completions", { ...request, stream: true }));
  const ofFirst = chunks.flatMap(({ choices: [choice] }) => choice.index === 0 ? [choice] : []);
  assert.equal(ofFirst.map((choice) => choice.text).join(""), echoed);
  assertClose(
    ofFirst.flatMap((choice) =>
      choice.logprobs.token_logprobs.slice(choice.text.startsWith("Q") ? 1 : 0)
    ),
    logprobs.token_logprobs.slice(1),
  );

  const { body: alone } = await post("/completions", { ...request, prompt: text, max_tokens: 0 });
  assert.equal(alone.choices[0].text, text);
  assert.equal(alone.choices[0].finish_reason, "length");
  assert.equal(alone.usage.completion_tokens, 0);
  assertClose(alone.choices[0].logprobs.token_logprobs.slice(1), wanted.logprobs);
});

Deno.test("/completions scores a prompt that fills the context if nothing follows it", async () => {
  const prompt = Array.from({ length: 2048 }, (_, i) => 300 + i % 1000);
  const request = { model: "hearth-demo-chat", prompt, max_tokens: 0, echo: true };
  const { status, body } = await post("/completions", { ...request, logprobs: 0 });
  assert.equal(status, 200, JSON.stringify(body.error));
  assert.equal(body.choices[0].logprobs.tokens.length, prompt.length);
  assert.equal(body.usage.prompt_tokens, prompt.length);
  assert.equal(body.usage.completion_tokens, 0);
  const unscored = await post("/completions", { ...request, n: 2 });
  assert.deepEqual(
    unscored.body.choices.map(({ text }: any) => text),
    Array(2).fill(body.choices[0].text),
  );
  const longer = await post("/completions", { ...request, prompt: [...prompt, 1] });
  assert.equal(longer.status, 400);
  assert.match(
    longer.body.error.message,
    /context length is 2048 tokens.*; the prompt has 2049\.$/,
  );
  assert.equal((await post("/completions", { ...request, max_tokens: 1 })).status, 400);
});

Deno.test("/completions and /chat/completions return prompt_logprobs in vLLM's format on request", async () => {
  const text = "What does a cow say?";
  const wanted = await scoreOneByOne(text);
  const request = {
    model: "hearth-demo-chat",
    prompt: text,
    max_tokens: 2,
    prompt_logprobs: 2,
    n: 2,
  };
  const { body } = await post("/completions", request);
  assert.equal(body.usage.prompt_tokens_details.cached_tokens, 0);
  for (const { prompt_logprobs: scored, text: answer } of body.choices) {
    assert.ok(!answer.startsWith(text));
    assert.equal(scored[0], null);
    const own = wanted.tokens.slice(1).map((id, i) => scored[i + 1][id]);
    assertClose(own.map(({ logprob }) => logprob), wanted.logprobs);
    for (const [i, each] of scored.slice(1).entries()) {
      const ranks = Object.values<{ rank: number | null }>(each).map(({ rank }) => rank);
      assert.ok(ranks.includes(1) && ranks.includes(2) && ranks.length <= 3, `token ${i}`);
    }
  }
  const chat = { model: "hearth-demo-chat", messages: QUESTION, max_tokens: 1, prompt_logprobs: 0 };
  const { body: ofChat } = await post("/chat/completions", chat);
  const { body: prompt } = await post("/tokenize", { messages: QUESTION });
  assert.deepEqual(
    ofChat.prompt_logprobs.slice(1).map((each: object) => Number(Object.keys(each)[0])),
    prompt.tokens.slice(1),
  );
  const { prompt_logprobs: _, ...plain } = chat;
  assert.equal("prompt_logprobs" in (await post("/chat/completions", plain)).body, false);
  const streamed = await post("/chat/completions", { ...chat, stream: true });
  assert.deepEqual([streamed.status, streamed.body.error.param], [400, "prompt_logprobs"]);
});

Deno.test("/completions with best_of returns the n likeliest of its choices", async () => {
  const request = {
    ...{ model: "hearth-demo-chat", prompt: "Once upon a time", seed: 5, max_tokens: 8 },
    temperature: 1.5,
  };
  const { body: all } = await post("/completions", { ...request, n: 6, logprobs: 0 });
  const computeMean = ({ logprobs: { token_logprobs: each } }: any) =>
    each.reduce((sum: number, one: number) => sum + one, 0) / each.length;
  const best = all.choices.toSorted((a: any, b: any) => computeMean(b) - computeMean(a)).slice(
    0,
    2,
  );
  const { body } = await post("/completions", { ...request, n: 2, best_of: 6 });
  const shown = (choices: any[]) => choices.map(({ text }) => text);
  assert.deepEqual(shown(body.choices), shown(best));
  assert.deepEqual(body.choices.map(({ index, logprobs }: any) => [index, logprobs]), [
    [0, null],
    [1, null],
  ]);
  assert.equal(body.usage.completion_tokens, all.usage.completion_tokens);
});

Deno.test("/completions follows grammars, and refuses unsupported fields", async () => {
  const request = { model: "hearth-demo-chat", prompt: "Yes or no? " };
  const { body } = await post("/completions", { ...request, guided_choice: ["yes", "no"] });
  assert.ok(["yes", "no"].includes(body.choices[0].text));
  // Editors send an empty suffix at the end of a file, whether or not the model can fill in the middle.
  const { body: whole } = await post("/completions", { ...request, temperature: 0 });
  const { body: empty } = await post("/completions", { ...request, temperature: 0, suffix: "" });
  assert.equal(empty.choices?.[0].text, whole.choices[0].text);
  const cases: [object, number, string][] = [
    [{ suffix: "the end" }, 400, "suffix"],
    [{ n: 3, best_of: 2 }, 400, "best_of"],
    [{ best_of: 3, stream: true }, 400, "best_of"],
    [{ max_tokens: -2 }, 400, "max_tokens"],
    [{ prompt_logprobs: 1, stream: true }, 400, "prompt_logprobs"],
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

Deno.test("paths with additional slashes work, and 404 names the nearest endpoint", async () => {
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

Deno.test("100,000 stored responses take no more memory than the store may hold", async () => {
  const { ResponseStore } = await import("../../src/server/http/responses/response_store.ts");
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
