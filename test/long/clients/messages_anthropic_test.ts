/** Anthropic's client and compatible clients on `/messages`, over a real port. */
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import Anthropic, { BadRequestError, NotFoundError } from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import { ChatAnthropic } from "@langchain/anthropic";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { MODEL, TestServer } from "../../fixtures/servers/server.ts";
import {
  answerWeather,
  askWeather,
  TOOLS as CHAT_TOOLS,
  WEATHER_ANSWER,
} from "../../fixtures/servers/weather.ts";

const WEATHER_QUESTION = askWeather.content;
const WEATHER_RESULT = answerWeather({ city: "Paris" });

const server = await TestServer.start({
  settings: { apiKeys: [{ label: "test", key: "secret" }] },
});
const client = new Anthropic({ baseURL: server.base, apiKey: "secret", maxRetries: 0 });
const TOOLS = CHAT_TOOLS.map(({ function: { name, description, parameters } }) => ({
  name,
  description,
  input_schema: parameters as unknown as Anthropic.Tool.InputSchema,
}));
const REQUEST = {
  model: MODEL,
  max_tokens: 64,
  temperature: 0,
  messages: [{ role: "user" as const, content: "What is the capital of France?" }],
};

function readText({ content }: Anthropic.Message): string {
  return content.map((block) => block.type === "text" ? block.text : "").join("");
}

/** Checks that a stream's events come in an order that a client can follow. */
function followStream(events: readonly Anthropic.RawMessageStreamEvent[]): void {
  assert.equal(events[0]!.type, "message_start");
  let open: number | undefined;
  let numBlocks = 0;
  for (const event of events.slice(1, -2)) {
    if (event.type === "content_block_start") {
      assert.equal(open, undefined);
      assert.equal(event.index, numBlocks++);
      open = event.index;
    } else if (event.type === "content_block_delta") assert.equal(event.index, open);
    else if (event.type === "content_block_stop") {
      assert.equal(event.index, open);
      open = undefined;
    } else assert.equal(event.type as string, "ping");
  }
  assert.equal(open, undefined);
  assert.deepEqual(events.slice(-2).map(({ type }) => type), ["message_delta", "message_stop"]);
}

Deno.test("anthropic: a final assistant message is continued, as text or in blocks", async () => {
  const text = "The capital";
  for (const content of [text, [{ type: "text" as const, text }]]) {
    const messages = [...REQUEST.messages, { role: "assistant" as const, content }];
    assert.equal(
      readText(await client.messages.create({ ...REQUEST, messages })),
      " of France is Paris.",
    );
  }
});

Deno.test("anthropic: max_tokens 0 caches the prompt for the next request", async () => {
  const story = "A kettle stood on the stove. ".repeat(40);
  const messages = [{ role: "user" as const, content: `${story}What is the capital of France?` }];
  const request = { ...REQUEST, messages };
  const warmed = await client.messages.create({ ...request, max_tokens: 0 });
  assert.deepEqual([warmed.content, warmed.stop_reason], [[], "max_tokens"]);
  assert.equal(warmed.usage.output_tokens, 0);
  const { usage } = await client.messages.create(request);
  assert.ok(usage.cache_read_input_tokens! > 300, `${usage.cache_read_input_tokens} were read`);
  const stream = client.messages.stream({ ...request, max_tokens: 0, system: "Be brief." });
  followStream(await Array.fromAsync(stream));
  const { content, stop_reason } = await stream.finalMessage();
  assert.deepEqual([content, stop_reason], [[], "max_tokens"]);
});

Deno.test("anthropic: a message and its stream have the same text, and countTokens() the same number", async () => {
  const whole = await client.messages.create(REQUEST);
  assert.equal(whole.type, "message");
  assert.equal(readText(whole), "The capital of France is Paris.");
  assert.equal(whole.stop_reason, "end_turn");
  const again = await client.messages.create(REQUEST);
  assert.ok(again.usage.cache_read_input_tokens! > 0);
  const { model, messages } = REQUEST;
  const { input_tokens } = await client.messages.countTokens({ model, messages });
  const { usage } = again;
  assert.equal(input_tokens, usage.input_tokens + usage.cache_read_input_tokens!);
  const stream = client.messages.stream(REQUEST);
  const events = await Array.fromAsync(stream);
  followStream(events);
  assert.equal(readText(await stream.finalMessage()), readText(whole));
  // The start of a stream already reports cached tokens, which input_tokens excludes.
  const [start] = events as [Anthropic.RawMessageStartEvent];
  const { output_tokens: _started, ...atStart } = start.message.usage;
  const { output_tokens: _ended, ...atEnd } = usage;
  assert.deepEqual(atStart, atEnd);
});

