import assert from "node:assert/strict";
import { isAlive } from "../../src/cli/running.ts";
import { HearthProcess } from "../fixtures/servers/hearth_process.ts";
import { ENDLESS } from "../fixtures/servers/server.ts";
import { readStrictly } from "../fixtures/servers/sse.ts";

const CHAT = "hearth-demo-chat";
const EMBED = "hearth-demo-embed";
const RERANK = "hearth-demo-rerank";

function startRouter(models: readonly string[], flags: readonly string[] = []): HearthProcess {
  const words = models.flatMap((model) => ["-m", model]);
  return new HearthProcess(["router", ...words, "-p", "0", "--device", "cpu", ...flags]);
}

function post(url: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...init,
  });
}

function chat(url: string, extra: Record<string, unknown> = {}): Promise<Response> {
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  return post(`${url}/v1/chat/completions`, {
    ...{ model: CHAT, messages, temperature: 0, max_tokens: 8 },
    ...extra,
  });
}

function embed(url: string, extra: Record<string, unknown> = {}): Promise<Response> {
  return post(`${url}/v1/embeddings`, { model: EMBED, input: "A text.", ...extra });
}

function rerank(url: string): Promise<Response> {
  return post(`${url}/v1/rerank`, { model: RERANK, query: "cats", documents: ["a cat", "a car"] });
}

/** Each model's status. */
async function statuses(url: string): Promise<Record<string, string>> {
  const { data } = await (await fetch(`${url}/v1/models`)).json();
  return Object.fromEntries(
    data.map(({ id, status }: { id: string; status: { value: string } }) => [id, status.value]),
  );
}

/** The process ids of the models. */
function childPids(router: HearthProcess): Map<string, number> {
  const records = [...router.pidFiles().values()].map((text) => {
    const [pid, served] = text.split("\n");
    return [JSON.parse(served!).model as string, Number(pid)] as const;
  });
  return new Map(records.filter(([, pid]) => pid !== router.pid));
}

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!await isTrue()) await new Promise((resolve) => setTimeout(resolve, 50));
}

Deno.test("router: models are loaded on demand, and the least recently used ends", async () => {
  await using router = startRouter([CHAT, EMBED, RERANK], ["--max-loaded", "2"]);
  const url = await router.url();
  assert.deepEqual(await statuses(url), {
    [CHAT]: "unloaded",
    [EMBED]: "unloaded",
    [RERANK]: "unloaded",
  });
  for (const path of ["/openai/v1/chat/completions", "/api/chat"]) {
    const foreign = await post(url + path, { model: CHAT });
    assert.equal(foreign.status, 404);
    const { error } = await foreign.json();
    assert.match(error.message, /base URL (to )?http/);
    assert.ok(error.message.endsWith(`${url}/v1.`), error.message);
  }
  assert.equal((await statuses(url))[CHAT], "unloaded");
  const answer = await (await chat(url)).json();
  assert.equal(answer.model, CHAT);
  assert.equal(answer.usage.completion_tokens, 8);
  assert.equal((await embed(url)).status, 200);
  const rooted = await post(url, { inputs: ["a", "b"] });
  assert.deepEqual((await rooted.json()).map((vector: number[]) => vector.length), [128, 128]);
  // The chat model is found by its alias too.
  assert.equal((await chat(url, { model: `hearth/${CHAT}` })).status, 200);
  assert.equal((await statuses(url))[EMBED], "loaded");
  const ranked = await (await rerank(url)).json();
  assert.equal(ranked.results[0].index, 0);
  assert.deepEqual(await statuses(url), {
    [CHAT]: "loaded",
    [EMBED]: "unloaded",
    [RERANK]: "loaded",
  });
  const unknown = await chat(url, { model: "gpt-5" });
  assert.equal(unknown.status, 404);
  assert.match((await unknown.json()).error.message, /"gpt-5".*hearth-demo-chat \(text\)/);
  const unloaded = await post(`${url}/models/${CHAT}/unload`, {});
  assert.equal((await unloaded.json()).status.value, "unloaded");
  assert.deepEqual([...childPids(router).keys()], [RERANK]);
  const loaded = await post(`${url}/v1/models/${CHAT}/load`, {});
  assert.equal((await loaded.json()).status.value, "loaded");
  const metrics = await (await fetch(`${url}/metrics`)).text();
  assert.match(
    metrics,
    /^hearth_http_requests_total\{model="hearth-demo-rerank",.*status="200"\} 1$/m,
  );
  assert.match(metrics, /^hearth_router_model_starts\{model="hearth-demo-chat"\} 2$/m);
  assert.match(metrics, /^hearth_phase\{model="hearth-demo-chat",phase="ready"\} 1$/m);
});

