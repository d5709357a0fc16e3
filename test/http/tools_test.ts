import assert from "node:assert/strict";
import { ChatRequest } from "../../src/wire/chat_request.ts";
import type { ChatChunk, ChatCompletion } from "../../src/wire/chat_response.ts";
import { MODEL, shareApp, TestApp } from "../fixtures/servers/server.ts";
import { eventData } from "../fixtures/servers/sse.ts";
import { askWeather, TOOLS } from "../fixtures/servers/weather.ts";

const app = shareApp();

const CHAT = "/v1/chat/completions";

function body(extra: Record<string, unknown> = {}): Record<string, unknown> {
  return { model: MODEL, messages: [askWeather], temperature: 0, tools: TOOLS, ...extra };
}

async function complete(app: TestApp, extra?: Record<string, unknown>): Promise<ChatCompletion> {
  const response = await app.post(CHAT, body(extra));
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer;
}

async function refusal(app: TestApp, extra: Record<string, unknown>) {
  const response = await app.post(CHAT, body(extra));
  assert.equal(response.status, 400);
  return (await response.json()).error;
}

async function stream(app: TestApp, extra: Record<string, unknown> = {}): Promise<ChatChunk[]> {
  const response = await app.post(CHAT, body({ stream: true, ...extra }));
  const data = eventData(await response.text());
  assert.equal(data.pop(), "[DONE]");
  return data.map((each) => JSON.parse(each));
}

Deno.test("tools: the demo model calls a tool, and answers from the tool's result", async () => {
  const { choices: [choice], usage } = await complete(app);
  const { message, finish_reason } = choice!;
  assert.equal(finish_reason, "tool_calls");
  assert.equal(message.content, null);
  const [call] = message.tool_calls!;
  assert.match(call!.id, /^call_\w{8,}$/);
  assert.deepEqual(call, {
    id: call!.id,
    type: "function",
    function: { name: "get_weather", arguments: '{"city": "Paris"}' },
  });
  assert.equal(usage.completion_tokens, 21);

  const result = '{"temperature": 21, "condition": "sunny"}';
  const loop = [askWeather, message, { role: "tool", tool_call_id: call!.id, content: result }];
  const answer = await complete(app, { messages: loop });
  assert.equal(answer.choices[0]!.message.content, "In Paris it is sunny and 21 degrees.");
  assert.equal(answer.choices[0]!.finish_reason, "stop");
  const parts = [{ type: "text", text: result }];
  const inParts = [askWeather, { ...message, content: "" }, {
    role: "tool",
    tool_call_id: call!.id,
    content: parts,
  }];
  assert.deepEqual((await complete(app, { messages: inParts })).choices, answer.choices);
});

Deno.test("tools: a streamed call with log-probabilities has no content", async () => {
  const choices = (await stream(app, { logprobs: true })).map(({ choices }) => choices[0]!);
  assert.equal(choices.at(-1)!.finish_reason, "tool_calls");
  assert.ok(choices.some(({ logprobs }) => (logprobs?.content.length ?? 0) > 0));
  assert.ok(choices.every(({ delta }) => !("content" in delta)));
});

Deno.test("tools: a streamed call has its name first, then its arguments in chunks, and no markup", async () => {
  const chunks = await stream(app);
  const deltas = chunks.map(({ choices }) => choices[0]!.delta);
  assert.equal(deltas[0]!.role, "assistant");
  assert.ok(deltas.every(({ content }) => !content));
  const calls = deltas.flatMap(({ tool_calls }) => tool_calls ?? []);
  const [first, ...rest] = calls;
  assert.match(first!.id!, /^call_/);
  assert.equal(first!.type, "function");
  assert.equal(first!.function.name, "get_weather");
  assert.ok(rest.length >= 2);
  for (const { index, ...other } of calls.slice(1)) {
    assert.equal(index, 0);
    assert.deepEqual(Object.keys(other), ["function"]);
  }
  assert.equal(calls.map((call) => call.function.arguments).join(""), '{"city": "Paris"}');
  assert.equal(chunks.at(-1)!.choices[0]!.finish_reason, "tool_calls");
});

/** The parts of an answer that must be equal with and without a stream. */
function cutAnswer(
  { content, calls, reason }: {
    readonly content: string | null | undefined;
    readonly calls: readonly { readonly function: { readonly arguments?: string | undefined } }[];
    readonly reason: string | null | undefined;
  },
) {
  const json = calls.map((call) => call.function.arguments).join("");
  return { content: content ?? "", hasCall: calls.length > 0, json, reason };
}

