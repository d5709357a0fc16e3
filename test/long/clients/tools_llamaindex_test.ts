/**
 * LlamaIndex's model, in TypeScript, against a real server on a real port.
 */
import assert from "node:assert/strict";
import { tool } from "@llamaindex/core/tools";
import { OpenAI, OpenAIEmbedding } from "@llamaindex/openai";
import { z } from "zod";
import { MODEL, TestServer } from "../../fixtures/servers/server.ts";
import { answerWeather, askWeather, WEATHER_ANSWER } from "../../fixtures/servers/weather.ts";

function modelAt(server: TestServer): OpenAI {
  return new OpenAI({
    // Any other name would be looked up in a table of OpenAI's models.
    model: MODEL as "gpt-4o",
    apiKey: "any",
    baseURL: `${server.base}/v1`,
    temperature: 0,
    maxRetries: 0,
  });
}

const ASKED = { role: "user" as const, content: "What is the capital of France?" };

Deno.test("@llamaindex/openai: gives the same answer with and without a stream", async () => {
  await using server = await TestServer.start();
  const model = modelAt(server);
  const { message } = await model.chat({ messages: [ASKED] });
  assert.equal(message.content, "The capital of France is Paris.");
  let text = "";
  for await (const { delta } of await model.chat({ messages: [ASKED], stream: true })) {
    text += delta;
  }
  assert.equal(text, message.content);
  const completion = await model.complete({ prompt: ASKED.content });
  assert.equal(completion.text, message.content);
});

Deno.test("@llamaindex/openai: calls a tool and answers from its result", async () => {
  await using server = await TestServer.start();
  const model = modelAt(server);
  const getWeather = tool({
    name: "get_weather",
    description: "Get the current weather in a city.",
    parameters: z.object({ city: z.string().describe("The city") }),
    execute: ({ city }) => answerWeather({ city }),
  });
  const called = await model.chat({ messages: [askWeather], tools: [getWeather] });
  const { toolCall } = called.message.options as {
    toolCall: { id: string; name: string; input: string | { city: string } }[];
  };
  const [{ id, name, input } = { id: "", name: "", input: "" }] = toolCall;
  assert.equal(name, "get_weather");
  const { city } = typeof input === "string" ? JSON.parse(input) : input;
  assert.equal(city, "Paris");
  const result = answerWeather({ city });
  const answer = await model.chat({
    messages: [askWeather, called.message, {
      role: "user",
      content: result,
      options: { toolResult: { id, result, isError: false } },
    }],
    tools: [getWeather],
  });
  assert.equal(answer.message.content, WEATHER_ANSWER);
});

Deno.test("@llamaindex/openai: embeds texts", async () => {
  const model = "hearth-demo-embed";
  await using server = await TestServer.start({ model });
  const embedder = new OpenAIEmbedding({ model, apiKey: "any", baseURL: `${server.base}/v1` });
  const [first, second] = await embedder.getTextEmbeddings(["a cow", "a horse"]);
  assert.ok(first!.length > 10 && first!.length === second!.length);
  assert.ok(first!.every(Number.isFinite));
});