Deno.test("router: a killed model process ends its streams with an error and is restarted", async () => {
  await using router = startRouter([CHAT, EMBED]);
  const url = await router.url();
  await (await embed(url)).body!.cancel();
  // Eight answers at a time take long enough that none is finished before the kill.
  const streaming = await chat(url, { ...ENDLESS, n: 8, stream: true });
  const reader = streaming.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value!;
  const pids = childPids(router);
  Deno.kill(pids.get(CHAT)!, "SIGKILL");
  for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
  const last = readStrictly(text).at(-1);
  assert.equal(last.error.code, "inference_failed");
  assert.match(last.error.message, /hearth-demo-chat ended/);
  // The embedding model still runs in the same process.
  assert.equal((await embed(url)).status, 200);
  assert.equal(childPids(router).get(EMBED), pids.get(EMBED));
  const again = await chat(url);
  assert.equal(again.status, 200, await again.text());
});

Deno.test("router: a model that cannot be loaded does not affect the others", async () => {
  const broken = Deno.makeTempDirSync();
  Deno.writeTextFileSync(`${broken}/config.json`, "{");
  await using router = startRouter([EMBED, broken]);
  const url = await router.url();
  const name = broken.split("/").at(-1)!;
  for (let n = 0; n < 2; n++) {
    const refused = await chat(url, { model: name });
    assert.equal(refused.status, 503);
    const { error } = await refused.json();
    assert.equal(error.code, "model_not_loaded");
    assert.doesNotMatch(error.message, /\/tmp/);
  }
  const { data } = await (await fetch(`${url}/v1/models`)).json();
  assert.deepEqual(data[1].status, { value: "unloaded", failed: true });
  assert.equal((await embed(url)).status, 200);
  Deno.removeSync(broken, { recursive: true });
});

Deno.test("router: a stream's headers arrive while its model is loading, and a failure to load is an event", async () => {
  const broken = Deno.makeTempDirSync();
  Deno.writeTextFileSync(`${broken}/config.json`, "{");
  await using router = startRouter([CHAT, EMBED, broken]);
  const url = await router.url();
  const refused = await post(`${url}/v1/responses`, { model: EMBED, input: "Hello", stream: true });
  assert.equal(refused.headers.get("content-type"), "text/event-stream; charset=utf-8");
  const [, name, data] = /^event: (.+)\ndata: (.+)\n\n$/.exec(await refused.text())!;
  const { message, ...error } = JSON.parse(data!);
  assert.equal(name, "error");
  assert.deepEqual(error, { type: "error", code: "unsupported_by_model", param: null });
  assert.match(message, /hearth-demo-embed/);
  const early = await chat(url, { stream: true });
  assert.equal(early.headers.get("content-type"), "text/event-stream; charset=utf-8");
  assert.equal((await statuses(url))[CHAT], "loading");
  const text = await early.text();
  assert.equal(readStrictly(text).at(-1).choices[0].finish_reason, "length");
  const [first, ...rest] = readStrictly(
    await (await chat(url, { stream: true, model: broken.split("/").at(-1)! })).text(),
  );
  assert.equal(first.error.code, "model_not_loaded");
  assert.equal(rest.length, 0);
  // The router now knows the error before it answers.
  const again = await chat(url, { stream: true, model: broken.split("/").at(-1)! });
  assert.equal(again.status, 503);
  await again.body!.cancel();
  Deno.removeSync(broken, { recursive: true });
});

Deno.test("router: keys and origins are checked by the router alone, and a disconnecting client ends its request", async () => {
  await using router = startRouter([CHAT], [
    "--api-key",
    "secret",
    "--cors-origin",
    "https://a.example",
  ]);
  const url = await router.url();
  const authorization = "Bearer secret";
  const headers = { authorization, "content-type": "application/json" };
  const status = async (init: RequestInit, path = "/v1/models") => {
    const response = await fetch(`${url}${path}`, init);
    await response.body?.cancel();
    return response.status;
  };
  assert.equal(await status({}), 401);
  assert.equal(await status({}, "/health"), 200);
  assert.equal(await status({ headers: { authorization, origin: "https://b.example" } }), 403);
  const body = JSON.stringify({
    messages: [{ role: "user", content: "Hello" }],
    model: CHAT,
    max_tokens: 2,
  });
  const allowed = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { ...headers, origin: "https://a.example", "x-request-id": "mine" },
    body,
  });
  assert.equal(allowed.status, 200, await allowed.text());
  assert.equal(allowed.headers.get("access-control-allow-origin"), "https://a.example");
  assert.equal(allowed.headers.get("x-request-id"), "mine");
  // The model's own port requires a secret key.
  const [port] = [...router.pidFiles().keys()].map((name) => Number(name.split(".")[0]))
    .filter((each) => each !== Number(new URL(url).port));
  const direct = await fetch(`http://127.0.0.1:${port}/v1/models`, { headers: { authorization } });
  assert.equal(direct.status, 401);
  await direct.body!.cancel();

  const controller = new AbortController();
  const streaming = await post(`${url}/v1/chat/completions`, {
    ...{ model: CHAT, messages: [{ role: "user", content: "Hello" }], stream: true },
    ...{ ...ENDLESS, n: 8 },
  }, { headers, signal: controller.signal });
  await streaming.body!.getReader().read();
  const running = async () => {
    const text = await (await fetch(`${url}/metrics`, { headers })).text();
    return ["hearth_sequences_running", "hearth_router_requests_in_flight"].map((name) =>
      Number(new RegExp(`^${name}\\{model="${CHAT}"\\} (\\d+)`, "m").exec(text)![1])
    );
  };
  assert.deepEqual(await running(), [8, 1]);
  controller.abort();
  await until(async () => (await running()).every((count) => count === 0));
});

