/**
 * OpenAI's client and its agents on `/responses`, over a real port.
 */
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { Agent, OpenAIProvider, Runner, tool as agentTool } from "@openai/agents";
import { generateText, streamText } from "ai";
import OpenAI, { BadRequestError, NotFoundError } from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { z } from "zod";
import { MODEL, TestServer } from "../../fixtures/servers/server.ts";
import {
  answerWeather,
  askWeather,
  TOOLS as CHAT_TOOLS,
  WEATHER_ANSWER,
} from "../../fixtures/servers/weather.ts";

const WEATHER_QUESTION = askWeather.content;
const WEATHER_RESULT = answerWeather({ city: "Paris" });

const server = await TestServer.start();
const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });
const TOOLS = CHAT_TOOLS.map(({ function: each }) => ({
  type: "function" as const,
  ...each,
  strict: false,
}));
const GREEDY = { model: MODEL, temperature: 0 };

/** Checks that a stream's events come in an order that a client can follow. @returns the last event's response. */
function followStream(events: readonly ResponseStreamEvent[]) {
  const types = events.map(({ type }) => type);
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, index) => index));
  assert.deepEqual(types.slice(0, 2), ["response.created", "response.in_progress"]);
  const open = new Map<number, { id: string; part: boolean; text: string }>();
  for (const event of events.slice(2, -1)) {
    switch (event.type) {
      case "response.output_item.added":
        assert.equal(open.size, 0, "an item begins while another is open");
        open.set(event.output_index, { id: event.item.id!, part: false, text: "" });
        break;
      case "response.reasoning_summary_part.added":
      case "response.content_part.added": {
        const item = open.get(event.output_index)!;
        assert.equal(event.item_id, item.id);
        assert.equal(item.part, false);
        assert.equal("text" in event.part && event.part.text, "");
        item.part = true;
        break;
      }
      case "response.reasoning_summary_text.delta":
      case "response.output_text.delta":
      case "response.reasoning_text.delta": {
        const item = open.get(event.output_index)!;
        assert.ok(item.part, "text outside a part");
        item.text += event.delta;
        break;
      }
      case "response.function_call_arguments.delta":
        open.get(event.output_index)!.text += event.delta;
        break;
      case "response.reasoning_summary_text.done":
      case "response.output_text.done":
      case "response.reasoning_text.done":
        assert.equal(event.text, open.get(event.output_index)!.text);
        break;
      case "response.function_call_arguments.done":
        assert.equal(event.arguments, open.get(event.output_index)!.text);
        break;
      case "response.reasoning_summary_part.done":
      case "response.content_part.done":
        open.get(event.output_index)!.part = false;
        break;
      case "response.output_item.done":
        assert.equal(event.item.id, open.get(event.output_index)!.id);
        assert.equal(open.get(event.output_index)!.part, false, "an item ends within a part");
        open.delete(event.output_index);
        break;
      default:
        assert.fail(`an unexpected ${event.type}`);
    }
  }
  assert.equal(open.size, 0);
  const last = events.at(-1)!;
  assert.ok(last.type === "response.completed" || last.type === "response.incomplete", last.type);
  return last.response;
}

Deno.test("openai: a response continues a stored one, which can be retrieved and deleted", async () => {
  const first = await client.responses.create({
    ...GREEDY,
    input: "What is the capital of France?",
  });
  assert.equal(first.object, "response");
  assert.equal(first.status, "completed");
  assert.equal(first.output_text, "The capital of France is Paris.");
  assert.ok(first.usage!.input_tokens > 0 && first.usage!.output_tokens > 0);
  const second = await client.responses.create({
    ...GREEDY,
    input: "What does a cow say?",
    previous_response_id: first.id,
  });
  assert.equal(second.previous_response_id, first.id);
  // The first turn is part of the prompt.
  assert.ok(second.usage!.input_tokens > first.usage!.input_tokens + first.usage!.output_tokens);
  assert.equal((await client.responses.retrieve(second.id)).output_text, second.output_text);
  await assert.rejects(
    client.responses.retrieve(second.id, { stream: true }),
    (error) => error instanceof BadRequestError && error.param === "stream",
  );
  const items = await client.responses.inputItems.list(second.id);
  assert.equal(items.data.length, 1);
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), NotFoundError);
  const orphan = client.responses.create({
    ...GREEDY,
    input: "And?",
    previous_response_id: second.id,
  });
  await assert.rejects(
    orphan,
    (error) => error instanceof NotFoundError && /no stored response/.test(error.message),
  );
});

