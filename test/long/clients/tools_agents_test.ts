/**
 * OpenAI's Agents SDK in its chat completions mode, against a real server on a real port.
 */
import assert from "node:assert/strict";
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { z } from "zod";
import { MODEL, TestServer } from "../../fixtures/servers/server.ts";
import { answerWeather, askWeather, WEATHER_ANSWER } from "../../fixtures/servers/weather.ts";

Deno.test("@openai/agents: an agent calls its tool and answers, with and without a stream", async () => {
  await using server = await TestServer.start();
  const heard: unknown[] = [];
  const weather = tool({
    name: "get_weather",
    description: "Get the current weather in a city.",
    parameters: z.object({ city: z.string().max(20) }),
    execute: (given) => {
      heard.push(given);
      return answerWeather(given);
    },
  });
  const agent = new Agent({
    name: "Weather",
    model: MODEL,
    modelSettings: { temperature: 0 },
    tools: [weather],
  });
  const modelProvider = new OpenAIProvider({
    baseURL: `${server.base}/v1`,
    apiKey: "any",
    useResponses: false,
  });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  assert.equal((await runner.run(agent, askWeather.content)).finalOutput, WEATHER_ANSWER);
  const streamed = await runner.run(agent, askWeather.content, { stream: true });
  await streamed.completed;
  assert.equal(streamed.finalOutput, WEATHER_ANSWER);
  assert.deepEqual(heard, [{ city: "Paris" }, { city: "Paris" }]);
});
