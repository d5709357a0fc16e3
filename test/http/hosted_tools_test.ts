/** Histories and tools of hosts that run tools themselves. Hearth answers without the tools that it does not have. */
import assert from "node:assert/strict";
import { MODEL, shareApp, type TestApp } from "../fixtures/servers/server.ts";

const app = shareApp();

type Fields = Readonly<Record<string, unknown>>;

async function readAnswer(app: TestApp, path: string, body: Fields) {
  const response = await app.post(path, { model: MODEL, temperature: 0, ...body });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify([body, answer]));
  return { answer, warning: response.headers.get("warning") };
}

const ASKED = { type: "message", role: "user", content: "What is the capital of France?" };

Deno.test("responses: items of tools that Hearth does not have are left out, with a warning", async () => {
  const others = [
    { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search" } },
    { type: "file_search_call", id: "fs_1", queries: ["x"], status: "completed" },
    { type: "image_generation_call", id: "ig_1", result: "AAAA", status: "completed" },
    { type: "code_interpreter_call", id: "ci_1", code: "1", container_id: "c", outputs: [] },
    { type: "computer_call", id: "cc_1", call_id: "c1", action: { type: "click" } },
    { type: "computer_call_output", call_id: "c1", output: { type: "computer_screenshot" } },
    { type: "mcp_list_tools", id: "m", server_label: "s", tools: [] },
    { type: "compaction", id: "cmp_1", encrypted_content: "x" },
    { type: '日本語\n"x"' },
  ];
  const plain = await readAnswer(app, "/v1/responses", { input: [ASKED] });
  const { answer, warning } = await readAnswer(app, "/v1/responses", { input: [...others, ASKED] });
  assert.deepEqual(answer.output[0].content, plain.answer.output[0].content);
  assert.equal(answer.usage.input_tokens, plain.answer.usage.input_tokens);
  assert.match(warning!, /^299 hearth "input items .*web_search_call file_search_call .*"$/);
  const stored = await app.request(`/v1/responses/${answer.id}/input_items?order=asc`);
  const { data } = await stored.json();
  assert.deepEqual(data.map(({ type }: { type: string }) => type).slice(0, 2), [
    "web_search_call",
    "file_search_call",
  ]);
  assert.deepEqual(data[0].action, { type: "search" });
});

Deno.test("responses: calls of any type that the client ran become function calls in the prompt", async () => {
  const pairs: readonly Fields[][] = [
    [
      { type: "custom_tool_call", call_id: "c1", name: "apply_patch", input: "*** Begin Patch" },
      { type: "custom_tool_call_output", call_id: "c1", output: "Done" },
    ],
    [
      { type: "local_shell_call", call_id: "c2", action: { type: "exec", command: ["ls"] } },
      { type: "local_shell_call_output", id: "c2", output: "a.txt" },
    ],
    [
      { type: "shell_call", call_id: "c3", action: { commands: ["ls"] } },
      { type: "shell_call_output", call_id: "c3", output: [{ stdout: "a.txt", stderr: "" }] },
    ],
    [
      { type: "apply_patch_call", call_id: "c4", operation: { type: "create_file", path: "a" } },
      { type: "apply_patch_call_output", call_id: "c4", status: "completed", output: "ok" },
    ],
  ];
  const counts = [];
  for (const pair of [[], ...pairs]) {
    const { answer, warning } = await readAnswer(app, "/v1/responses", { input: [...pair, ASKED] });
    assert.equal(warning, null);
    counts.push(answer.usage.input_tokens);
  }
  const [none, ...withCalls] = counts;
  assert.ok(withCalls.every((count) => count > none! + 5), String(counts));
  const call = { type: "function_call", call_id: "c1", name: "apply_patch" };
  const asFunction = [
    { ...call, arguments: '{"input":"*** Begin Patch"}' },
    { type: "function_call_output", call_id: "c1", output: "Done" },
    ASKED,
  ];
  const { answer } = await readAnswer(app, "/v1/responses", { input: asFunction });
  assert.equal(answer.usage.input_tokens, withCalls[0]);
});

Deno.test("responses and messages: a hosted tool's type may contain any character", async () => {
  for (const type of ["日本語", 'a\r\nset-cookie: x="y"', "\u0000", "x".repeat(5000)]) {
    const tools = [{ type, name: "x" }];
    const messages = [{ role: "user", content: "Hello" }];
    for (
      const [path, body] of [
        ["/v1/responses", { input: "Hello" }],
        ["/v1/messages", { messages, max_tokens: 4 }],
        ["/v1/chat/completions", { messages, max_tokens: 4 }],
      ] as const
    ) {
      const { warning } = await readAnswer(app, path, { ...body, tools });
      assert.match(
        warning!,
        /^299 hearth "tools are ignored: this server does not have [\x20-\x7e]+"$/,
      );
      assert.ok(warning!.length < 300);
    }
  }
});

Deno.test("messages: hosted tools are ignored, and so are their calls and results in the history", async () => {
  const asked = { role: "user", content: "What is the capital of France?" };
  const plain = await readAnswer(app, "/v1/messages", { messages: [asked], max_tokens: 20 });
  const hosted = [
    { type: "server_tool_use", id: "s1", name: "web_search", input: { query: "x" } },
    { type: "web_search_tool_result", tool_use_id: "s1", content: [] },
    { type: "mcp_tool_use", id: "m1", name: "x", server_name: "s", input: {} },
    { type: "mcp_tool_result", tool_use_id: "m1", content: [] },
    { type: "bash_code_execution_tool_result", tool_use_id: "b", content: {} },
    { type: "compaction", content: "x" },
  ];
  const history = [{ role: "assistant", content: hosted }, asked];
  const { answer, warning } = await readAnswer(app, "/v1/messages", {
    messages: [asked, ...history],
    max_tokens: 20,
    tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 5 }],
  });
  assert.equal(answer.content[0].text, plain.answer.content[0].text);
  assert.match(warning!, /web_search_20250305/);
  const refused = await app.post("/v1/messages", {
    model: MODEL,
    max_tokens: 4,
    messages: [{ role: "user", content: [{ type: "video" }] }],
  });
  assert.equal(refused.status, 400);
});

