import assert from "node:assert/strict";
import { ChatRequest } from "../../src/wire/chat_request.ts";
import { MODEL, TestApp } from "../fixtures/servers/server.ts";

interface Operation {
  readonly requestBody?: {
    content: Record<string, { examples?: Record<string, { value: unknown }> }>;
  };
  readonly responses: Record<string, unknown>;
}
interface Document {
  readonly openapi: string;
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: {
    schemas: Record<
      string,
      {
        properties: Record<string, unknown>;
        required?: string[];
        anyOf?: { required: string[] }[];
      }
    >;
  };
}

async function describe(app: TestApp): Promise<Document> {
  return await (await app.request("/openapi.json")).json();
}

Deno.test("openapi.json describes every endpoint of the specification, and only existing ones", async () => {
  const app = new TestApp();
  const { openapi, paths } = await describe(app);
  assert.equal(openapi, "3.1.0");
  const endpoints = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).filter((key) => key !== "parameters").map((method) => `${method} ${path}`)
  );
  assert.deepEqual(endpoints.sort(), [
    "delete /responses/{id}",
    "get /audio/models",
    "get /audio/voices",
    "get /health",
    "get /info",
    "get /metrics",
    "get /models",
    "get /models/{id}",
    "get /openapi.json",
    "get /realtime",
    "get /responses/{id}",
    "get /responses/{id}/input_items",
    "post /",
    "post /apply-template",
    "post /audio/speech",
    "post /audio/transcriptions",
    "post /audio/translations",
    "post /chat/completions",
    "post /completions",
    "post /detokenize",
    "post /embed",
    "post /embeddings",
    "post /images/remove_background",
    "post /messages",
    "post /messages/count_tokens",
    "post /rerank",
    "post /responses",
    "post /responses/input_tokens",
    "post /score",
    "post /shutdown",
    "post /tokenize",
    "post /v2/embed",
    "post /v2/rerank",
  ]);
  for (const endpoint of endpoints) {
    const [method, path] = endpoint.split(" ") as [string, string];
    if (path === "/") continue;
    for (const each of [path, `/v1${path}`]) {
      const { status } = await app.request(each, { method: method.toUpperCase() });
      // Paths of stored responses answer 404, because no response has the id "{id}".
      const isStored = endpoint.includes("/responses/{id}");
      assert.ok((isStored || status !== 404) && status !== 405, `${endpoint}: ${status}`);
    }
  }
});

Deno.test("openapi.json consists of the schemas that validate requests", async () => {
  const { paths, components } = await describe(new TestApp());
  const described = components.schemas["ChatRequest"]!.properties;
  assert.deepEqual(Object.keys(described).sort(), Object.keys(ChatRequest.shape).sort());
  assert.match(JSON.stringify(described["temperature"]), /"minimum":0,"maximum":2/);
  const { requestBody, responses } = paths["/chat/completions"]!["post"]!;
  const examples = Object.values(requestBody!.content["application/json"]!.examples!);
  for (const { value } of examples) ChatRequest.parse(value);
  const statuses = ["200", "400", "401", "403", "404", "408", "413", "415", "429", "500", "503"];
  assert.deepEqual(Object.keys(responses).sort(), statuses);
});

Deno.test("openapi.json only refers to schemas that it contains", async () => {
  const document = await describe(new TestApp());
  const text = JSON.stringify(document);
  const names = [...text.matchAll(/"\$ref":"([^"]*)"/g)].map(([, reference]) => reference!);
  assert.ok(names.length > 20);
  for (const name of names) {
    assert.ok(name.replace("#/components/schemas/", "") in document.components.schemas, name);
  }
  for (const leftover of ["9007199254740991", "$defs", "$schema"]) {
    assert.ok(!text.includes(leftover), leftover);
  }
});

Deno.test("docs: the page and everything it loads come from this server", async () => {
  const app = new TestApp();
  for (const docs of ["/docs", "/v1/docs"]) {
    const page = await app.request(docs);
    assert.match(page.headers.get("content-type")!, /^text\/html/);
    const html = await page.text();
    const links = [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, link]) => link!);
    assert.ok(links.length >= 4);
    for (const link of links.filter((each) => each !== "data:,")) {
      const { host, pathname } = new URL(link, `http://hearth.example${docs}`);
      assert.equal(host, "hearth.example");
      const response = await app.request(pathname);
      assert.equal(response.status, 200, pathname);
      assert.ok((await response.text()).length > 50);
    }
  }
});

Deno.test("docs: the content security policy lets the page load nothing from elsewhere", async () => {
  const policy = (await new TestApp().request("/docs")).headers.get("content-security-policy")!;
  const sources = policy.split("; ").flatMap((directive) => directive.split(" ").slice(1));
  assert.ok(policy.startsWith("default-src 'none'"));
  assert.deepEqual([...new Set(sources)].sort(), ["'none'", "'self'", "data:"]);
});

Deno.test("openapi.json lists required fields, and requests without them are refused", async () => {
  await using app = await new TestApp().ready();
  const { components: { schemas } } = await describe(app);
  const required = {
    ChatRequest: ["model", "messages"],
    CompletionsRequest: ["model", "prompt"],
    ResponsesRequest: ["model", "input"],
    MessagesRequest: ["model", "messages", "max_tokens"],
    EmbeddingRequest: ["input"],
    RerankRequest: ["query"],
    ScoreRequest: ["text_1", "text_2"],
    DetokenizeRequest: ["tokens"],
    MattingRequest: ["model", "messages"],
    SpeechRequest: ["model"],
    TranscriptionRequest: ["file"],
    ChatMessage: ["role"],
  };
  for (const [name, fields] of Object.entries(required)) {
    assert.deepEqual(schemas[name]!.required, fields, name);
  }
  assert.deepEqual(
    schemas["SpeechRequest"]!.anyOf,
    [{ required: ["input"] }, { required: ["messages"] }],
  );
  assert.deepEqual(
    schemas["RerankRequest"]!.anyOf,
    [{ required: ["documents"] }, { required: ["texts"] }],
  );
  const messages = [{ role: "user", content: "Hello" }];
  const bodies = {
    "/chat/completions": { model: MODEL, messages },
    "/completions": { model: MODEL, prompt: "Hello" },
    "/responses": { model: MODEL, input: "Hello" },
    "/messages": { model: MODEL, messages, max_tokens: 1 },
  };
  for (const [path, body] of Object.entries(bodies)) {
    for (const name of Object.keys(body)) {
      const { status } = await app.post(path, { ...body, [name]: undefined });
      assert.equal(status, 400, `${path} without ${name}`);
    }
  }
});
