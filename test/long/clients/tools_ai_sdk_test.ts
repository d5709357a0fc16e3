/** Vercel's AI SDK, with its OpenAI provider's chat models, against a real server on a real port. */
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, isStepCount, streamObject, streamText, tool } from "ai";
import { z } from "zod";
import { MODEL, TestServer } from "../../fixtures/servers/server.ts";
import { answerWeather, askWeather, WEATHER_ANSWER } from "../../fixtures/servers/weather.ts";

const Weather = z.object({ city: z.string().max(20) });
const Person = z.object({ name: z.string().max(20), age: z.int().min(0).max(130) });
const BOB = "Extract the name and the age as JSON: Bob is 42 years old.";

async function open() {
  const server = await TestServer.start();
  const provider = createOpenAI({ baseURL: `${server.base}/v1`, apiKey: "any" });
  return {
    model: provider.chat(MODEL),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function weatherTool(heard: unknown[]) {
  return tool({
    description: "Get the current weather in a city.",
    inputSchema: Weather,
    execute: (given) => {
      heard.push(given);
      return Promise.resolve(JSON.parse(answerWeather(given)));
    },
  });
}

Deno.test("ai: generateText and streamText run tools to the answer", async () => {
  await using opened = await open();
  const heard: unknown[] = [];
  const asked = {
    model: opened.model,
    prompt: askWeather.content,
    temperature: 0,
    tools: { get_weather: weatherTool(heard) },
    stopWhen: isStepCount(3),
    maxRetries: 0,
  };
  assert.equal((await generateText(asked)).text, WEATHER_ANSWER);
  const stream = streamText(asked);
  assert.equal(await stream.text, WEATHER_ANSWER);
  assert.deepEqual(heard, [{ city: "Paris" }, { city: "Paris" }]);
});

Deno.test("ai: toolChoice required calls a tool for any prompt", async () => {
  await using opened = await open();
  const { toolCalls, finishReason } = await generateText({
    model: opened.model,
    prompt: "Tell me a joke.",
    temperature: 0,
    tools: { get_weather: tool({ description: "Get the weather.", inputSchema: Weather }) },
    toolChoice: "required",
    maxRetries: 0,
  });
  assert.equal(finishReason, "tool-calls");
  assert.equal(toolCalls[0]!.toolName, "get_weather");
  assert.ok(Weather.safeParse(toolCalls[0]!.input).success);
});

Deno.test("ai: generateObject and streamObject return an object that matches the schema", async () => {
  await using opened = await open();
  const asked = {
    model: opened.model,
    schema: Person,
    prompt: BOB,
    temperature: 0,
    maxRetries: 0,
  };
  assert.deepEqual((await generateObject(asked)).object, { name: "Bob", age: 42 });
  let last: unknown;
  for await (const partial of streamObject(asked).partialObjectStream) last = partial;
  assert.deepEqual(last, { name: "Bob", age: 42 });
});