Deno.test("openai: store false keeps nothing", async () => {
  const { id } = await client.responses.create({ ...GREEDY, input: "Hello", store: false });
  await assert.rejects(client.responses.retrieve(id), NotFoundError);
});

Deno.test("openai: a streamed response has its events in order and equals a whole one", async () => {
  const request = { ...GREEDY, input: "What is the capital of France?" };
  const events = await Array.fromAsync(await client.responses.create({ ...request, stream: true }));
  const streamed = followStream(events);
  const whole = await client.responses.create(request);
  const text = streamed.output[0]!;
  assert.ok(text.type === "message" && text.content[0]!.type === "output_text");
  assert.equal(text.content[0]!.text, whole.output_text);
});

Deno.test("openai: a response cut at max_output_tokens is incomplete", async () => {
  const request = { ...GREEDY, input: "Tell me a long story about a king.", max_output_tokens: 5 };
  const whole = await client.responses.create(request);
  assert.equal(whole.status, "incomplete");
  assert.deepEqual(whole.incomplete_details, { reason: "max_output_tokens" });
  const events = await Array.fromAsync(await client.responses.create({ ...request, stream: true }));
  assert.equal(followStream(events).status, "incomplete");
});

Deno.test("openai: a function is called, with and without a stream, and its result is answered", async () => {
  const request = { ...GREEDY, input: WEATHER_QUESTION, tools: TOOLS };
  const asked = await client.responses.create(request);
  const call = asked.output[0]!;
  assert.ok(call.type === "function_call");
  assert.equal(call.name, "get_weather");
  assert.deepEqual(JSON.parse(call.arguments), { city: "Paris" });
  const events = await Array.fromAsync(await client.responses.create({ ...request, stream: true }));
  const streamed = followStream(events).output[0]!;
  assert.ok(streamed.type === "function_call");
  assert.equal(streamed.arguments, call.arguments);
  const output = {
    type: "function_call_output" as const,
    call_id: call.call_id,
    output: WEATHER_RESULT,
  };
  const answered = await client.responses.create({
    ...GREEDY,
    tools: TOOLS,
    previous_response_id: asked.id,
    input: [output],
  });
  assert.equal(answered.output_text, WEATHER_ANSWER);
  const resent = await client.responses.create({
    ...GREEDY,
    tools: TOOLS,
    input: [{ role: "user", content: WEATHER_QUESTION }, call, output],
  });
  assert.equal(resent.output_text, WEATHER_ANSWER);
});

Deno.test("openai: text.format forces JSON, and reasoning is separate", async () => {
  const schema = {
    type: "object",
    properties: { answer: { type: "string", maxLength: 20 } },
    required: ["answer"],
    additionalProperties: false,
  };
  const formed = await client.responses.create({
    ...GREEDY,
    input: "What is the capital of France?",
    text: { format: { type: "json_schema", name: "answer", schema } },
  });
  assert.equal(typeof JSON.parse(formed.output_text).answer, "string");
  const thought = await client.responses.create({
    ...GREEDY,
    input: "What is the capital of France?",
    reasoning: { effort: "medium" },
  });
  assert.deepEqual(thought.output.map(({ type }) => type), ["reasoning", "message"]);
  assert.equal(thought.output_text, "The capital of France is Paris.");
  assert.ok(thought.usage!.output_tokens_details.reasoning_tokens > 0);
  const events = await Array.fromAsync(
    await client.responses.create({
      ...GREEDY,
      input: "What is the capital of France?",
      reasoning: { effort: "medium" },
      stream: true,
    }),
  );
  const withoutIds = (output: OpenAI.Responses.ResponseOutputItem[]) =>
    output.map((item) => ({ ...item, id: "" }));
  assert.deepEqual(withoutIds(followStream(events).output), withoutIds(thought.output));
});

