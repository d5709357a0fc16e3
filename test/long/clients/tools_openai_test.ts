/**
 * Tools, reasoning and structured output with the official OpenAI client, against a real server on a real port.
 */
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { MODEL, TestServer } from "../../fixtures/servers/server.ts";
import {
  answerWeather,
  askWeather,
  TOOLS,
  WEATHER_ANSWER,
} from "../../fixtures/servers/weather.ts";

interface Opened extends AsyncDisposable {
  readonly client: OpenAI;
}

async function open(): Promise<Opened> {
  const server = await TestServer.start();
  const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });
  return { client, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

const ASKED = { model: MODEL, messages: [askWeather], temperature: 0 };

Deno.test("openai: a tool is called manually, and its result is answered", async () => {
  await using opened = await open();
  const { completions } = opened.client.chat;
  const first = await completions.create({ ...ASKED, tools: [...TOOLS] });
  const { message, finish_reason } = first.choices[0]!;
  assert.equal(finish_reason, "tool_calls");
  const [call] = message.tool_calls!;
  assert.ok(call?.type === "function");
  const content = answerWeather(JSON.parse(call.function.arguments));
  const answer = await completions.create({
    ...ASKED,
    tools: [...TOOLS],
    messages: [askWeather, message, { role: "tool", tool_call_id: call.id, content }],
  });
  assert.equal(answer.choices[0]!.message.content, WEATHER_ANSWER);
});

Deno.test("openai: a streamed call is assembled by the client's helper", async () => {
  await using opened = await open();
  const stream = opened.client.chat.completions.stream({ ...ASKED, tools: [...TOOLS] });
  const done: string[] = [];
  stream.on("tool_calls.function.arguments.done", ({ name, arguments: json }) => {
    done.push(`${name} ${json}`);
  });
  const { choices } = await stream.finalChatCompletion();
  assert.deepEqual(done, ['get_weather {"city": "Paris"}']);
  assert.equal(choices[0]!.finish_reason, "tool_calls");
});

Deno.test("openai: runTools runs the whole loop, with and without a stream", async () => {
  await using opened = await open();
  const heard: unknown[] = [];
  const tools = TOOLS.map(({ function: { name, description, parameters } }) => ({
    type: "function" as const,
    function: {
      name,
      description,
      parameters,
      parse: (json: string) => JSON.parse(json) as { city: string },
      function: (given: { city: string }) => {
        heard.push(given);
        return answerWeather(given);
      },
    },
  }));
  const { completions } = opened.client.chat;
  const whole = completions.runTools({ ...ASKED, tools });
  assert.equal(await whole.finalContent(), WEATHER_ANSWER);
  const streamed = completions.runTools({ ...ASKED, tools, stream: true });
  assert.equal(await streamed.finalContent(), WEATHER_ANSWER);
  assert.deepEqual(heard, [{ city: "Paris" }, { city: "Paris" }]);
});

Deno.test("openai: parse returns tools' arguments and answers as the zod schema describes", async () => {
  await using opened = await open();
  const { completions } = opened.client.chat;
  const Weather = z.object({ city: z.string().max(20) });
  const tool = zodFunction({
    name: "get_weather",
    description: "Get the current weather in a city.",
    parameters: Weather,
  });
  const called = await completions.parse({ ...ASKED, tools: [tool], tool_choice: "required" });
  const [call] = called.choices[0]!.message.tool_calls!;
  assert.ok(call?.type === "function");
  assert.deepEqual(call.function.parsed_arguments, { city: "Paris" });

  const Person = z.object({ name: z.string().max(20), age: z.int().min(0).max(130) });
  const question = "Extract the name and the age as JSON: Bob is 42 years old.";
  const asked = {
    ...ASKED,
    messages: [{ role: "user" as const, content: question }],
    response_format: zodResponseFormat(Person, "person"),
  };
  const parsed = await completions.parse(asked);
  assert.deepEqual(parsed.choices[0]!.message.parsed, { name: "Bob", age: 42 });
  const stream = completions.stream(asked);
  const final = await stream.finalChatCompletion();
  assert.deepEqual(final.choices[0]!.message.parsed, { name: "Bob", age: 42 });
});

Deno.test("openai: reasoning arrives separately from the text", async () => {
  await using opened = await open();
  const messages = [{ role: "user" as const, content: "What is the capital of France?" }];
  const stream = await opened.client.chat.completions.create({
    ...ASKED,
    messages,
    reasoning_effort: "medium",
    stream: true,
  });
  let [thought, text] = ["", ""];
  for await (const { choices } of stream) {
    const delta = choices[0]!.delta as { content?: string | null; reasoning_content?: string };
    thought += delta.reasoning_content ?? "";
    text += delta.content ?? "";
  }
  assert.equal(thought, "The user asks for the capital of France.");
  assert.equal(text, "The capital of France is Paris.");
});
