import assert from "node:assert/strict";
import { isAlive } from "../../src/cli/pid_file.ts";
import { HearthProcess } from "../fixtures/hearth_process.ts";
import { ENDLESS } from "../fixtures/server.ts";
import { readStrictly } from "../fixtures/sse.ts";

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

/** The process ids of the models' processes, by model. */
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

Deno.test("router: models are loaded when asked for, and the one used least recently ends", async () => {
  await using router = startRouter([CHAT, EMBED, RERANK], ["--max-loaded", "2"]);
  const url = await router.url();
  assert.deepEqual(await statuses(url), {
    [CHAT]: "unloaded",
    [EMBED]: "unloaded",
    [RERANK]: "unloaded",
  });
  const answer = await (await chat(url)).json();
  assert.equal(answer.model, CHAT);
  assert.equal(answer.usage.completion_tokens, 8);
  assert.equal((await embed(url)).status, 200);
  // By its other name.
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

Deno.test("router: a model's process that is killed ends its streams with an error and comes again", async () => {
  await using router = startRouter([CHAT, EMBED]);
  const url = await router.url();
  await (await embed(url)).body!.cancel();
  const streaming = await chat(url, { ...ENDLESS, stream: true });
  const reader = streaming.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value!;
  const pids = childPids(router);
  Deno.kill(pids.get(CHAT)!, "SIGKILL");
  for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
  const last = readStrictly(text).at(-1);
  assert.equal(last.error.code, "inference_failed");
  assert.match(last.error.message, /hearth-demo-chat ended/);
  // The other is still the same process.
  assert.equal((await embed(url)).status, 200);
  assert.equal(childPids(router).get(EMBED), pids.get(EMBED));
  const again = await chat(url);
  assert.equal(again.status, 200, await again.text());
});

Deno.test("router: a model that cannot be loaded leaves the others alone", async () => {
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

Deno.test("router: 64 clients over three models, of which two fit, are all answered", async () => {
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

Deno.test("router: SIGTERM lets a request finish, and ends all processes", async () => {
  await using router = startRouter([CHAT, EMBED], ["--drain-seconds", "20"]);
  const url = await router.url();
  await (await embed(url)).body!.cancel();
  const streaming = await chat(url, { ...ENDLESS, max_tokens: 300, stream: true });
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
  const pids = [...childPids(router).values()];
  assert.equal(pids.length, 2);
  router.kill("SIGKILL");
  await streaming.text().catch(() => {});
  await until(() => !pids.some(isAlive));
  // Each removed its own file; the router could not.
  assert.equal(childPids(router).size, 0);
});