Deno.test("openai: if a summary of the reasoning is requested, it is the whole thought", async () => {
  const request = { ...GREEDY, input: "What is the capital of France?" };
  const plain = await client.responses.create({ ...request, reasoning: { effort: "medium" } });
  const reasoning = { effort: "medium", summary: "auto" } as const;
  const whole = await client.responses.create({ ...request, reasoning });
  const readThought = ({ output: [item] }: OpenAI.Responses.Response) => {
    assert.ok(item?.type === "reasoning");
    return item;
  };
  const { text } = readThought(plain).content![0]!;
  assert.deepEqual(readThought(whole).summary, [{ type: "summary_text", text }]);
  assert.deepEqual(readThought(whole).content, []);
  assert.equal(whole.reasoning?.summary, "auto");
  const events = await Array.fromAsync(
    await client.responses.create({ ...request, reasoning, stream: true }),
  );
  assert.deepEqual(readThought(followStream(events)).summary, readThought(whole).summary);
  assert.ok(events.some(({ type }) => type === "response.reasoning_summary_part.added"));
  assert.ok(events.every(({ type }) => !type.startsWith("response.reasoning_text")));
  // The reasoning is sent back in the prompt.
  const goOn = async (thought: readonly OpenAI.Responses.ResponseInputItem[]) => {
    const call = { type: "function_call", call_id: "c", name: "f", arguments: "{}" } as const;
    const result = { type: "function_call_output", call_id: "c", output: "3" } as const;
    const input = [{ role: "user" as const, content: "Hi" }, ...thought, call, result];
    return (await client.responses.inputTokens.count({ model: MODEL, input })).input_tokens;
  };
  assert.equal(await goOn([readThought(whole)]), await goOn([readThought(plain)]));
  assert.ok(await goOn([readThought(whole)]) > await goOn([]));
});

Deno.test("openai: input tokens are counted as a response counts them", async () => {
  const first = await client.responses.create({ ...GREEDY, input: "What does a cow say?" });
  const request = {
    model: MODEL,
    input: WEATHER_QUESTION,
    instructions: "Be short.",
    tools: TOOLS,
    previous_response_id: first.id,
  };
  const count = await client.responses.inputTokens.count(request);
  const { usage } = await client.responses.create({ ...request, ...GREEDY });
  assert.deepEqual({ ...count }, {
    object: "response.input_tokens",
    input_tokens: usage!.input_tokens,
  });
});

Deno.test("openai: a call that is cut off within its arguments is incomplete for any reason", async () => {
  const ask = async (extra: object) => {
    const request = { ...GREEDY, input: WEATHER_QUESTION, tools: TOOLS, ...extra };
    const { status, output } = await client.responses.create(request);
    const events = await Array.fromAsync(
      await client.responses.create({ ...request, stream: true }),
    );
    const streamed = followStream(events);
    const calls = [output, streamed.output].map((items) =>
      items.flatMap((item) => item.type === "function_call" ? [[item.status, item.arguments]] : [])
    );
    assert.deepEqual(calls[1], calls[0]);
    assert.equal(streamed.status, status);
    return { status, call: calls[0]![0] };
  };
  const whole = '{"city": "Paris"}';
  assert.deepEqual(await ask({}), { status: "completed", call: ["completed", whole] });
  const seen = new Set<string>();
  for (let max_output_tokens = 10; max_output_tokens < 22; max_output_tokens++) {
    const { status, call } = await ask({ max_output_tokens });
    if (call === undefined) continue;
    const isWhole = call[1] === whole;
    assert.equal(call[0], isWhole ? "completed" : "incomplete", `${max_output_tokens}`);
    if (!isWhole) assert.equal(status, "incomplete");
    seen.add(`${call[0]}`);
  }
  assert.deepEqual([...seen], ["incomplete", "completed"]);
  const stopped = await ask({ stop: ["ris"] });
  assert.deepEqual(stopped, { status: "completed", call: ["incomplete", '{"city": "Pa'] });
});