Deno.test("paths of other servers' own APIs answer 404 with a sentence that names the base URL", async () => {
  const paths = [
    ["/props", "llama.cpp"],
    ["/slots", "llama.cpp"],
    ["/version", "another server"],
    ["/api/version", "Ollama"],
    ["/api/tags", "Ollama"],
    ["/api/v0/models", "LM Studio"],
    ["/v1beta/models/x:generateContent", "Google"],
  ] as const;
  for (const [path, owner] of paths) {
    const response = await app.request(path);
    assert.equal(response.status, 404);
    const { error } = await response.json();
    assert.equal(error.code, "not_found");
    assert.ok(error.message.includes(owner), error.message);
    assert.ok(error.message.endsWith(" with the base URL http://127.0.0.1:10100/v1."));
    assert.equal(error.message.match(/\. /), null, "one sentence");
  }
  assert.equal((await app.post("/api/chat", { model: MODEL })).status, 404);
  const misplaced = [
    ["/openai/v1/chat/completions", "/v1/chat/completions", "/v1"],
    ["/v1/v1/embeddings", "/v1/embeddings", "/v1"],
    ["/v1/chat/completions/chat/completions", "/v1/chat/completions", "/v1"],
    ["/v1/chat/completions/models", "/v1/models", "/v1"],
    ["/proxy/v2/rerank", "/v1/v2/rerank", "/v1"],
    ["/anthropic/v1/messages", "/v1/messages", ""],
  ] as const;
  for (const [path, endpoint, base] of misplaced) {
    const response = await app.post(path, { model: MODEL });
    assert.equal(response.status, 404);
    assert.equal(
      (await response.json()).error.message,
      `There is no endpoint ${path}: this server has it at ${endpoint}, so set the client's base URL to ` +
        `http://127.0.0.1:10100${base}.`,
    );
  }
  assert.equal((await app.request("/v1/chat/completions")).status, 405);
});