Deno.test("anthropic: system may be text or blocks, and stop_sequences and max_tokens end the answer", async () => {
  const system = [{ type: "text" as const, text: "You are" }, {
    type: "text" as const,
    text: "short.",
  }];
  const blocks = await client.messages.countTokens({
    model: MODEL,
    messages: REQUEST.messages,
    system,
  });
  const text = await client.messages.countTokens({
    model: MODEL,
    messages: REQUEST.messages,
    system: "You are\n\nshort.",
  });
  assert.equal(blocks.input_tokens, text.input_tokens);
  const stopped = await client.messages.create({ ...REQUEST, stop_sequences: [" Paris"] });
  assert.equal(stopped.stop_reason, "stop_sequence");
  assert.equal(stopped.stop_sequence, " Paris");
  assert.equal(readText(stopped), "The capital of France is");
  const cut = await client.messages.create({ ...REQUEST, max_tokens: 2 });
  assert.equal(cut.stop_reason, "max_tokens");
});

/** The prompt's length, which shows what it contains. */
async function readCount(
  request: Omit<Anthropic.Beta.MessageCountTokensParams, "model">,
): Promise<number> {
  return (await client.beta.messages.countTokens({ model: MODEL, ...request })).input_tokens;
}

Deno.test("anthropic: system messages within a conversation keep their positions", async () => {
  const [question] = REQUEST.messages;
  const chat = async (messages: unknown) => {
    const answer = await fetch(`${server.base}/v1/tokenize`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer secret" },
      body: JSON.stringify({ messages }),
    });
    return (await answer.json()).count;
  };
  const late = { role: "system" as const, content: "Answer in one word." };
  const blocks = { ...late, content: [{ type: "text" as const, text: late.content }] };
  const count = await chat([question, late]);
  assert.ok(count > await chat([question]));
  for (const message of [late, blocks]) {
    assert.equal(await readCount({ messages: [question!, message] }), count);
  }
  const answer = { role: "assistant" as const, content: "Paris." };
  const cleared = { ...late, clear_at: "next_user_message" as const };
  assert.equal(await readCount({ messages: [question!, cleared] }), count);
  assert.equal(
    await readCount({ messages: [question!, cleared, answer, question!] }),
    await chat([question, answer, question]),
  );
  const answered = await client.messages.create({
    ...REQUEST,
    messages: [...REQUEST.messages, late],
  });
  assert.equal(answered.type, "message");
});

