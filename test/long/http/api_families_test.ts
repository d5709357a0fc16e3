import assert from "node:assert/strict";
import { MODEL, shareApp, TestApp, TestServer } from "../../fixtures/servers/server.ts";
import { Random } from "../../unit/engine/random.ts";

const app = shareApp();

const NUM_REQUESTS = 2_000;

/** A valid body for each endpoint of the chat model. */
const BODIES: Readonly<Record<string, Record<string, unknown>>> = {
  "/responses": {
    model: MODEL,
    input: [
      { role: "user", content: [{ type: "input_text", text: "Hello" }] },
      { type: "reasoning", summary: [], content: [{ text: "Hm." }] },
      { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: "1" },
    ],
    instructions: "Be short.",
    tools: [{ type: "function", name: "f", parameters: { type: "object", properties: {} } }],
    tool_choice: "auto",
    text: { format: { type: "text" } },
    reasoning: { effort: "low", summary: "auto" },
    stop: ["x"],
    seed: 1,
    max_output_tokens: 1,
    temperature: 1,
    top_p: 1,
    top_logprobs: 1,
    truncation: "auto",
    include: [],
    metadata: { a: "b" },
    store: false,
    stream: false,
  },
  "/responses/input_tokens": { model: MODEL, input: "Hello", instructions: "Be short." },
  "/messages": {
    model: MODEL,
    system: [{ type: "text", text: "Be short." }],
    messages: [
      {
        role: "user",
        content: [{ type: "text", text: "Hello" }, {
          type: "document",
          source: { type: "text", data: "x" },
          title: "y",
        }],
      },
      { role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "1" }] },
    ],
    tools: [{ name: "f", input_schema: { type: "object", properties: {} } }],
    tool_choice: { type: "auto" },
    thinking: { type: "disabled" },
    output_config: { effort: "low", format: { type: "json_schema", schema: { type: "object" } } },
    mcp_servers: [],
    max_tokens: 1,
    stop_sequences: ["x"],
    temperature: 1,
    top_p: 1,
    top_k: 1,
  },
  "/messages/count_tokens": {
    model: MODEL,
    messages: [{ role: "user", content: "Hello" }],
    system: "Be short.",
  },
  "/completions": {
    model: MODEL,
    prompt: ["Once", "upon"],
    max_tokens: 1,
    logprobs: 1,
    echo: false,
    n: 1,
    best_of: 1,
    prompt_logprobs: 1,
    stop: ["x"],
    seed: 1,
    logit_bias: { "1": 1 },
  },
  "/tokenize": { prompt: "Hello", add_special_tokens: true, return_token_strs: true },
  "/detokenize": { tokens: [1, 2] },
  "/apply-template": {
    messages: [{ role: "user", content: "Hello" }],
    add_generation_prompt: true,
    chat_template_kwargs: {},
  },
};

const STRANGE: readonly unknown[] = [
  ...[null, -1, 0.5, 1e300, 99_999_999, true, "", "🦔", "x".repeat(300)],
  ...[{}, [], [[]], [null], { type: "nonsense" }, { type: 5 }, Array(5).fill({})],
];

/** A copy of `value` in which one random part is replaced by a strange value, or removed. */
function spoil(value: unknown, random: Random): unknown {
  const isInner = typeof value === "object" && value !== null && Object.keys(value).length > 0;
  if (!isInner || random.chance(0.25)) return random.pick(STRANGE);
  const copy = structuredClone(value) as Record<string, unknown>;
  const name = random.pick(Object.keys(copy));
  if (random.chance(0.15) && !Array.isArray(copy)) delete copy[name];
  else copy[name] = spoil(copy[name], random);
  return copy;
}

Deno.test(`${NUM_REQUESTS} corrupted requests to the other families: never a 5xx, and errors in the family's format`, async () => {
  const random = new Random(15);
  const statuses = new Map<number, number>();
  const paths = Object.keys(BODIES);
  for (let index = 0; index < NUM_REQUESTS; index++) {
    const path = paths[index % paths.length]!;
    const body = spoil(BODIES[path], random);
    const response = await app.post(`${index % 2 ? "/v1" : ""}${path}`, body);
    const shown = `${path} ${JSON.stringify(body)?.slice(0, 300)}`;
    const answer = await response.json().catch(() => undefined);
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
    assert.ok(response.status < 500, `${response.status} ${shown} ${JSON.stringify(answer)}`);
    if (response.status === 200) continue;
    assert.equal(typeof answer.error.message, "string", shown);
    if (path.startsWith("/messages")) assert.equal(answer.type, "error", shown);
    else assert.equal(typeof answer.error.code, "string", shown);
  }
  assert.ok((statuses.get(400) ?? 0) > NUM_REQUESTS / 3, JSON.stringify([...statuses]));
  const good = await Promise.all(paths.map((path) => app.post(path, BODIES[path])));
  assert.deepEqual(good.map(({ status }) => status), paths.map(() => 200));
});

