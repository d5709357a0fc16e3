/**
 * LangChain's chat model against a real server on a real port.
 */
import assert from "node:assert/strict";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { MODEL, TestServer } from "../../fixtures/servers/server.ts";
import {
  answerWeather,
  askWeather,
  TOOLS,
  WEATHER_ANSWER,
} from "../../fixtures/servers/weather.ts";

async function open() {
  const server = await TestServer.start();
  const model = new ChatOpenAI({
    model: MODEL,
    apiKey: "any",
    temperature: 0,
    maxRetries: 0,
    configuration: { baseURL: `${server.base}/v1` },
  });
  return { model, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

Deno.test("@langchain/openai: bindTools calls a tool and answers from its result", async () => {
  await using opened = await open();
  const bound = opened.model.bindTools([...TOOLS]);
  const called = await bound.invoke([askWeather]);
  const [call] = called.tool_calls!;
  assert.equal(call!.name, "get_weather");
  assert.deepEqual(call!.args, { city: "Paris" });
  const content = answerWeather({ city: "Paris" });
  const result = { role: "tool" as const, tool_call_id: call!.id!, content };
  assert.equal((await bound.invoke([askWeather, called, result])).content, WEATHER_ANSWER);

  let gathered: Awaited<ReturnType<typeof bound.invoke>> | undefined;
  for await (const chunk of await bound.stream([askWeather])) {
    gathered = gathered === undefined ? chunk : gathered.concat(chunk);
  }
  assert.deepEqual(gathered!.tool_calls!.map(({ name, args }) => ({ name, args })), [
    { name: "get_weather", args: { city: "Paris" } },
  ]);
});

const Person = z.object({ name: z.string().max(20), age: z.int().min(0).max(130) });
const BOB = "Extract the name and the age as JSON: Bob is 42 years old.";

for (const method of ["jsonSchema", "functionCalling", "jsonMode"] as const) {
  Deno.test(`@langchain/openai: withStructuredOutput() returns an object that matches the schema, by ${method}`, async () => {
    await using opened = await open();
    const person = await opened.model.withStructuredOutput(Person, { name: "person", method })
      .invoke(BOB);
    assert.ok(Person.safeParse(person).success, JSON.stringify(person));
    if (method !== "functionCalling") assert.deepEqual(person, { name: "Bob", age: 42 });
  });
}
