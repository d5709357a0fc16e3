import assert from "node:assert/strict";
import { configureLog } from "../../src/base/log.ts";
import { CapturedStderr } from "../fixtures/servers/capture_stderr.ts";
import { chatBody, ENDLESS, shareApp, TestApp, TestServer } from "../fixtures/servers/server.ts";

const app = shareApp();

Deno.test("app: a wrong method is answered 405 with Allow", async () => {
  const app = new TestApp();
  for (
    const [method, path, allow] of [
      ["GET", "/chat/completions", "POST, OPTIONS"],
      ["POST", "/v1/models", "GET, HEAD, OPTIONS"],
      ["DELETE", "/models/hearth-demo-chat", "GET, HEAD, OPTIONS"],
      ["PUT", "/v1/shutdown", "POST, OPTIONS"],
      ["PATCH", "/health", "GET, HEAD, OPTIONS"],
    ] as const
  ) {
    const response = await app.request(path, { method });
    assert.equal(response.status, 405);
    assert.equal(response.headers.get("allow"), allow);
    const { error } = await response.json();
    assert.equal(error.code, "method_not_allowed");
  }
});

Deno.test("app: HEAD answers like GET without a body, OPTIONS with Allow", async () => {
  const app = new TestApp();
  const head = await app.request("/openapi.json", { method: "HEAD" });
  assert.equal(head.status, 200);
  assert.equal(await head.text(), "");
  const options = await app.request("/v1/chat/completions", { method: "OPTIONS" });
  assert.equal(options.status, 204);
  assert.equal(options.headers.get("allow"), "POST, OPTIONS");
});

Deno.test("app: every answer has a request id, which is the client's own if it is valid", async () => {
  const app = new TestApp();
  const getId = async (path: string, sent?: string) => {
    const headers = sent === undefined ? {} : { "x-request-id": sent };
    return (await app.request(path, { headers })).headers.get("x-request-id");
  };
  for (const path of ["/health", "/openapi.json", "/nope"]) {
    const { headers } = await app.request(path);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(await getId(path, "client-1:a/b"), "client-1:a/b");
    assert.match((await getId(path))!, /^[\da-f-]{36}$/);
    for (const invalid of ["a b", "x".repeat(129), "ü", ""]) {
      assert.match((await getId(path, invalid))!, /^[\da-f-]{36}$/);
    }
  }
});

Deno.test("GET /models lists the model, and /models/{name} finds it by id or alias, slashes included", async () => {
  const list = await (await app.request("/models")).json();
  assert.deepEqual(list, {
    object: "list",
    data: [{
      object: "model",
      id: "hearth-demo-chat",
      created: null,
      owned_by: "hearth",
      max_model_len: 2048,
      context_length: 2048,
      meta: { n_ctx: 2048, n_ctx_train: 2048 },
    }],
  });
  for (const name of ["hearth-demo-chat", "hearth/hearth-demo-chat", "hearth%2Fhearth-demo-chat"]) {
    const response = await app.request(`/models/${name}`);
    assert.deepEqual(await response.json(), list.data[0]);
  }
  const unknown = await app.request("/v1/models/gpt-4o");
  assert.equal(unknown.status, 404);
  assert.equal((await unknown.json()).error.code, "model_not_found");
});

Deno.test("endpoints of other kinds of models answer 404 for an unknown name, and 400 with the loaded model's endpoints otherwise", async () => {
  for (const path of ["/audio/speech", "/v1/images/remove_background"]) {
    const unknown = await app.post(path, chatBody({ model: "gpt-4o" }));
    assert.equal(unknown.status, 404);
    const response = await app.post(path, chatBody());
    assert.equal(response.status, 400);
    const { error } = await response.json();
    assert.equal(error.code, "unsupported_by_model");
    assert.match(error.message, /hearth-demo-chat \(text\).*it serves \/chat\/completions/);
  }
  for (const path of ["/embeddings", "/v1/rerank"]) {
    const response = await app.post(path, { input: "x", query: "x", documents: ["x"] });
    assert.equal(response.status, 400);
    assert.match((await response.json()).error, /hearth-demo-chat \(text\)/);
  }
});

Deno.test("/metrics counts requests by route and status, and includes the session's and the worker's metrics", async () => {
  await using app = await new TestApp({ maxQueue: 3 }).ready();
  await app.post("/v1/chat/completions", chatBody());
  await app.post("/chat/completions", "{");
  await app.request("/models/hearth-demo-chat");
  await app.request("/nope");
  const response = await app.request("/metrics");
  assert.match(response.headers.get("content-type")!, /^text\/plain; version=0\.0\.4/);
  const lines = (await response.text()).split("\n");
  for (
    const line of [
      'hearth_http_requests_total{route="/chat/completions",method="POST",status="200"} 1',
      'hearth_http_requests_total{route="/chat/completions",method="POST",status="400"} 1',
      'hearth_http_requests_total{route="/models/:id",method="GET",status="200"} 1',
      'hearth_http_requests_total{route="none",method="GET",status="404"} 1',
      'hearth_http_request_duration_seconds_count{route="/chat/completions",method="POST"} 2',
      'hearth_phase{phase="ready"} 1',
      'hearth_phase{phase="loading"} 0',
      "hearth_requests_in_flight 0",
      `hearth_queue_room ${app.session.capacity}`,
      "hearth_worker_losses_total 0",
      "hearth_sequences_running 0",
      "hearth_sequences_waiting 0",
      "hearth_completion_tokens_total 8",
      "hearth_prompt_tokens_total 20",
      "hearth_time_to_first_token_seconds_count 1",
      "hearth_inter_token_seconds_count 7",
      "hearth_queue_seconds_count 1",
    ]
  ) assert.ok(lines.includes(line), line);
});