Deno.test("anthropic: a deferred tool is shown after the conversation names it", async () => {
  const [tool] = TOOLS;
  const { name } = tool!;
  const search = { name: "search", input_schema: { type: "object" as const } };
  const waiting = [search, { ...tool!, defer_loading: true }];
  const [question] = REQUEST.messages;
  const messages = [question!];
  const [without, all] = [
    await readCount({ messages, tools: [search] }),
    await readCount({ messages, tools: [search, tool!] }),
  ];
  assert.ok(all > without);
  assert.equal(await readCount({ messages, tools: waiting }), without);
  const change = (type: "tool_addition" | "tool_removal") => ({
    role: "system" as const,
    content: [{ type, tool: { type: "tool_reference" as const, name } }],
  });
  const added = [question!, change("tool_addition")];
  assert.equal(await readCount({ messages: added, tools: waiting }), all);
  const removed = [...added, change("tool_removal")];
  assert.equal(await readCount({ messages: removed, tools: waiting }), without);
  const definition = { type: "tool_definition" as const, definition: tool! };
  const defined = {
    role: "system" as const,
    content: [{ type: "tool_addition" as const, tool: definition }],
  };
  assert.equal(await readCount({ messages: [question!, defined], tools: [search] }), all);
  const found = {
    role: "user" as const,
    content: [{
      type: "tool_result" as const,
      tool_use_id: "c",
      content: [{ type: "tool_reference" as const, tool_name: name }],
    }],
  };
  const call = { type: "tool_use" as const, id: "c", name: "search", input: {} };
  const searched = [question!, { role: "assistant" as const, content: [call] }, found];
  assert.equal(
    await readCount({ messages: searched, tools: waiting }),
    await readCount({ messages: searched, tools: [search, tool!] }),
  );
  const asked = { ...REQUEST, messages: [{ role: "user" as const, content: WEATHER_QUESTION }] };
  const answer = await client.beta.messages.create({
    ...asked,
    messages: [...asked.messages, change("tool_addition")],
    tools: [{ ...tool!, defer_loading: true }],
    tool_choice: { type: "any" },
  });
  assert.equal(answer.stop_reason, "tool_use");
  // Errors name the client's own field.
  const bad = { ...tool!, strict: true, input_schema: { type: "object", not: { const: 1 } } };
  for (
    const [request, param] of [
      [{ tools: [{ ...search, defer_loading: true }, bad] }, /tools\[1\]\.input_schema\.not/],
      [{
        messages: [...asked.messages, {
          ...defined,
          content: [{
            type: "tool_addition",
            tool: { type: "tool_definition", definition: bad },
          }],
        }],
      }, /messages\[1\]\.content\[0\]\.tool\.definition\.input_schema\.not/],
    ] as const
  ) {
    await assert.rejects(
      client.beta.messages.create(
        { ...asked, ...request } as unknown as Anthropic.Beta.MessageCreateParamsNonStreaming,
      ),
      (error: Error) => error instanceof BadRequestError && param.test(error.message),
    );
  }
});

Deno.test("anthropic: the prompt omits Claude Code's billing line and contains search results", async () => {
  const messages = REQUEST.messages;
  const text = (content: string) => ({ type: "text" as const, text: content });
  assert.equal(
    await readCount({
      messages,
      system: [text("x-anthropic-billing-header: cc_version=1.2.3.abc;"), text("Be short.")],
    }),
    await readCount({ messages, system: "Be short." }),
  );
  const result = {
    type: "search_result" as const,
    title: "Report",
    source: "report.txt",
    content: [text("The cow says moo.")],
  };
  const content = ["Report", "report.txt", "The cow says moo."].map(text);
  assert.equal(
    await readCount({ messages: [{ role: "user", content: [result] }] }),
    await readCount({ messages: [{ role: "user", content }] }),
  );
});

Deno.test("anthropic: text documents are read, in messages and in tool results", async () => {
  const question = { type: "text" as const, text: "What is the capital of France?" };
  const text = "An old atlas.";
  const source = { type: "text" as const, media_type: "text/plain" as const, data: text };
  const document = { type: "document" as const, source, title: "Atlas", context: "It is torn." };
  const count = async (content: Anthropic.ContentBlockParam[]) => {
    const messages = [{ role: "user" as const, content }];
    return (await client.messages.countTokens({ model: MODEL, messages })).input_tokens;
  };
  const asText = (words: string) => ({ type: "text" as const, text: words });
  const plain = await count([asText("Atlas"), asText("It is torn."), asText(text), question]);
  assert.equal(await count([document, question]), plain);
  for (const content of [text, [asText(text)]]) {
    const inParts = { ...document, source: { type: "content" as const, content } };
    assert.equal(await count([inParts, question]), plain);
  }
  const result = (content: Anthropic.DocumentBlockParam[] | Anthropic.TextBlockParam[]) =>
    count([{ type: "tool_result", tool_use_id: "c", content }]);
  // Some clients write the type last; the text may then look like base64.
  for (const data of [text, "abcd", "abcde"]) {
    const { title, context } = document;
    const last = { data, media_type: source.media_type, type: "text" as const };
    const typeLast = { source: last, title, context, type: "document" as const };
    const isText = await count([asText("Atlas"), asText("It is torn."), asText(data), question]);
    assert.equal(await count([typeLast, question]), isText, data);
    assert.equal(await result([typeLast]), await result([{ ...document, source: last }]));
  }
  assert.equal(
    await result([document]),
    await result([asText("Atlas"), asText("It is torn."), asText(text)]),
  );
  const messages = [{ role: "user" as const, content: [document, question] }];
  assert.notEqual(readText(await client.messages.create({ ...REQUEST, messages })), "");
});

