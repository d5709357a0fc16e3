import assert from "node:assert/strict";
import {
  chatRequest,
  DEFAULT_SETTINGS,
  type Message,
  titleOf,
} from "../../../src/ui/conversation.ts";

const QUESTION: Message = {
  id: "1",
  role: "user",
  text: "What is this?",
  images: ["data:image/png;base64,AA"],
};

Deno.test("chatRequest() carries system prompt, images, sampling, schema and tools", () => {
  const request = chatRequest("m", [QUESTION], {
    system: "Be short.",
    sampling: { temperature: 0.5 },
    schema: '{"type":"object"}',
    tools: '[{"type":"function"}]',
    showsProbabilities: true,
    effort: "none",
  });
  assert.deepEqual(request["messages"], [
    { role: "system", content: "Be short." },
    {
      role: "user",
      content: [
        { type: "image_url", image_url: { url: "data:image/png;base64,AA" } },
        { type: "text", text: "What is this?" },
      ],
    },
  ]);
  assert.equal(request["temperature"], 0.5);
  assert.deepEqual(request["response_format"], {
    type: "json_schema",
    json_schema: { name: "answer", strict: true, schema: { type: "object" } },
  });
  assert.deepEqual(request["tools"], [{ type: "function" }]);
  assert.equal(request["top_logprobs"], 5);
  assert.equal(request["reasoning_effort"], "none");
});

Deno.test("chatRequest() hands tool calls and their results back", () => {
  const call = { id: "c1", name: "add", arguments: '{"a":1}' };
  const { messages } = chatRequest("m", [
    { id: "1", role: "user", text: "Add" },
    { id: "2", role: "assistant", text: "", toolCalls: [call] },
    { id: "3", role: "tool", text: "2", toolCallId: "c1" },
  ], DEFAULT_SETTINGS) as { messages: unknown[] };
  assert.deepEqual(messages.slice(1), [
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "add", arguments: '{"a":1}' } }],
    },
    { role: "tool", tool_call_id: "c1", content: "2" },
  ]);
});

Deno.test("chatRequest() says which of the settings is not JSON", () => {
  const settings = { ...DEFAULT_SETTINGS, schema: "{" };
  assert.throws(() => chatRequest("m", [QUESTION], settings), /JSON schema.*not JSON/);
});

Deno.test("titleOf() is the beginning of the first question", () => {
  assert.equal(titleOf([QUESTION]), "What is this?");
  assert.equal(titleOf([{ ...QUESTION, text: "" }]), "Image");
  assert.equal(titleOf([{ ...QUESTION, text: "x".repeat(100) }]).length, 60);
});
