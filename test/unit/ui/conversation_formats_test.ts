import assert from "node:assert/strict";
import {
  makeChatRequest,
  readExport,
  writeExport,
} from "../../../src/ui/chat/conversation_formats.ts";
import {
  type Conversation,
  DEFAULT_SETTINGS,
  type Message,
  type Turn,
} from "../../../src/ui/chat/conversation.ts";

const QUESTION: Message = {
  id: "1",
  role: "user",
  text: "What is this?",
  images: ["data:image/png;base64,AA"],
};

Deno.test("makeChatRequest() includes system prompt, images, sampling, schema and tools", () => {
  const request = makeChatRequest("m", {
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

Deno.test("makeChatRequest() sends tool calls and their results back", () => {
  const call = { id: "c1", name: "add", arguments: '{"a":1}' };
  const { messages } = makeChatRequest("m", {
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

Deno.test("makeChatRequest() names the setting that is not JSON", () => {
  const messages = [QUESTION];
  const schema = { ...DEFAULT_SETTINGS, schema: "{" };
  assert.throws(
    () => makeChatRequest("m", { messages, settings: schema }),
    /JSON schema.*not JSON/,
  );
  const noJson = { ...DEFAULT_SETTINGS, tools: "{" };
  assert.throws(
    () => makeChatRequest("m", { messages, settings: noJson }),
    /tools.* are not JSON:/,
  );
  const tools = { ...DEFAULT_SETTINGS, tools: "{}" };
  assert.throws(
    () => makeChatRequest("m", { messages, settings: tools }),
    /tools.*not a JSON list/,
  );
});

Deno.test("makeChatRequest() quotes text files between fences that they do not contain", () => {
  const text = "```js\nlet a;\n```";
  const message: Message = { id: "1", role: "user", text: "Why?", files: [{ name: "a.md", text }] };
  const { messages } = makeChatRequest("m", { messages: [message], settings: DEFAULT_SETTINGS });
  assert.deepEqual(messages, [{
    role: "user",
    content: `a.md:\n\`\`\`\`\n${text}\n\`\`\`\`\n\nWhy?`,
  }]);
});

Deno.test("makeChatRequest() sends PDFs as OpenAI's file parts", () => {
  const dataUrl = "data:application/pdf;base64,JVBERg==";
  const message: Message = {
    id: "1",
    role: "user",
    text: "Sum it up",
    files: [{ name: "a.pdf", dataUrl }],
  };
  const { messages } = makeChatRequest("m", { messages: [message], settings: DEFAULT_SETTINGS });
  assert.deepEqual(messages, [{
    role: "user",
    content: [
      { type: "file", file: { filename: "a.pdf", file_data: dataUrl } },
      { type: "text", text: "Sum it up" },
    ],
  }]);
});

Deno.test("makeChatRequest() asks to continue an answer", () => {
  const messages: Message[] = [QUESTION, { id: "2", role: "assistant", text: "It is" }];
  const request = makeChatRequest("m", {
    messages,
    settings: DEFAULT_SETTINGS,
    continuesLast: true,
  });
  assert.equal(request["continue_final_message"], true);
  assert.equal(request["add_generation_prompt"], false);
});

const CONVERSATION: Conversation = { id: "c", title: "A cow", updatedMs: 7, headId: "2" };
const TURNS: Turn[] = [
  { conversationId: "c", id: "1", parentId: null, createdMs: 1, role: "user", text: "Hi" },
  { conversationId: "c", id: "2", parentId: "1", createdMs: 2, role: "assistant", text: "Moo" },
  { conversationId: "c", id: "3", parentId: "1", createdMs: 3, role: "assistant", text: "Mu" },
];

Deno.test("readExport() reads the output of writeExport()", async () => {
  const blob = writeExport({ conversations: [CONVERSATION], turns: TURNS });
  assert.deepEqual(readExport(await blob.text()), { conversations: [CONVERSATION], turns: TURNS });
});

Deno.test("writeExport() leaves out deleted turns, and the turns that follow them", async () => {
  const turns = [
    TURNS[0]!,
    { ...TURNS[1]!, deletedMs: 9 },
    TURNS[2]!,
    { ...TURNS[1]!, id: "4", parentId: "2", text: "After the deleted one" },
  ];
  const blob = writeExport({ conversations: [{ ...CONVERSATION, headId: "4" }], turns });
  assert.deepEqual(readExport(await blob.text()), {
    conversations: [{ ...CONVERSATION, headId: "1" }],
    turns: [TURNS[0], TURNS[2]],
  });
});

Deno.test("readExport() turns the lists of version 1 into trees", () => {
  const messages = [
    { id: "1", role: "user", text: "Hi", images: ["data:image/png;base64,AA"] },
    { id: "1", role: "assistant", text: "Moo" },
  ];
  const { conversations: [head], turns } = readExport(JSON.stringify({
    format: "hearth-conversations",
    version: 1,
    conversations: [{ id: "c", title: "A cow", updatedMs: 7, messages }],
  }));
  assert.equal(head!.headId, turns[1]!.id);
  assert.notEqual(turns[0]!.id, turns[1]!.id);
  assert.deepEqual(turns.map(({ parentId }) => parentId), [null, "1"]);
});

/** The error for a file with a change. */
function getFailure(
  change: (file: {
    version: unknown;
    format: unknown;
    // deno-lint-ignore no-explicit-any -- it is damaged on purpose
    conversations: any;
  }) => void,
): string {
  const tree = structuredClone({ ...CONVERSATION, turns: TURNS });
  const file = { format: "hearth-conversations", version: 2, conversations: [tree] };
  change(file);
  try {
    readExport(JSON.stringify(file));
  } catch (error) {
    return (error as Error).message;
  }
  return "";
}

Deno.test("readExport() reports the error in a file with its position", () => {
  assert.throws(() => readExport("{"), /not a file of exported conversations: .*JSON/);
  assert.throws(() => readExport("[]"), /not a file of exported conversations/);
  const cases: [Parameters<typeof getFailure>[0], RegExp][] = [
    [(file) => file.format = "other", /"format" is not/],
    [(file) => file.version = "2", /has version "2"; this page reads versions 1 and 2/],
    [(file) => file.conversations = {}, /"conversations" is not a list/],
    [(file) => file.conversations[0] = 3, /Conversation 1 is 3, not an object/],
    [(file) => file.conversations[0].title = 3, /Conversation 1 has 3 as "title"; wanted a string/],
    [(file) => file.conversations[0].turns = null, /Conversation 1 has no list of "turns"/],
    [(file) => file.conversations[0].headId = "9", /ends at a turn that is missing/],
    [
      (file) => file.conversations[0].turns[1].role = "x",
      /Turn 2 of conversation "A cow" has the role "x"; wanted user, assistant, tool/,
    ],
    [(file) => file.conversations[0].turns[1].text = null, /Turn 2 .* has null as "text"/],
    [(file) => file.conversations[0].turns[1].parentId = "9", /Turn 2 .* follows a turn that is/],
    [(file) => file.conversations[0].turns[1].conversationId = "d", /belongs to another/],
    [(file) => file.conversations[0].turns[1].createdMs = "1", /has no number "createdMs"/],
    [(file) => file.conversations[0].turns[2].id = "2", /two turns with the same id/],
    [(file) => file.conversations[0].turns[0].parentId = "2", /form a cycle/],
    [
      (file) => file.conversations[0].turns[0].images = ["https://example.org/a.png"],
      /images that are not data: URLs/,
    ],
    [(file) => file.conversations[0].turns[0].files = [{}], /damaged "files"/],
    [(file) => file.conversations[0].turns[1].figures = {}, /damaged "figures"/],
    [(file) => file.conversations[0].turns[1].tokens = [{}], /damaged "tokens"/],
    [(file) => file.conversations[0].turns[1].toolCalls = [1], /damaged "toolCalls"/],
  ];
  for (const [change, wanted] of cases) assert.match(getFailure(change), wanted);
  assert.equal(getFailure(() => {}), "");
});

Deno.test("readExport() drops unknown settings", () => {
  const settings = {
    system: 3,
    sampling: { temperature: 0.5, top_p: "x" },
    effort: "low",
    more: 1,
  };
  const { conversations: [head] } = readExport(JSON.stringify({
    format: "hearth-conversations",
    version: 2,
    conversations: [{ ...CONVERSATION, settings, turns: TURNS }],
  }));
  assert.deepEqual(head!.settings, {
    system: "",
    sampling: { temperature: 0.5 },
    schema: "",
    tools: "",
    showsProbabilities: false,
    effort: "low",
  });
});