Deno.test("anthropic: a tool is used, with and without a stream, and its result is answered", async () => {
  const messages = [{ role: "user" as const, content: WEATHER_QUESTION }];
  const asked = await client.messages.create({ ...REQUEST, messages, tools: TOOLS });
  assert.equal(asked.stop_reason, "tool_use");
  const use = asked.content.find((block) => block.type === "tool_use")!;
  assert.equal(use.name, "get_weather");
  assert.deepEqual(use.input, { city: "Paris" });
  const stream = client.messages.stream({ ...REQUEST, messages, tools: TOOLS });
  followStream(await Array.fromAsync(stream));
  const streamed = (await stream.finalMessage()).content.find((block) =>
    block.type === "tool_use"
  )!;
  assert.deepEqual(streamed.input, use.input);
  const answered = await client.messages.create({
    ...REQUEST,
    tools: TOOLS,
    messages: [...messages, { role: "assistant", content: asked.content }, {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: use.id, content: WEATHER_RESULT }],
    }],
  });
  assert.equal(readText(answered), WEATHER_ANSWER);
  const forced = await client.messages.create({
    ...REQUEST,
    tools: TOOLS,
    tool_choice: { type: "tool", name: "get_time" },
  });
  assert.equal(forced.content.find((block) => block.type === "tool_use")!.name, "get_time");
  const none = await client.messages.create({
    ...REQUEST,
    messages,
    tools: TOOLS,
    tool_choice: { type: "none" },
  });
  assert.ok(none.content.every((block) => block.type === "text"));
});

Deno.test("anthropic: thinking has separate blocks", async () => {
  const thought = await client.messages.create({
    ...REQUEST,
    max_tokens: 1100,
    thinking: { type: "enabled", budget_tokens: 1024 },
  });
  assert.deepEqual(thought.content.map(({ type }) => type), ["thinking", "text"]);
  assert.equal(readText(thought), "The capital of France is Paris.");
});

Deno.test("anthropic: an answer has the requested output format, in this client's field and in ai-sdk's", async () => {
  const schema = {
    type: "object",
    properties: { city: { enum: ["Rome", "Oslo"] }, size: { type: "integer" } },
    required: ["city", "size"],
    additionalProperties: false,
  };
  const parsed = await client.messages.parse({
    ...REQUEST,
    output_config: { format: jsonSchemaOutputFormat(schema as never) },
  });
  const { city, size } = parsed.parsed_output as unknown as { city: string; size: number };
  assert.ok(["Rome", "Oslo"].includes(city) && Number.isInteger(size));
  const provider = createAnthropic({ baseURL: `${server.base}/v1`, apiKey: "secret" });
  const { output } = await generateText({
    model: provider(MODEL),
    output: Output.object({ schema: jsonSchema<{ city: string }>(schema as never) }),
    prompt: "What is the capital of France?",
    temperature: 0,
  });
  assert.ok(["Rome", "Oslo"].includes(output.city));
});

Deno.test("anthropic: arguments of strict tools match their schema", async () => {
  const input_schema = {
    type: "object" as const,
    properties: { city: { type: "string", enum: ["Rome", "Oslo"] } },
    required: ["city"],
    additionalProperties: false,
  };
  const { content } = await client.messages.create({
    ...REQUEST,
    messages: [askWeather],
    tools: [{ name: "get_weather", description: "Tells the weather", input_schema, strict: true }],
  });
  const calls = content.filter((block) => block.type === "tool_use");
  assert.equal(calls.length, 1, JSON.stringify(content));
  assert.ok(["Rome", "Oslo"].includes((calls[0]!.input as { city: string }).city));
});