Deno.test("responses: the generation fields that vLLM accepts here work like those of chat", async () => {
  const ask = async (extra: object) => {
    const input = "What is the capital of France?";
    const request = { ...GREEDY, input, max_output_tokens: 20, ...extra };
    return (await client.responses.create(request)).output_text;
  };
  const whole = "The capital of France is Paris.";
  const cases: [object, string][] = [
    [{ stop: "of" }, "The capital "],
    [{ stop: "of", include_stop_str_in_output: true }, "The capital of"],
    [{ stop_token_ids: [470] }, "The capital"],
    [{ include_stop_str_in_output: true, skip_special_tokens: false }, `${whole}<|im_end|>`],
    [{ structured_outputs: { choice: ["Rome"] } }, "Rome"],
    [{ temperature: 2, top_k: 1 }, whole],
    [{ temperature: 2, min_p: 1 }, whole],
  ];
  for (const [extra, expected] of cases) {
    assert.equal(await ask(extra), expected, JSON.stringify(extra));
  }
  assert.doesNotMatch(await ask({ logit_bias: { "470": -100 } }), / of/);
  const seeded = { temperature: 2, seed: 4, ignore_eos: true };
  assert.equal(await ask(seeded), await ask(seeded));
});

Deno.test("openai: a call of a function in a namespace has the names of the function and the namespace", async () => {
  const [weather] = TOOLS;
  const namespace = {
    type: "namespace" as const,
    name: "mcp__meteo",
    description: "The weather service.",
    tools: [weather!],
  };
  const request = { ...GREEDY, tools: [{ type: "web_search" as const }, namespace] };
  const named = { name: "get_weather", namespace: "mcp__meteo" };
  // The demo model cannot spell names that it was not trained on.
  const tool_choice = { type: "function" as const, ...named };
  const first = await client.responses.create({ ...request, input: WEATHER_QUESTION, tool_choice });
  const [call] = first.output;
  assert.ok(call?.type === "function_call");
  assert.deepEqual({ name: call.name, namespace: call.namespace }, named);
  const result = {
    type: "function_call_output" as const,
    call_id: call.call_id,
    output: WEATHER_RESULT,
  };
  for (
    const continued of [
      { input: [result], previous_response_id: first.id },
      { input: [{ role: "user" as const, content: WEATHER_QUESTION }, call, result] },
    ]
  ) {
    const { output_text: text } = await client.responses.create({ ...request, ...continued });
    assert.equal(text, WEATHER_ANSWER);
  }
  const events = [];
  for await (
    const event of await client.responses.create({
      ...request,
      input: "Tell me a joke.",
      tool_choice,
      stream: true,
    })
  ) events.push(event);
  const { output: [streamed] } = followStream(events);
  assert.ok(streamed?.type === "function_call");
  assert.deepEqual({ name: streamed.name, namespace: streamed.namespace }, named);
  const bad = { ...weather!, strict: true, parameters: { type: "object", not: { const: 1 } } };
  await assert.rejects(
    client.responses.create({
      ...request,
      input: "Hello",
      tools: [request.tools[0]!, { ...namespace, tools: [bad] }],
    }),
    (error: BadRequestError) => error.param === "tools[1].tools[0].parameters.not",
  );
});

Deno.test("openai: hosted tools are omitted with a warning, and refused if they are required", async () => {
  const tools = [{ type: "web_search" as const }];
  const { response } = await client.responses.create({ ...GREEDY, input: "Hello", tools })
    .withResponse();
  assert.match(response.headers.get("warning")!, /web_search/);
  const needed = client.responses.create({
    ...GREEDY,
    input: "Hello",
    tools,
    tool_choice: "required",
  });
  await assert.rejects(needed, BadRequestError);
});