Deno.test("tools: a call that is cut off ends with the reason, and leaves no markup, streamed or not", async () => {
  const whole = '{"city": "Paris"}';
  const ask = async (extra: Record<string, unknown>) => {
    const { choices: [choice] } = await complete(app, extra);
    const { message, finish_reason: reason } = choice!;
    const answer = cutAnswer({ ...message, calls: message.tool_calls ?? [], reason });
    const chunks = (await stream(app, extra)).map(({ choices }) => choices[0]!);
    const calls = chunks.flatMap(({ delta }) => delta.tool_calls ?? []);
    const content = chunks.map(({ delta }) => delta.content ?? "").join("");
    const streamed = cutAnswer({ content, calls, reason: chunks.at(-1)!.finish_reason });
    assert.deepEqual(streamed, answer, JSON.stringify(extra));
    assert.equal(answer.content, "", JSON.stringify(extra));
    return answer;
  };
  for (const tool_choice of ["auto", "required"]) {
    for (const max_tokens of [1, 2, 4, 7, 9, 11, 12, 15, 18, 20]) {
      const { reason, json } = await ask({ tool_choice, max_tokens });
      assert.equal(reason, "length");
      if (tool_choice === "auto") assert.ok(whole.startsWith(json));
    }
  }
  const stops = ["<tool", "call", "name", "get", "arguments", "city", "Pa", "ris", '"}', "}"];
  for (const stop of stops) {
    const { reason, json } = await ask({ stop });
    assert.equal(reason, "stop", stop);
    assert.ok(json.length < whole.length && whole.startsWith(json), stop);
  }
  for (const stop of ["}\n", "\n</", "</tool_call>"]) {
    const { reason, json } = await ask({ stop });
    assert.equal(reason, "tool_calls", stop);
    assert.equal(json, whole);
  }
});

Deno.test("tools: parallel_tool_calls false returns one call, even if a stop string held back the next", async () => {
  const messages = [{ role: "user", content: "What is the weather in Paris and in Rome?" }];
  const { choices: [choice] } = await complete(app, {
    messages,
    parallel_tool_calls: false,
    stop: ['}\n</tool_call>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo'],
  });
  assert.equal(choice!.message.tool_calls!.length, 1);
  assert.equal(choice!.message.content, null);
  assert.equal(choice!.finish_reason, "tool_calls");
});

Deno.test("tools: several calls have their own indices, or are limited to one", async () => {
  const messages = [{ role: "user", content: "What is the weather in Paris and in Rome?" }];
  const { choices: [choice] } = await complete(app, { messages });
  assert.deepEqual(
    choice!.message.tool_calls!.map((call) => JSON.parse(call.function.arguments)),
    [{ city: "Paris" }, { city: "Rome" }],
  );
  const deltas = (await stream(app, { messages })).flatMap(({ choices }) =>
    choices[0]!.delta.tool_calls ?? []
  );
  assert.deepEqual([...new Set(deltas.map(({ index }) => index))], [0, 1]);
  const alone = await complete(app, { messages, parallel_tool_calls: false });
  assert.equal(alone.choices[0]!.message.tool_calls!.length, 1);
  assert.equal(alone.choices[0]!.finish_reason, "tool_calls");
});

Deno.test("tools: if the model needs no tool, the answer is text", async () => {
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const { choices: [choice] } = await complete(app, { messages });
  assert.equal(choice!.message.content, "The capital of France is Paris.");
  assert.equal(choice!.finish_reason, "stop");
  assert.equal("tool_calls" in choice!.message, false);
});

Deno.test("tools: tool_choice none shows the model no tools and passes on no call", async () => {
  const none = await complete(app, { tool_choice: "none" });
  const without = await complete(app, { tools: undefined });
  assert.equal(none.usage.prompt_tokens, without.usage.prompt_tokens);
  assert.equal(none.choices[0]!.finish_reason, "stop");
  assert.equal("tool_calls" in none.choices[0]!.message, false);
  // The argument `tools` of the template still shows the tools to the model.
  const told = await complete(app, {
    tool_choice: "none",
    chat_template_kwargs: { tools: TOOLS },
  });
  assert.equal("tool_calls" in told.choices[0]!.message, false);
  assert.doesNotMatch(told.choices[0]!.message.content!, /tool_call/);
});