Deno.test("/metrics answers while the model is not loaded", async () => {
  const text = await (await new TestApp().request("/metrics")).text();
  assert.match(text, /^hearth_phase\{phase="loading"\} 1$/m);
  assert.match(text, /^hearth_queue_room 0$/m);
});

Deno.test("app: an error in the server itself is answered 500, and its stack and id are logged", async () => {
  const app = new TestApp();
  app.session.requireRoom = () => {
    throw new TypeError("a mistake in /home/me/app.ts");
  };
  using stderr = logging();
  const headers = { "x-request-id": "req-3" };
  const response = await app.post("/v1/chat/completions", chatBody(), { headers });
  assert.equal(response.status, 500);
  const text = await response.text();
  assert.equal(JSON.parse(text).error.code, "inference_failed");
  assert.doesNotMatch(text, /mistake|app\.ts/);
  const [line] = stderr.lines.map((each) => JSON.parse(each)).filter(({ level }) =>
    level === "error"
  );
  assert.partialDeepStrictEqual(line, { message: "a request failed", requestId: "req-3" });
  assert.match(line.error, /^TypeError: a mistake.*\n +at /);
});

Deno.test("app: error messages shorten long paths", async () => {
  const app = new TestApp();
  const long = "x".repeat(10_000);
  for (const [method, path] of [["GET", `/${long}`], ["DELETE", `/models/${long}`]] as const) {
    const text = await (await app.request(path, { method })).text();
    assert.ok(text.length < 500, text.slice(0, 500));
  }
});

Deno.test("app: the log has a line for each request, with the reason for a refusal and without the request's content", async () => {
  const secret = "my mother's maiden name";
  const messages = [{ role: "user", content: secret }];
  const bodies = [
    chatBody({ messages, max_tokens: 1 }),
    chatBody({ messages, temperature: secret }),
    `{"${secret}"`,
  ];
  using stderr = logging();
  const headers = { "x-request-id": "req-1" };
  for (const body of bodies) await app.post("/v1/chat/completions", body, { headers });
  await Promise.resolve();
  const lines = stderr.lines.map((line) => JSON.parse(line));
  const line = { level: "info", message: "request", requestId: "req-1", method: "POST" };
  const path = "/v1/chat/completions";
  assert.partialDeepStrictEqual(lines, [
    { ...line, path, status: 200 },
    { ...line, path, status: 400, code: "invalid_value", param: "temperature" },
    { ...line, path, status: 400, code: "invalid_json" },
  ]);
  assert.equal(lines.length, 3);
  assert.ok(!stderr.lines.join().includes("mother"));
});

Deno.test("app: a stream whose client disconnects has status 499 in the log and the metrics", async () => {
  await using server = await TestServer.start();
  using stderr = logging();
  const response = await fetch(`${server.base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(chatBody({ stream: true, ...ENDLESS })),
  });
  assert.equal(response.status, 200);
  await response.body!.cancel();
  await server.untilIdle();
  const metrics = await (await fetch(`${server.base}/metrics`)).text();
  assert.match(metrics, /\{route="\/chat\/completions",method="POST",status="499"\} 1/);
  assert.equal(stderr.lines.length, 1);
  assert.equal(JSON.parse(stderr.lines[0]!).status, 499);
});

Deno.test("app: if a stream ends with an error, the log has a line with the request and the reason", async () => {
  await using app = await new TestApp().ready();
  using stderr = logging();
  const headers = { "x-request-id": "req-2" };
  const body = chatBody({ stream: true, ...ENDLESS });
  const response = await app.post("/v1/chat/completions", body, { headers });
  await app.session.stop();
  assert.match(await response.text(), /"message":"shutting down"/);
  const lines = stderr.lines.map((line) => JSON.parse(line));
  const end = lines.find(({ level }) => level === "warn");
  const told = { requestId: "req-2", code: "shutting_down", reason: "shutting down" };
  assert.partialDeepStrictEqual(end, { message: "a stream ended in an error", ...told });
});

Deno.test("the log names the field of a refused request, without names that the client chose", async () => {
  using stderr = logging();
  const schema = { type: "object", properties: { secret_name: { type: "strin" } } };
  const cases = [
    [
      { response_format: { type: "json_schema", json_schema: { schema } } },
      "response_format.json_",
    ],
    [{ guided_json: schema }, "guided_json…"],
    [{ logit_bias: { secret_name: 1 } }, "logit_bias…"],
    [
      { tools: [{ type: "function", function: { name: "f", strict: true, parameters: schema } }] },
      "tools[0]",
    ],
  ] as const;
  for (const [fields, param] of cases) {
    const response = await app.post("/v1/chat/completions", chatBody(fields));
    const { error } = await response.json();
    assert.equal(response.status, 400, JSON.stringify(error));
    assert.match(error.param, /secret_name/);
    const line = JSON.parse(stderr.lines.findLast((each) => each.includes('"param"'))!);
    assert.ok(line.param.startsWith(param), line.param);
  }
  assert.ok(stderr.lines.every((line) => !line.includes("secret_name")));
});

/** Turns the log on and captures it, until the result is disposed. */
function logging(): CapturedStderr {
  configureLog({ level: "info", format: "json" });
  const stderr = new CapturedStderr();
  const stop = stderr[Symbol.dispose].bind(stderr);
  stderr[Symbol.dispose] = () => {
    stop();
    configureLog({ level: "error", format: "text" });
  };
  return stderr;
}