Deno.test("every documented endpoint is guarded, limited and counted", async () => {
  const open = await new TestApp().ready();
  const { paths } = await (await open.request("/openapi.json")).json();
  const endpoints = Object.entries(paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).filter((method) => method !== "parameters")
      .map((method) => ({ path: path.replace("{id}", "x"), method: method.toUpperCase() }))
  );
  assert.ok(endpoints.length > 20);
  await using keyed = new TestApp({ settings: { apiKeys: [{ label: "test", key: "secret" }] } });
  for (const { path, method } of endpoints) {
    const shown = `${method} ${path}`;
    if (path !== "/health") {
      assert.equal((await keyed.request(path, { method })).status, 401, shown);
    }
    const foreign = { method, headers: { host: "evil.example", origin: "https://evil.example" } };
    assert.equal((await open.request(path, foreign)).status, 403, shown);
    if (method !== "POST" || path === "/shutdown") continue;
    const isUpload = path.startsWith("/audio/trans");
    const typeless = await open.request(path, {
      method,
      body: "x",
      headers: { "content-type": "text/plain" },
    });
    // The root takes texts only if an embedding model is loaded.
    if (path === "/") {
      assert.equal(typeless.status, 405, shown);
      continue;
    }
    assert.ok([400, 415].includes(typeless.status), `${shown} ${typeless.status}`);
    if (isUpload) continue;
    const broken = await open.post(path, "{");
    assert.equal(broken.status, 400, shown);
    const large = await open.post(path, `{"a":"${"x".repeat(6 * 2 ** 20)}"}`);
    assert.ok([400, 413].includes(large.status), `${shown} ${large.status}`);
  }
  const metrics = await (await open.request("/metrics")).text();
  for (const path of Object.keys(BODIES)) {
    assert.match(metrics, new RegExp(`hearth_http_requests_total\\{route="${path}"`), path);
  }
  await open[Symbol.asyncDispose]();
});

Deno.test("a client that disconnects ends its request in every family", async () => {
  await using server = await TestServer.start();
  const content = "Tell me a long story about a king.";
  const endless = { temperature: 2, stream: true, seed: 1, ignore_eos: true };
  const streams: [string, object][] = [
    ["/v1/responses", { model: MODEL, input: content, temperature: 2, stream: true }],
    ["/v1/messages", {
      model: MODEL,
      max_tokens: 1500,
      messages: [{ role: "user", content }],
      stream: true,
    }],
    ["/v1/completions", { model: MODEL, prompt: [content, content], max_tokens: 1500, ...endless }],
  ];
  for (const [path, body] of streams) {
    const abort = new AbortController();
    const response = await fetch(`${server.base}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: abort.signal,
    });
    assert.equal(response.status, 200, path);
    await response.body!.getReader().read();
    abort.abort();
    await server.untilIdle();
  }
});

Deno.test("an unsupported image is called an image, not by a type that the client did not send", async () => {
  const source = { type: "base64", media_type: "image/png", data: "AAAA" };
  const content = [{ type: "image", source }];
  const body = { model: MODEL, max_tokens: 1, messages: [{ role: "user", content }] };
  const { error } = await (await app.post("/messages", body)).json();
  assert.match(
    error.message,
    /^messages\[0\]\.content\[0\]: .* takes text and PDF files, saw an image\.$/,
  );
});

Deno.test("errors name the field that the client sent, not that of the chat request it became", async () => {
  const image = { type: "input_image", image_url: "data:image/png;base64,AAAA" };
  const block = {
    type: "image",
    source: { type: "base64", media_type: "image/png", data: "AAAA" },
  };
  const schema = { type: "object", properties: { a: { type: "string", pattern: "(" } } };
  const [input, messages] = ["Hello", [{ role: "user", content: "Hello" }]];
  const call = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
  const cases: [string, object, string][] = [
    ["/responses", { input: [{ role: "user", content: [image] }] }, "input[0].content[0]"],
    ["/responses", {
      instructions: "Be short.",
      input: [
        { role: "user", content: "Hello" },
        call,
        {
          type: "function_call_output",
          call_id: "c",
          output: [{ type: "input_text", text: "" }, image],
        },
      ],
    }, "input[2].output[1]"],
    [
      "/responses",
      { input, text: { format: { type: "json_schema", schema } } },
      "text.format.schema.properties.a.pattern",
    ],
    ["/responses", {
      input,
      tools: [{ type: "function", name: "f", strict: true, parameters: schema }],
    }, "tools[0].parameters.properties.a.pattern"],
    ["/responses", { input: [] }, "input"],
    ["/responses", { input, metadata: { a: 1 } }, "metadata.a"],
    [
      "/messages",
      { system: "Be short.", messages: [{ role: "user", content: [block] }] },
      "messages[0].content[0]",
    ],
    ["/messages", {
      messages: [...messages, {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "tool_result", tool_use_id: "c", content: [{ type: "text", text: "" }, block] },
        ],
      }],
    }, "messages[1].content[1].content[1]"],
    ["/messages", {
      messages,
      tools: [{ name: "f", input_schema: schema, strict: true }],
      tool_choice: { type: "any" },
    }, "tools[0].input_schema.properties.a.pattern"],
    [
      "/messages",
      { messages, output_config: { format: { type: "json_schema", schema } } },
      "output_config.format.schema.properties.a.pattern",
    ],
    [
      "/messages",
      { messages, mcp_servers: [{ type: "url", url: "https://a.example" }] },
      "mcp_servers",
    ],
    ["/messages", { messages, container: "c" }, "container"],
  ];
  for (const [path, body, field] of cases) {
    const limit = path === "/messages" ? { max_tokens: 1 } : { max_output_tokens: 1 };
    const response = await app.post(path, { model: MODEL, ...limit, ...body });
    const { error } = await response.json();
    assert.equal(response.status, 400, `${path} ${field}`);
    assert.ok(
      error.message.startsWith(`${field}: want`) || error.message.startsWith(`${field}: the`),
      error.message,
    );
    if (path === "/responses") assert.equal(error.param, field);
  }
});