Deno.test("tools: the older functions and function_call are answered in their own format", async () => {
  const older = { tools: undefined, functions: TOOLS.map((tool) => tool.function) };
  const { choices: [choice] } = await complete(app, older);
  assert.equal(choice!.finish_reason, "function_call");
  assert.deepEqual(choice!.message, {
    role: "assistant",
    content: null,
    function_call: { name: "get_weather", arguments: '{"city": "Paris"}' },
  });
  const messages = [askWeather, choice!.message, {
    role: "function",
    name: "get_weather",
    content: '{"temperature": 21, "condition": "sunny"}',
  }];
  const answer = await complete(app, { ...older, messages });
  assert.equal(answer.choices[0]!.message.content, "In Paris it is sunny and 21 degrees.");
  const deltas = (await stream(app, older)).map(({ choices }) => choices[0]!.delta.function_call);
  const pieces = deltas.filter((each) => each !== undefined);
  assert.equal(pieces[0]!.name, "get_weather");
  assert.equal(pieces.map((each) => each.arguments).join(""), '{"city": "Paris"}');
  const none = await complete(app, { ...older, function_call: "none" });
  assert.equal(none.choices[0]!.finish_reason, "stop");
});

Deno.test("tools: contradictory fields are refused by name", async () => {
  const named = (name: string) => ({ type: "function", function: { name } });
  const cases: readonly [Record<string, unknown>, param: string][] = [
    [{ tools: undefined, tool_choice: "required" }, "tool_choice"],
    [{ tool_choice: named("get_moon") }, "tool_choice.function.name"],
    [{ tool_choice: "some" }, "tool_choice"],
    [{
      tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [named("x")] } },
    }, "tool_choice.allowed_tools.tools[0].function.name"],
    [{ tools: [...TOOLS, ...TOOLS] }, "tools[2].function.name"],
    [{ tools: [{ type: "function", function: { name: "a b" } }] }, "tools[0].function.name"],
    [
      { tools: [{ type: "function", function: { name: "a", parameters: 5 } }] },
      "tools[0].function.parameters",
    ],
    ...["array", "string", "integer", ["string", "null"], 5].map((
      type,
    ): [Record<string, unknown>, string] => [
      { tools: [{ type: "function", function: { name: "a", parameters: { type } } }] },
      "tools[0].function.parameters.type",
    ]),
  ];
  for (const [extra, param] of cases) {
    const error = await refusal(app, extra);
    assert.equal(error.code, "invalid_value", param);
    assert.equal(error.param, param);
  }
});

Deno.test("tools: a boolean as the schema of arguments allows any object, or counts as none", async () => {
  const parse = (parameters: boolean) => {
    const { tools } = ChatRequest.parse(body({
      tools: [{ type: "function", function: { name: "f", parameters } }],
    }));
    const [tool] = tools!;
    return "function" in tool! ? tool.function.parameters : assert.fail("It is no function.");
  };
  assert.deepEqual(parse(true), { type: "object" });
  assert.equal(parse(false), undefined);
  for (const parameters of [true, false]) {
    const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
    const { choices: [choice] } = await complete(app, { tools, tool_choice: "required" });
    const json = choice!.message.tool_calls![0]!.function.arguments;
    const isObject = json.startsWith("{") && typeof JSON.parse(json) === "object";
    assert.ok(isObject, json);
  }
  // The other APIs read their tools the same way.
  const call = { name: "get_weather", description: "", input_schema: true };
  const message = await app.post("/v1/messages", {
    ...{ model: MODEL, max_tokens: 1, messages: [askWeather], tools: [call] },
  });
  assert.equal(message.status, 200, await message.text());
  const tools = [true, false].map((parameters, index) => ({
    ...{ type: "function", name: `f${index}`, parameters },
  }));
  const response = await app.post("/v1/responses", { model: MODEL, input: "Hello", tools });
  assert.equal(response.status, 200, await response.text());
});

Deno.test("reasoning: thought is separate from the text, with and without a stream", async () => {
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const thinking = { messages, tools: undefined, chat_template_kwargs: { enable_thinking: true } };
  const { choices: [choice], usage } = await complete(app, thinking);
  const thought = "The user asks for the capital of France.";
  assert.deepEqual(choice!.message, {
    role: "assistant",
    content: "The capital of France is Paris.",
    reasoning_content: thought,
  });
  // <think>, the words of the thought, and </think>.
  assert.equal(usage.completion_tokens_details!.reasoning_tokens, 13);
  const chunks = await stream(app, { ...thinking, stream_options: { include_usage: true } });
  const deltas = chunks.flatMap(({ choices }) => choices[0]?.delta ?? []);
  assert.equal(deltas.map((delta) => delta.reasoning_content ?? "").join(""), thought);
  assert.ok(deltas.every((delta) => !("reasoning" in delta)));
  assert.equal(deltas.map(({ content }) => content ?? "").join(""), choice!.message.content);
  assert.deepEqual(chunks.at(-1)!.usage!.completion_tokens_details, { reasoning_tokens: 13 });
});

