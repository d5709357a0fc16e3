/** Requests of real clients are answered with 200, with and without a stream, as the client intends. */
import assert from "node:assert/strict";
import { MODEL, shareApp, type TestApp } from "../../fixtures/servers/server.ts";
import { readStrictly } from "../../fixtures/servers/sse.ts";
import { type Meaning, PICTURE, RECORDED, type RecordedBody } from "./recorded_bodies.ts";

const app = shareApp();

/** Common parts of all answer formats. */
interface Answer {
  text: string;
  thought: string;
  calls: { name: string; json: string }[];
  numTokens: number | undefined;
}

function emptyAnswer(): Answer {
  return { text: "", thought: "", calls: [], numTokens: undefined };
}

// deno-lint-ignore no-explicit-any -- `JSON.parse` returns any.
type Json = any;

/** Adds a whole chat or completion, or a chunk of one. */
function addChat(answer: Answer, { choices, usage }: Json): void {
  for (const { delta, message, text } of choices) {
    const part = delta ?? message ?? { content: text };
    answer.text += part.content ?? "";
    answer.thought += part.reasoning_content ?? "";
    for (const { index = 0, function: called } of part.tool_calls ?? []) {
      const call = answer.calls[index] ??= { name: "", json: "" };
      call.name += called.name ?? "";
      call.json += called.arguments;
    }
  }
  answer.numTokens = usage?.completion_tokens ?? answer.numTokens;
}

function addMessage(answer: Answer, { type, delta, content_block: block, usage }: Json): void {
  if (type === "content_block_start" && block.type === "tool_use") {
    answer.calls.push({ name: block.name, json: "" });
  }
  answer.text += delta?.text ?? "";
  if (delta?.partial_json) answer.calls.at(-1)!.json += delta.partial_json;
  answer.numTokens = usage?.output_tokens ?? answer.numTokens;
}

function addResponse(answer: Answer, { type, response }: Json): void {
  if (type !== "response.completed" && type !== "response.incomplete") return;
  for (const item of response.output) {
    if (item.type === "function_call") answer.calls.push({ name: item.name, json: item.arguments });
    for (const part of item.content ?? []) answer.text += part.text ?? "";
  }
  answer.numTokens = response.usage.output_tokens;
}

/** The answer, read like the client reads it. */
async function ask(app: TestApp, { client, path, body }: RecordedBody): Promise<Answer> {
  const at = path ?? "/v1/chat/completions";
  const response = await app.post(at, { model: MODEL, ...body });
  const text = await response.text();
  assert.equal(response.status, 200, `${client}: ${text}`);
  const events = body["stream"] === true ? readStrictly(text) : [JSON.parse(text)];
  const answer = emptyAnswer();
  for (const event of events) {
    assert.ok(!("error" in event) || event.error === null, `${client}: ${JSON.stringify(event)}`);
    if (at === "/v1/messages") addMessage(answer, event);
    else if (at === "/v1/responses") addResponse(answer, event);
    else addChat(answer, event);
  }
  return answer;
}

const CHECKS: Readonly<Record<Meaning, (answer: Answer) => void>> = {
  text: ({ text, calls }) => assert.ok(text.trim() !== "" && calls.length === 0),
  "four tokens": ({ text, thought, numTokens = 0 }) => {
    const shown = text + thought;
    assert.ok(shown.trim() !== "" && shown.length < 60 && numTokens <= 4);
  },
  call: ({ calls: [call] }) => {
    assert.equal(call?.name, "get_weather");
    assert.equal(typeof JSON.parse(call.json).city, "string");
  },
  city: ({ text }) => assert.match(JSON.parse(text).city, /^(Rome|Oslo)$/),
  thought: ({ text, thought }) => assert.ok(text.trim() !== "" && thought.trim() !== ""),
  "no thought": ({ text, thought }) => assert.ok(text.trim() !== "" && thought === ""),
};

Deno.test("recorded bodies: each is answered as its client intends", async () => {
  const clients = new Set(RECORDED.map(({ client }) => client.replace(/,.*/, "")));
  assert.ok(clients.size >= 20, `${clients.size} clients`);
  for (const recorded of RECORDED) {
    const answer = await ask(app, recorded);
    try {
      CHECKS[recorded.means](answer);
    } catch (error) {
      throw new Error(`${recorded.client}: ${JSON.stringify(answer)}`, { cause: error });
    }
  }
});

Deno.test("recorded bodies: each is also answered with `stream` inverted", async () => {
  for (const { client, path, body } of RECORDED) {
    const stream = body["stream"] !== true;
    const at = path ?? "/v1/chat/completions";
    const options = { stream_options: undefined, stream };
    const response = await app.post(at, { model: MODEL, ...body, ...options });
    const text = await response.text();
    assert.equal(response.status, 200, `${client}: ${text}`);
    if (stream) assert.ok(readStrictly(text).length > 1);
  }
});

Deno.test("recorded bodies: an image for a model without vision is refused, and its part is named", async () => {
  const content = [{ type: "text", text: "What is this?" }, PICTURE];
  const body = { model: MODEL, messages: [{ role: "user", content }] };
  const response = await app.post("/v1/chat/completions", body);
  const { error } = await response.json();
  assert.deepEqual([response.status, error.param], [400, "messages[0].content[1]"]);
});