Deno.test("anthropic: errors have Anthropic's format and types", async () => {
  const requestId = "req_of_the_test";
  await assert.rejects(
    client.messages.create({ ...REQUEST, model: "other" }, {
      headers: { "x-request-id": requestId },
    }),
    (error) => error instanceof NotFoundError && error.requestID === requestId,
  );
  const isRefused = (wanted: RegExp) => (error: unknown) => {
    assert.ok(error instanceof BadRequestError);
    assert.equal(error.type, "invalid_request_error");
    assert.match(error.message, wanted);
    return true;
  };
  const { max_tokens: _, ...unlimited } = REQUEST;
  const request = unlimited as typeof REQUEST;
  await assert.rejects(client.messages.create(request), isRefused(/max_tokens/));
  const pdf = { type: "base64" as const, media_type: "application/pdf" as const, data: "AAAA" };
  const document = { type: "document" as const, source: pdf };
  await assert.rejects(
    client.messages.create({ ...REQUEST, messages: [{ role: "user", content: [document] }] }),
    isRefused(
      /^400 .*messages\[0\]\.content\[0\]: .*takes PDF files and UTF-8 text, and the file is neither/,
    ),
  );
  const cited = {
    type: "document" as const,
    source: { type: "text" as const, media_type: "text/plain" as const, data: "x" },
    citations: { enabled: true },
  };
  await assert.rejects(
    client.messages.create({ ...REQUEST, messages: [{ role: "user", content: [cited] }] }),
    isRefused(/citations\.enabled.*not supported/),
  );
  for (
    const [name, instead] of [["stop", "stop_sequences"], ["response_format", "output_config"]]
  ) {
    const strange = { ...REQUEST, [name!]: ["x"] };
    await assert.rejects(
      client.messages.create(strange),
      isRefused(new RegExp(`${name} is not supported; use ${instead}`)),
    );
  }
  const content = "word ".repeat(3000);
  const long = { ...REQUEST, messages: [{ role: "user" as const, content }] };
  await assert.rejects(client.messages.create(long), isRefused(/maximum context length is \d+/));
  const stranger = new Anthropic({ baseURL: server.base, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.messages.create(REQUEST), Anthropic.AuthenticationError);
});

Deno.test("ai-sdk: @ai-sdk/anthropic answers", async () => {
  const provider = createAnthropic({ baseURL: `${server.base}/v1`, apiKey: "secret" });
  const { text } = await generateText({
    model: provider(MODEL),
    prompt: "What is the capital of France?",
    temperature: 0,
  });
  assert.equal(text, "The capital of France is Paris.");
});

Deno.test("ai-sdk: a streamed thought is sent back with the call after it", async () => {
  const bodies: Anthropic.MessageCreateParams[] = [];
  const provider = createAnthropic({
    baseURL: `${server.base}/v1`,
    apiKey: "secret",
    fetch: (input, init) => {
      bodies.push(JSON.parse(init!.body as string));
      return fetch(input, init);
    },
  });
  const [{ name, description, input_schema }] = TOOLS as [typeof TOOLS[number]];
  const result = streamText({
    model: provider(MODEL),
    prompt: WEATHER_QUESTION,
    maxOutputTokens: 1100,
    tools: {
      [name]: tool({
        description,
        inputSchema: jsonSchema<{ city: string }>(input_schema as never),
        execute: () => JSON.parse(WEATHER_RESULT),
      }),
    },
    stopWhen: stepCountIs(2),
    providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } } },
  });
  await result.consumeStream();
  const warnings = (await result.steps).flatMap((step) => step.warnings ?? []);
  assert.ok(warnings.every((warning) => warning.type !== "other"), JSON.stringify(warnings));
  const answer = bodies[1]!.messages[1]!.content as Anthropic.ContentBlockParam[];
  assert.deepEqual(answer.map(({ type }) => type), ["thinking", "tool_use"]);
});

Deno.test("langchain: ChatAnthropic answers and binds tools", async () => {
  const model = new ChatAnthropic({
    model: MODEL,
    apiKey: "secret",
    anthropicApiUrl: server.base,
    maxTokens: 64,
    temperature: 0,
    maxRetries: 0,
  });
  const { content } = await model.invoke("What is the capital of France?");
  assert.equal(content, "The capital of France is Paris.");
  const { tool_calls: calls } = await model.bindTools(TOOLS).invoke(WEATHER_QUESTION);
  assert.deepEqual(calls!.map(({ name, args }) => [name, args]), [["get_weather", {
    city: "Paris",
  }]]);
});

Deno.test.afterAll(() => server[Symbol.asyncDispose]());