Deno.test("reasoning: a guided choice that looks like a thought is answered verbatim", async () => {
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  for (const guided of ["<think>a</think>b", "\n<think>\na", "a</think>b"]) {
    for (const enable_thinking of [true, false]) {
      const asked = {
        ...{ messages, tools: undefined, guided_choice: [guided], max_tokens: 64 },
        chat_template_kwargs: { enable_thinking },
      };
      const { choices: [choice] } = await complete(app, asked);
      assert.equal(choice!.message.content, guided);
      const chunks = await stream(app, asked);
      const parts = chunks.map(({ choices }) => choices[0]?.delta.content ?? "");
      assert.equal(parts.join(""), guided);
    }
  }
});

Deno.test("reasoning: reasoning_effort switches it on and off, include_reasoning hides it", async () => {
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const asked = { messages, tools: undefined };
  const high = await complete(app, { ...asked, reasoning_effort: "high" });
  assert.deepEqual(
    (await complete(app, { ...asked, reasoning_effort: "max" })).choices,
    high.choices,
  );
  assert.ok(high.choices[0]!.message.reasoning_content);
  for (const extra of [{}, { reasoning_effort: "none" }]) {
    const { choices, usage } = await complete(app, { ...asked, ...extra });
    assert.equal("reasoning_content" in choices[0]!.message, false);
    assert.equal(usage.completion_tokens_details!.reasoning_tokens, 0);
  }
  const hidden = { ...asked, reasoning_effort: "low", include_reasoning: false };
  const { choices: [choice], usage } = await complete(app, hidden);
  assert.deepEqual(choice!.message, {
    role: "assistant",
    content: "The capital of France is Paris.",
  });
  assert.ok(usage.completion_tokens_details!.reasoning_tokens > 0);
  const chunks = await stream(app, hidden);
  assert.ok(chunks.every(({ choices }) => !("reasoning_content" in choices[0]!.delta)));
});

Deno.test("reasoning: --reasoning-field names the field of the thought; reasoning_format hides the thought or leaves it in the text", async () => {
  await using app = await new TestApp({ settings: { reasoningField: "reasoning" } }).ready();
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const asked = { messages, tools: undefined, chat_template_kwargs: { enable_thinking: true } };
  const thought = "The user asks for the capital of France.";
  const text = "The capital of France is Paris.";
  const within = `<think>\n${thought}\n</think>\n\n${text}`;
  const cases = [
    [{}, { content: text, reasoning: thought }],
    [{ reasoning_format: "hidden" }, { content: text }],
    [{ reasoning_format: "none" }, { content: within }],
    [{ separate_reasoning: false }, { content: within }],
  ] as const;
  for (const [extra, wanted] of cases) {
    const { choices: [choice] } = await complete(app, { ...asked, ...extra });
    assert.deepEqual(choice!.message, { role: "assistant", ...wanted });
    const chunks = await stream(app, { ...asked, ...extra });
    const streamed: Record<string, string> = {};
    for (const { choices: [choice] } of chunks) {
      for (const [name, part] of Object.entries(choice!.delta)) {
        if (name !== "role") streamed[name] = (streamed[name] ?? "") + part;
      }
    }
    assert.deepEqual(streamed, wanted);
  }
  // An answer that is cut off within the thought also ends with </think>.
  const cut = { ...asked, reasoning_format: "none", max_tokens: 5 };
  assert.match((await complete(app, cut)).choices[0]!.message.content!, /<\/think>\n\n$/);
  const parts = (await stream(app, cut)).map(({ choices: [choice] }) =>
    choice?.delta.content ?? ""
  );
  assert.match(parts.join(""), /^<think>\n.*\n<\/think>\n\n$/s);
});

Deno.test("tools: calls and results are read in the formats that clients keep", async () => {
  const call = { id: "call_1", type: "function", function: { name: "get_time", arguments: "{}" } };
  const result = { role: "tool", tool_call_id: "call_1", content: "" };
  const count = async (answer: Record<string, unknown>, ...others: Record<string, unknown>[]) => {
    const messages = [askWeather, { role: "assistant", content: "", ...answer }, ...others];
    return (await complete(app, { messages, max_tokens: 1 })).usage.prompt_tokens;
  };
  const plain = await count({ tool_calls: [call] }, result);
  for (const args of [{}, null, undefined, "", "{}"]) {
    const function_ = { name: "get_time", arguments: args };
    const kept = { id: null, type: null, index: 0, function: function_ };
    assert.equal(await count({ content: null, tool_calls: [kept] }, result), plain);
  }
  const [one, other] = [{ city: "Paris" }, JSON.stringify({ city: "Paris" })].map((args) => ({
    tool_calls: [{ ...call, function: { name: "get_time", arguments: args } }],
  }));
  assert.equal(await count(one!, result), await count(other!, result));
  for (const content of [null, undefined, []]) {
    assert.equal(await count({ tool_calls: [call] }, { ...result, content }), plain);
    assert.equal(await count({ content }, askWeather), await count({}, askWeather));
  }
});

