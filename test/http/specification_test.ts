/** Tests every row of the specification's case table and status table, and decisions about errors. */
import assert from "node:assert/strict";
import { parseTranscription } from "../../src/wire/transcription_request.ts";
import { CapturedStderr } from "../fixtures/servers/capture_stderr.ts";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";
import { ModelFolder } from "../fixtures/models/model_folder.ts";
import { LOCAL_CALLER, MODEL, shareApp, TestApp } from "../fixtures/servers/server.ts";

const app = shareApp();

const REMOTE_CALLER = { ...LOCAL_CALLER, callerAddress: "192.168.0.7" };

const loading = new TestApp();
const text = [{ role: "user", content: "Hello" }];

/** Registers a test of `path` and its `/v1` twin, on an app whose model is ready. */
function testReady(
  name: string,
  path: string,
  check: (app: TestApp, path: string) => Promise<void>,
): void {
  Deno.test(name, async () => {
    for (const each of [path, `/v1${path}`]) await check(app, each);
  });
}

async function assertFlat(response: Response, status: number): Promise<string> {
  assert.equal(response.status, status);
  assert.equal(response.headers.get("content-type"), "application/json");
  const body = await response.json();
  assert.deepEqual(Object.keys(body), ["error"]);
  assert.equal(typeof body.error, "string");
  return body.error;
}

async function assertNested(
  response: Response,
  expected: { status: number; type: string; code: string },
): Promise<string> {
  assert.equal(response.status, expected.status);
  assert.equal(response.headers.get("content-type"), "application/json");
  const { error, ...rest } = await response.json();
  assert.deepEqual(rest, {});
  assert.equal(error.type, expected.type);
  assert.equal(error.code, expected.code);
  assert.equal(typeof error.message, "string");
  return error.message;
}