Deno.test("openai: unsupported fields are refused by name", async () => {
  const refused: [object, string][] = [
    [{ background: true }, "background"],
    [{ conversation: "conv_1" }, "conversation"],
    [{ response_format: { type: "json_object" } }, "response_format"],
    [{ bad_words: ["moo"] }, "bad_words"],
    [{ reasoning: { summary: "long" } }, "reasoning.summary"],
    [{ stop: [5] }, "stop[0]"],
    [{ prompt: { id: "p" } }, "prompt"],
    [{ input: [{ type: 5 }] }, "input[0].type"],
    [
      { input: [{ role: "user", content: [{ type: "input_file", file_id: "f" }] }] },
      "input[0].content[0]",
    ],
    [{ temperature: 3 }, "temperature"],
    [
      { text: { format: { type: "json_schema", name: "a", schema: { type: "nonsense" } } } },
      "text.format.schema.type",
    ],
  ];
  for (const [fields, param] of refused) {
    const request = {
      ...GREEDY,
      input: "Hello",
      ...fields,
    } as OpenAI.Responses.ResponseCreateParamsNonStreaming;
    await assert.rejects(
      client.responses.create(request),
      (error) => error instanceof BadRequestError && error.param === param,
      param,
    );
  }
});

Deno.test("openai: max_tokens and reasoning_effort are accepted under their names in chat", async () => {
  const fields = { max_tokens: 4, reasoning_effort: "none" };
  const request = { ...GREEDY, input: "Hello", ...fields };
  const { usage, incomplete_details: details } = await client.responses.create(request);
  assert.equal(usage!.output_tokens, 4);
  assert.deepEqual(details, { reason: "max_output_tokens" });
});

Deno.test("openai: truncation auto omits the oldest turns", async () => {
  const turn = (index: number) => [
    { role: "user" as const, content: `Number ${index}: ${"What does a cow say? ".repeat(20)}` },
    { role: "assistant" as const, content: "A cow says moo." },
  ];
  const input = [
    ...Array.from({ length: 40 }, (_, index) => turn(index)).flat(),
    { role: "user" as const, content: "What is the capital of France?" },
  ];
  const request = { ...GREEDY, input, max_output_tokens: 8 };
  await assert.rejects(client.responses.create(request), /maximum context length is \d+ tokens/);
  const cut = await client.responses.create({ ...request, truncation: "auto" });
  assert.ok(cut.usage!.input_tokens < 2048 && cut.usage!.input_tokens > 100);
});

Deno.test("ai-sdk: the default model of @ai-sdk/openai answers and streams", async () => {
  const provider = createOpenAI({ baseURL: `${server.base}/v1`, apiKey: "any" });
  const prompt = "What is the capital of France?";
  const whole = await generateText({ model: provider(MODEL), prompt, temperature: 0 });
  assert.equal(whole.text, "The capital of France is Paris.");
  const { textStream } = streamText({ model: provider(MODEL), prompt, temperature: 0 });
  assert.equal((await Array.fromAsync(textStream)).join(""), whole.text);
});

Deno.test("agents: an agent in its default mode calls its tool", async () => {
  const called: unknown[] = [];
  const weather = agentTool({
    name: "get_weather",
    description: CHAT_TOOLS[0]!.function.description,
    parameters: z.object({ city: z.string() }),
    execute: (input) => {
      called.push(input);
      return WEATHER_RESULT;
    },
  });
  const agent = new Agent({
    name: "Weather",
    instructions: "",
    model: MODEL,
    tools: [weather],
    modelSettings: { temperature: 0 },
  });
  const modelProvider = new OpenAIProvider({ openAIClient: client, useResponses: true });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const result = await runner.run(agent, WEATHER_QUESTION);
  assert.deepEqual(called, [{ city: "Paris" }]);
  assert.match(result.finalOutput!, /sunny/);
});

Deno.test.afterAll(() => server[Symbol.asyncDispose]());