Deno.test("router: a form that names its model after the file, or not at all, reaches the speech model", async () => {
  await using router = startRouter(["hearth-demo-asr", EMBED]);
  const url = await router.url();
  const sample = new Blob([
    await Deno.readFile(new URL("../../docs/samples/timer.mp3", import.meta.url)),
  ]);
  const texts = await Promise.all(["hearth-demo-asr", undefined].map(async (model) => {
    const form = new FormData();
    form.append("file", sample, "timer.mp3");
    if (model !== undefined) form.append("model", model);
    const response = await fetch(`${url}/v1/audio/transcriptions`, { method: "POST", body: form });
    return (await response.json()).text;
  }));
  assert.match(texts[0], /timer/i);
  assert.equal(texts[1], texts[0]);
});

Deno.test("router: 64 clients of three models, of which two may be loaded, are all answered", async () => {
  await using router = startRouter([CHAT, EMBED, RERANK], ["--max-loaded", "2"]);
  const url = await router.url();
  const ask = [chat, embed, rerank];
  const answers = await Promise.all(
    Array.from({ length: 64 }, async (_, n) => {
      const response = await ask[n % 3]!(url);
      return `${response.status} ${response.ok ? "" : await response.text()}`;
    }),
  );
  assert.deepEqual([...new Set(answers)], ["200 "]);
});

Deno.test("router: SIGTERM lets requests finish, and ends all processes", async () => {
  await using router = startRouter([CHAT, EMBED], ["--drain-seconds", "20"]);
  const url = await router.url();
  await (await embed(url)).body!.cancel();
  const streaming = await chat(url, { ...ENDLESS, max_tokens: 300, stream: true });
  await until(async () => (await statuses(url))[CHAT] === "loaded");
  const pids = [...childPids(router).values()];
  assert.equal(pids.length, 2);
  router.kill("SIGTERM");
  const events = (await streaming.text()).trim().split("\n\n");
  assert.equal(events.at(-1), "data: [DONE]");
  const { code } = await router.ending;
  assert.equal(code, 0);
  assert.deepEqual([...router.pidFiles().keys()], []);
  assert.deepEqual(pids.filter(isAlive), []);
});

Deno.test("router: no process outlives a router that is killed", async () => {
  await using router = startRouter([CHAT, EMBED]);
  const url = await router.url();
  await (await embed(url)).body!.cancel();
  const streaming = await chat(url, { ...ENDLESS, stream: true });
  await until(async () => (await statuses(url))[CHAT] === "loaded");
  const pids = [...childPids(router).values()];
  assert.equal(pids.length, 2);
  router.kill("SIGKILL");
  await streaming.text().catch(() => {});
  await until(() => !pids.some(isAlive));
  // Each model's process removed its own file.
  assert.equal(childPids(router).size, 0);
});

Deno.test("router: models are ended until another fits in the memory", async () => {
  const config = Deno.makeTempFileSync({ suffix: ".yaml" });
  Deno.writeTextFileSync(
    config,
    `models: [${CHAT}, { model: ${EMBED}, memory-mb: 60 }, { model: ${RERANK}, memory-mb: 50 }]`,
  );
  await using router = startRouter([], ["--config", config, "--max-memory-mb", "100"]);
  const url = await router.url();
  const loaded = async () =>
    Object.entries(await statuses(url)).flatMap(([id, status]) => status === "loaded" ? [id] : []);
  await (await embed(url)).body!.cancel();
  await (await rerank(url)).body!.cancel();
  assert.deepEqual(await loaded(), [RERANK]);
  // The chat model alone needs more memory than the limit.
  await (await chat(url)).body!.cancel();
  assert.deepEqual(await loaded(), [CHAT]);
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const figure = (id: string) =>
    Number(
      new RegExp(`^hearth_router_model_memory_bytes\\{model="${id}"\\} (\\S+)`, "m").exec(
        metrics,
      )![1],
    );
  assert.equal(figure(EMBED), 60 * 2 ** 20);
  assert.ok(figure(CHAT) > 2 ** 27, `${figure(CHAT)}`);
  await (await embed(url)).body!.cancel();
  assert.deepEqual(await loaded(), [EMBED]);
  Deno.removeSync(config);
});