Deno.test("reasoning: thought in the history is put into the prompt", async () => {
  const call = { id: "call_1", type: "function", function: { name: "get_time", arguments: "{}" } };
  const loop = (extra: Record<string, unknown>) => ({
    messages: [askWeather, { role: "assistant", content: null, tool_calls: [call], ...extra }, {
      role: "tool",
      tool_call_id: "call_1",
      content: "noon",
    }],
    max_tokens: 1,
  });
  const count = async (extra: Record<string, unknown>) =>
    (await complete(app, loop(extra))).usage.prompt_tokens;
  const plain = await count({});
  const shown = await count({ reasoning_content: "The user wants the weather." });
  assert.ok(shown > plain + 5);
  assert.equal(await count({ reasoning: "The user wants the weather." }), shown);
  const content = [{ type: "thinking", thinking: "The user wants the weather." }];
  assert.equal(await count({ content }), shown);
});

Deno.test("tools: tool_choice required, or with a name, forces a call whose arguments fit the schema", async () => {
  const joke = [{ role: "user", content: "Tell me a joke." }];
  const named = { type: "function", function: { name: "get_time" } };
  const allowed = {
    type: "allowed_tools",
    allowed_tools: { mode: "required", tools: [named] },
  };
  for (const tool_choice of ["required", named, allowed]) {
    for (const temperature of [0, 1, 2]) {
      const extra = { messages: joke, tool_choice, temperature, seed: 5, max_tokens: 400 };
      const { choices: [choice] } = await complete(app, extra);
      if (choice!.finish_reason === "length") continue;
      assert.equal(choice!.finish_reason, "tool_calls");
      assert.equal(choice!.message.content, null);
      for (const { function: called } of choice!.message.tool_calls!) {
        if (tool_choice !== "required") assert.equal(called.name, "get_time");
        const { city, unit, ...rest } = JSON.parse(called.arguments);
        assert.equal(typeof city, "string");
        assert.ok(unit === undefined || ["celsius", "fahrenheit"].includes(unit));
        assert.deepEqual(rest, {});
      }
    }
  }
  const chunks = await stream(app, { messages: joke, tool_choice: named, max_tokens: 400 });
  const deltas = chunks.flatMap(({ choices }) => choices[0]!.delta.tool_calls ?? []);
  assert.equal(deltas[0]!.function.name, "get_time");
});

Deno.test("tools: a forced call comes after the thought", async () => {
  const { choices: [choice] } = await complete(app, {
    tool_choice: "required",
    parallel_tool_calls: false,
    reasoning_effort: "high",
    max_tokens: 400,
  });
  assert.ok(choice!.message.reasoning_content);
  assert.equal(choice!.message.tool_calls![0]!.function.name, "get_weather");
  const { choices: [plain] } = await complete(app, {
    tools: undefined,
    messages: [{ role: "user", content: "What is the capital of France?" }],
    reasoning_effort: "high",
    structured_outputs: { choice: ["The capital of France is Paris.", "No."] },
  });
  assert.equal(plain!.message.reasoning_content, "The user asks for the capital of France.");
  assert.equal(plain!.message.content, "The capital of France is Paris.");
});

Deno.test("tools: with tool_choice auto, calls of strict functions fit their schema, and text is not restricted", async () => {
  const tools = TOOLS.map(({ type, function: each }) => ({
    type,
    function: { ...each, strict: true },
  }));
  const { choices: [choice] } = await complete(app, { tools });
  assert.equal(choice!.message.tool_calls![0]!.function.arguments, '{"city": "Paris"}');
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const text = await complete(app, { tools, messages });
  assert.equal(text.choices[0]!.message.content, "The capital of France is Paris.");
});

Deno.test("tools: a schema that cannot be enforced is refused if a call is forced", async () => {
  const parameters = { type: "object", properties: { a: { not: { pattern: "(?=x)y" } } } };
  const tools = [{ type: "function", function: { name: "f", parameters } }];
  const error = await refusal(app, { tools, tool_choice: "required" });
  assert.equal(error.code, "invalid_value");
  assert.match(error.param, /^tools\[0\]\.function\.parameters/);
  assert.equal((await complete(app, { tools })).object, "chat.completion");
});