/** Reads an answer without the parts that always differ: its time, its id, and the cached tokens of its prompt. */
async function readAnswer(response: Response): Promise<string> {
  const text = await response.text();
  return text.replaceAll(/"(?:id|created|cached_tokens)":\s*(?:"[^"]*"|\d+)/g, '""');
}

Deno.test("general: paths with and without /v1 return identical responses, in JSON or as events that end in [DONE]", async () => {
  const body = { model: MODEL, messages: text, temperature: 0, max_tokens: 5 };
  for (const stream of [undefined, false, true]) {
    const responses = await Promise.all(
      ["/chat/completions", "/v1/chat/completions"].map((path) =>
        app.post(path, { ...body, stream })
      ),
    );
    const types = responses.map(({ headers }) => headers.get("content-type"));
    const wanted = stream ? "text/event-stream; charset=utf-8" : "application/json";
    assert.deepEqual(types, [wanted, wanted]);
    const [bare, prefixed] = await Promise.all(responses.map(readAnswer));
    assert.equal(bare, prefixed);
    assert.equal(bare!.endsWith("\n\ndata: [DONE]\n\n"), stream === true);
  }
});

Deno.test("chat: temperature and top_p are 1 by default, unless the model has its own defaults", async () => {
  await using folder = await ModelFolder.create();
  await folder.writeConfig(JSON.stringify(ModelFolder.readConfig(MODEL)));
  await Deno.remove(`${folder.path}/generation_config.json`);
  const own = { temperature: 0.3, top_p: 0.9, top_k: 20 };
  const cases = [
    [{ folder: folder.path }, { temperature: 1, top_p: 1, top_k: 0 }, own],
    [{}, own, { temperature: 1, top_p: 1, top_k: 0 }],
  ] as const;
  for (const [options, defaults, others] of cases) {
    await using app = await new TestApp(options).ready();
    const ask = async (extra: object) => {
      const messages = [{ role: "user", content: "Tell me a story." }];
      const body = { model: MODEL, messages, seed: 3, n: 8, max_tokens: 20, ...extra };
      const { choices } = await (await app.post("/chat/completions", body)).json();
      return JSON.stringify(choices);
    };
    const byDefault = await ask({});
    assert.equal(byDefault, await ask(defaults));
    assert.notEqual(byDefault, await ask(others));
  }
});

Deno.test("authentication: without keys, Authorization is not checked", async () => {
  for (const authorization of ["Bearer any", "Bearer ", "Basic eDp5", "nonsense"]) {
    for (const [path, body] of [["/health"], ["/models"], ["/chat/completions", "{}"]] as const) {
      const headers = { authorization, "content-type": "application/json" };
      const method = body === undefined ? "GET" : "POST";
      const init = { method, headers, ...(body !== undefined && { body }) };
      const { status } = await app.request(path, init);
      assert.equal(status, body === undefined ? 200 : 400, `${path} ${authorization}`);
    }
  }
});

const NOT_LOADED = { status: 503, type: "service_unavailable", code: "model_not_loaded" };

function invalid(code: string, status = 400) {
  return { status, type: "invalid_request_error", code };
}

Deno.test("case table: health is 503 and unhealthy while the model is not loaded", async () => {
  for (const path of ["/health", "/v1/health"]) {
    const response = await loading.request(path);
    assert.equal(response.status, 503);
    assert.ok(response.headers.has("retry-after"));
    const { status, error, ...rest } = await response.json();
    assert.equal(status, "unhealthy");
    assert.match(error, /not initialized/);
    assert.deepEqual(rest, {});
  }
});

Deno.test("case table: the model list is 503 while the model is not loaded", async () => {
  for (const path of ["/models", "/v1/models"]) {
    assert.match(await assertFlat(await loading.request(path), 503), /not initialized/);
  }
});

Deno.test("case table: a transcription is 503 while the model is not loaded", async () => {
  for (const path of ["/audio/transcriptions", "/v1/audio/transcriptions"]) {
    const form = new FormData();
    form.set("file", new Blob(["x"]), "a.wav");
    const response = await loading.request(path, { method: "POST", body: form });
    assert.ok(response.headers.has("retry-after"));
    await assertNested(response, NOT_LOADED);
  }
});

testReady(
  "case table: a transcription without a file is 400",
  "/audio/transcriptions",
  async (app, path) => {
    const response = await app.request(path, { method: "POST", body: new FormData() });
    // The built-in chat model cannot transcribe, with or without a file.
    await assertNested(response, invalid("unsupported_by_model"));
  },
);

testReady(
  "case table: embeddings input of the wrong type is 400",
  "/embeddings",
  async (app, path) => {
    await assertFlat(await app.post(path, { input: 5 }), 400);
  },
);

testReady("case table: rerank with an empty query is 400", "/rerank", async (app, path) => {
  await assertFlat(await app.post(path, { query: "", documents: ["x"] }), 400);
});

Deno.test("case table: a remote shutdown that is not allowed is 403", async () => {
  let shutdowns = 0;
  const app = new TestApp({ requestShutdown: () => shutdowns++ });
  for (const path of ["/shutdown", "/v1/shutdown"]) {
    const forwarded = { "x-forwarded-for": "127.0.0.1", forwarded: "for=127.0.0.1" };
    const init = { method: "POST", headers: forwarded };
    await assertFlat(await app.request(path, init, REMOTE_CALLER), 403);
  }
  assert.equal(shutdowns, 0);
});

Deno.test("every shutdown request is logged, even if it is refused", async () => {
  const request = { method: "POST" };
  const foreign = { ...request, headers: { host: "example.org" } };
  const apiKeys = [{ label: "a", key: "secret" }];
  for (const allowRemoteShutdown of [false, true]) {
    using stderr = new CapturedStderr();
    const app = new TestApp({ settings: { allowRemoteShutdown, apiKeys } });
    await app.request("/shutdown", request, REMOTE_CALLER);
    await app.request("/v1/shutdown/", request);
    await app.request("/shutdown", foreign);
    await app.request("/shutdown");
    const line = `[SHUTDOWN] Shutdown requested (remote_allowed: ${allowRemoteShutdown})`;
    assert.deepEqual(stderr.lines, [line, line, line]);
  }
});

Deno.test("transcriptions accept every language of the specification, also in common spellings", () => {
  const specified =
    "zh en yue ar de fr es pt id it ko ru th vi ja tr hi ms nl sv da fi pl cs fil " +
    "fa el ro hu mk";
  for (const language of specified.split(" ")) {
    assert.equal(parseTranscription([["language", language]]).language, language);
  }
  for (const language of ["en", "EN", "en-US", "english", "eng"]) {
    assert.equal(parseTranscription([["language", language]]).language, "en");
  }
  for (const language of ["xx", "Klingon", "english speech"]) {
    assert.throws(() => parseTranscription([["language", language]]), { kind: "invalid_value" });
  }
});

Deno.test("transcriptions are greedy and in JSON by default, at temperatures from 0 to 1", () => {
  const { format, temperature } = parseTranscription([]);
  assert.deepEqual({ format, temperature }, { format: "json", temperature: 0 });
  for (const text of ["0", "0.0", "0.5", "1", "1.0"]) {
    assert.equal(parseTranscription([["temperature", text]]).temperature, Number(text));
  }
});

testReady("case table: an unknown model is 404", "/chat/completions", async (app, path) => {
  const response = await app.post(path, { model: "gpt-4o", messages: text });
  assert.match(await assertNested(response, invalid("model_not_found", 404)), /gpt-4o/);
});

testReady(
  "status table: an invalid parameter is 400",
  "/chat/completions",
  async (app, path) => {
    const response = await app.post(path, { model: MODEL, messages: text, temperature: 3 });
    const message = await assertNested(response, invalid("invalid_value"));
    assert.equal(message, "temperature: want a number from 0 to 2, saw 3.");
  },
);

Deno.test("status table: an unknown endpoint is 404", async () => {
  for (const path of ["/edits", "/health/x", "/v2/models", "/v1", "/v1/v1/health"]) {
    await assertNested(await loading.request(path), invalid("not_found", 404));
  }
});

Deno.test("status table: an internal error during inference is 500", async () => {
  await using app = await new TestApp(fragileSpawner("garbles=request")).ready();
  const response = await app.post("/chat/completions", { model: MODEL, messages: text });
  const message = await assertNested(response, {
    status: 500,
    type: "server_error",
    code: "inference_failed",
  });
  assert.doesNotMatch(message, /TypeError|[/\\]|\.ts/);
});

Deno.test("status table: every endpoint that needs the model is 503 while it is not loaded", async () => {
  for (
    const path of [
      "/chat/completions",
      "/completions",
      "/responses",
      "/tokenize",
      "/audio/speech",
      "/images/remove_background",
      "/embeddings",
      "/rerank",
    ]
  ) {
    for (const each of [path, `/v1${path}`]) {
      const response = await loading.post(each, "{}");
      assert.ok(response.headers.has("retry-after"));
      await assertNested(response, NOT_LOADED);
    }
  }
});