Deno.test("router: unknown paths are answered 404, and wrong methods 405, as by a server with one model", async () => {
  // Two models that serve chats, so that a request without a name is ambiguous.
  await using router = startRouter([CHAT, "hearth-demo-asr"]);
  const url = await router.url();
  const ask = async (method: string, path: string) => {
    const response = await fetch(`${url}${path}`, {
      method,
      ...(method === "POST" && { headers: { "content-type": "application/json" }, body: "{}" }),
    });
    const text = await response.text();
    const { message, code } = text === "" ? {} : JSON.parse(text).error;
    return { status: response.status, allow: response.headers.get("allow"), message, code };
  };
  for (const [method, path] of [["GET", "/nothing"], ["POST", "/v1/chat/completion"]] as const) {
    const { status, code, message } = await ask(method, path);
    assert.deepEqual([status, code], [404, "not_found"]);
    assert.match(message, new RegExp(`^There is no endpoint ${method} ${path}; see /docs`));
  }
  const allow = "POST, OPTIONS";
  for (const method of ["GET", "DELETE"]) {
    const { message, ...refused } = await ask(method, "/v1/chat/completions");
    assert.deepEqual(refused, { status: 405, allow, code: "method_not_allowed" });
    assert.match(message, /it takes POST, OPTIONS/);
  }
  const options = await ask("OPTIONS", "/v1/chat/completions");
  assert.deepEqual([options.status, options.allow], [204, allow]);
  // An endpoint that exists, but that no model serves.
  const { status, code } = await ask("POST", "/v1/audio/speech");
  assert.deepEqual([status, code], [400, "unsupported_by_model"]);
  assert.deepEqual([...new Set(Object.values(await statuses(url)))], ["unloaded"]);
});

Deno.test("router: a body that is not JSON is refused for that reason, rather than for its missing model name", async () => {
  await using router = startRouter([CHAT, "hearth-demo-asr"]);
  const url = await router.url();
  const ask = async (body: string | Uint8Array<ArrayBuffer>, extra: HeadersInit = {}) => {
    const headers = { "content-type": "application/json", ...extra };
    const response = await post(`${url}/v1/chat/completions`, {}, { headers, body });
    return [response.status, (await response.json()).error.code];
  };
  assert.deepEqual(await ask('{"messages": '), [400, "invalid_json"]);
  assert.deepEqual(await ask(Uint8Array.of(255)), [400, "invalid_json"]);
  const gzip = { "content-encoding": "gzip" };
  assert.deepEqual(await ask(Uint8Array.of(31, 139), gzip), [415, "unsupported_media_type"]);
  assert.deepEqual(await ask('{"messages": []}'), [400, "invalid_value"]);
});

Deno.test("router: openapi.json describes the router's own endpoints and those of the models", async () => {
  await using router = startRouter([EMBED, "hearth-demo-asr"]);
  const url = await router.url();
  const { paths, components, info } = await (await fetch(`${url}/openapi.json`)).json();
  assert.match(info.description, /Several models/);
  assert.deepEqual(Object.keys(paths["/models/{id}/load"]), ["post", "parameters"]);
  assert.equal(paths["/models/{id}"].get.summary, "One model");
  assert.ok("post" in paths["/chat/completions"] && "get" in paths["/realtime"]);
  assert.deepEqual(components.schemas.RoutedModel.properties.status.properties.value.enum, [
    ...["unloaded", "loading", "loaded", "unloading"],
  ]);
  const page = await fetch(`${url}/docs`);
  assert.match(await page.text(), /swagger/i);
  const refused = await post(`${url}/v1/models`, {});
  assert.equal(refused.status, 405);
  assert.equal(refused.headers.get("allow"), "GET, HEAD, OPTIONS");
  await refused.body!.cancel();
  // None of these requests loaded a model.
  assert.deepEqual([...new Set(Object.values(await statuses(url)))], ["unloaded"]);
  const metrics = await (await fetch(`${url}/metrics`)).text();
  assert.match(metrics, /^hearth_router_requests_total\{model="none",method="GET",status="200"\}/m);
});
