import assert from "node:assert/strict";
import { chatRequest } from "../../../src/ui/chat/chat_request.ts";
import { DEFAULT_SETTINGS, type Message } from "../../../src/ui/chat/conversation.ts";

const QUESTION: Message = {
  id: "1",
  role: "user",
  text: "What is this?",
  images: ["data:image/png;base64,AA"],
};

Deno.test("chatRequest() carries system prompt, images, sampling, schema and tools", () => {
  const request = chatRequest("m", {
    messages: [QUESTION],
    settings: {
      system: "Be short.",
      sampling: { temperature: 0.5 },
      schema: '{"type":"object"}',
      tools: '[{"type":"function"}]',
      showsProbabilities: true,
      effort: "none",
    },
    tools: [{ type: "function", function: { name: "more" } }],
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
  assert.deepEqual(request["tools"], [
    { type: "function" },
    { type: "function", function: { name: "more" } },
  ]);
  assert.equal(request["top_logprobs"], 5);
  assert.equal(request["reasoning_effort"], "none");
});

Deno.test("chatRequest() hands tool calls and their results back", () => {
  const call = { id: "c1", name: "add", arguments: '{"a":1}' };
  const { messages } = chatRequest("m", {
    messages: [
      { id: "1", role: "user", text: "Add" },
      { id: "2", role: "assistant", text: "", toolCalls: [call] },
      { id: "3", role: "tool", text: "2", toolCallId: "c1" },
    ],
    settings: DEFAULT_SETTINGS,
  }) as { messages: unknown[] };
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
  const messages = [QUESTION];
  const schema = { ...DEFAULT_SETTINGS, schema: "{" };
  assert.throws(() => chatRequest("m", { messages, settings: schema }), /JSON schema.*not JSON/);
  const tools = { ...DEFAULT_SETTINGS, tools: "{}" };
  assert.throws(() => chatRequest("m", { messages, settings: tools }), /tools.*not a JSON list/);
});

Deno.test("chatRequest() quotes text files between fences that they do not end", () => {
  const text = "```js\nlet a;\n```";
  const message: Message = { id: "1", role: "user", text: "Why?", files: [{ name: "a.md", text }] };
  const { messages } = chatRequest("m", { messages: [message], settings: DEFAULT_SETTINGS });
  assert.deepEqual(messages, [{
    role: "user",
    content: `a.md:\n\`\`\`\`\n${text}\n\`\`\`\`\n\nWhy?`,
  }]);
});

Deno.test("chatRequest() sends PDFs as OpenAI's file parts", () => {
  const dataUrl = "data:application/pdf;base64,JVBERg==";
  const message: Message = {
    id: "1",
    role: "user",
    text: "Sum it up",
    files: [{ name: "a.pdf", dataUrl }],
  };
  const { messages } = chatRequest("m", { messages: [message], settings: DEFAULT_SETTINGS });
  assert.deepEqual(messages, [{
    role: "user",
    content: [
      { type: "file", file: { filename: "a.pdf", file_data: dataUrl } },
      { type: "text", text: "Sum it up" },
    ],
  }]);
});

Deno.test("chatRequest() asks to go on with an answer", () => {
  const messages: Message[] = [QUESTION, { id: "2", role: "assistant", text: "It is" }];
  const request = chatRequest("m", { messages, settings: DEFAULT_SETTINGS, continuesLast: true });
  assert.equal(request["continue_final_message"], true);
  assert.equal(request["add_generation_prompt"], false);
});
