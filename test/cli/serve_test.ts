import assert from "node:assert/strict";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { FakeHub } from "../fixtures/servers/fake_hub.ts";
import { HeldModel } from "../fixtures/servers/held_model.ts";
import { HearthProcess, runHearth } from "../fixtures/servers/hearth_process.ts";
import { ModelFolder } from "../fixtures/models/model_folder.ts";
import { chatBody } from "../fixtures/servers/server.ts";
import { ScratchCache } from "../hub/scratch_cache.ts";

const CPU = ["-p", "0", "--device", "cpu"];
const RUN = ["run", "-A", "--no-check", fileURLToPath(new URL("../../main.ts", import.meta.url))];

async function ask(url: string, path: string): Promise<{ status: number; body: unknown }> {
  const answer = await fetch(`${url}${path}`);
  return { status: answer.status, body: await answer.json() };
}

Deno.test("serve listens at once, answers 503 while the model loads and 200 from then on", async () => {
  await using model = new HeldModel();
  await using hearth = new HearthProcess([...CPU, "-m", model.id], { env: model.env });
  const url = await hearth.url();
  const health = await ask(url, "/health");
  assert.equal(health.status, 503);
  assert.deepEqual(Object.keys(health.body as object), ["status", "error"]);
  assert.equal((await ask(url, "/models")).status, 503);

  model.release();
  await hearth.ready();
  assert.deepEqual(await ask(url, "/health"), { status: 200, body: { status: "ok" } });
  assert.equal((await ask(url, "/v1/models")).status, 200);
});

Deno.test("serve without -m serves the built-in model, says so, and reports what it loaded", async () => {
  await using hearth = new HearthProcess([...CPU, "--dtype", "q4"]);
  const url = await hearth.ready();
  const lines = hearth.stdout.split("\n");
  assert.match(lines[1] ?? "", /built-in hearth-demo-chat.* -m qwen3-0\.6b$/);
  const rows = new Map(
    [...hearth.stdout.matchAll(/^ {2}(model|kind|dtype|adapter|context|address|ready in) +(.+)$/gm)]
      .map(([, name = "", value = ""]) => [name, value]),
  );
  assert.equal(rows.get("model"), "hearth-demo-chat");
  assert.equal(rows.get("kind"), "text");
  assert.equal(rows.get("dtype"), "q4");
  assert.match(rows.get("adapter") ?? "", /^cpu, ./);
  assert.equal(rows.get("context"), "2048 tokens");
  assert.equal(rows.get("address"), url);
  assert.match(rows.get("ready in") ?? "", /^\d+(\.\d+)? s$/);
  assert.match(
    hearth.stderr,
    /INFO {2}the graph is cut: a paged decoder .*graph=onnx\/model_q4\.onnx/,
  );
});

Deno.test("serve without XDG_RUNTIME_DIR prints no warning of the driver, and its process-id file is in the home folder", async () => {
  const home = await Deno.makeTempDir();
  try {
    const env = { XDG_RUNTIME_DIR: "", HOME: home, DENO_DIR: readDenoDir() };
    await using hearth = new HearthProcess(["-p", "0"], { env });
    const { port } = new URL(await hearth.ready());
    assert.ok(!hearth.stderr.includes("XDG_RUNTIME_DIR"), hearth.stderr);
    await Deno.stat(join(home, ".hearth/run", `${port}.pid`));
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

/** Deno's cache, which is otherwise in the home folder. */
function readDenoDir(): string {
  const { stdout } = new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).outputSync();
  return JSON.parse(new TextDecoder().decode(stdout)).denoDir;
}

Deno.test("serve writes no progress line if standard error is not a terminal", async () => {
  await using hearth = new HearthProcess(CPU);
  await hearth.ready();
  const output = hearth.stdout + hearth.stderr;
  for (const mark of ["\r", "\x1b", "Loading"]) assert.ok(!output.includes(mark), output);
});

Deno.test("serve leaves the server up and unhealthy when the model fails to load, and says why", async () => {
  await using folder = await ModelFolder.create();
  await folder.writeConfig('{ "model_type": ');
  await using hearth = new HearthProcess([...CPU, "-m", folder.path]);
  const url = await hearth.url();
  await hearth.logged(/ERROR .*config\.json/);
  const health = await ask(url, "/health");
  assert.equal(health.status, 503);
  assert.match(JSON.stringify(health.body), /"unhealthy".*config\.json/);
  const { status, body } = await ask(url, "/models");
  assert.equal(status, 503);
  assert.match((body as { error: string }).error, /config\.json/);
  hearth.kill("SIGTERM");
  assert.equal((await hearth.ending).code, 0);
});

Deno.test("serve on a taken port ends with one clear line, which says who has it, and exit code 1", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  // Logs errors only: on a busy machine, the model may begin to load before the port is tried.
  const { code, stdout, stderr } = await runHearth(["-p", String(port), "--log-level", "error"]);
  assert.equal(code, 1);
  assert.equal(stdout, "");
  const owner = Deno.build.os === "linux"
    ? `deno has it \\(process ${Deno.pid}\\)`
    : "Another program has it";
  assert.match(
    stderr,
    new RegExp(`^hearth: Port ${port} of 127\\.0\\.0\\.1 is taken\\. ${owner}\\..* -p\\.\n$`),
  );
});

Deno.test("serve on the port of another Hearth server names that server's model and how to stop it", async () => {
  await using other = new HearthProcess([...CPU]);
  const { port } = new URL(await other.ready());
  const { code, stderr } = await runHearth(["-p", port], { env: other.runEnvironment });
  assert.equal(code, 1);
  assert.match(
    stderr,
    new RegExp(
      `The Hearth server of hearth-demo-chat has it \\(process ${other.pid}\\)\\. .* stop ${port}\\),`,
    ),
  );
});

Deno.test("serve -a with an address that this machine does not have ends with one clear line and exit code 1", async () => {
  const { code, stderr } = await runHearth(["-a", "192.0.2.1", "-p", "0", "--log-level", "error"]);
  assert.equal(code, 1);
  assert.match(stderr, /^hearth: Cannot listen at 192\.0\.2\.1, port 0: .* -a: .*\n$/);
});

Deno.test("serve with --media-dir or --vad of a folder that does not exist ends with one clear line and exit code 1", async () => {
  const { code, stderr } = await runHearth([...CPU, "--media-dir", "/nowhere/at/all"]);
  assert.equal(code, 1);
  assert.equal(
    stderr,
    "hearth: --media-dir wants a folder, but there is none at /nowhere/at/all.\n",
  );
  const vad = await runHearth(["--vad", "/nowhere/at/all"]);
  assert.deepEqual(
    { code: vad.code, stderr: vad.stderr },
    { code: 1, stderr: "hearth: --vad wants a folder, but there is none at /nowhere/at/all.\n" },
  );
});

Deno.test("serve of an empty folder, or offline of a model that is not in the cache, ends with one clear line and exit code 1", async () => {
  const folder = await Deno.makeTempDir();
  const env = { HF_HUB_CACHE: folder };
  const empty = await runHearth([...CPU, "-m", folder]);
  assert.equal(empty.code, 1);
  assert.equal(empty.stdout, "");
  assert.match(empty.stderr, /^hearth: \S+ has no config\.json and no ONNX graph\. .*\n$/);
  const offline = await runHearth([...CPU, "--offline", "-m", "qwen3-0.6b"], { env });
  assert.equal(offline.code, 1);
  assert.equal(offline.stdout, "");
  assert.match(offline.stderr, /^hearth: There is no model "qwen3-0\.6b" on this machine\./);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("serve of a model that the hub refuses ends with one clear line and exit code 1", async () => {
  await using hub = new FakeHub();
  await using cache = new ScratchCache();
  hub.addModel("someone/secret", { "config.json": "{}" }, { isGated: true });
  const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache.folder, HF_HOME: cache.folder };
  for (const id of ["nobody/nothing", "someone/secret"]) {
    const { code, stderr } = await runHearth([...CPU, "-m", id], { env });
    assert.equal(code, 1, stderr);
    assert.match(stderr, new RegExp(`^hearth: .*${id}.*\n$`));
  }
});

Deno.test("serve stays up and says why if the hub is unavailable", async () => {
  await using cache = new ScratchCache();
  await using hearth = new HearthProcess([...CPU, "-m", "nobody/nothing"], {
    // Nothing listens on this port.
    env: { HF_ENDPOINT: "http://127.0.0.1:9", HF_HUB_CACHE: cache.folder, HF_HOME: cache.folder },
  });
  await hearth.logged(/ERROR the model could not be loaded/);
  const { status, body } = await ask(await hearth.url(), "/health");
  assert.equal(status, 503);
  assert.match((body as { error: string }).error, /cannot be reached/);
  await hearth.logged(
    /\nhearth: http:\/\/127\.0\.0\.1:9 cannot be reached .* Check the network, .* The server stays up and answers with 503\. Stop it with Ctrl-C, .*\n/,
  );
});

Deno.test("serve, run and pull refuse a hub model without ONNX graphs, and name one that has them", async () => {
  await using hub = new FakeHub();
  await using cache = new ScratchCache();
  hub.addModel("Qwen/Qwen3-0.6B", { "config.json": "{}", "model.safetensors": "weights" });
  const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache.folder, HF_HOME: cache.folder };
  const name = `${hub.url}/Qwen/Qwen3-0.6B`;
  for (const words of [[...CPU, "-m", name], ["run", name, "-i", "x"], ["pull", name]]) {
    const { code, stderr } = await runHearth(words, { env });
    assert.equal(code, 1, stderr);
    assert.match(
      stderr,
      /^hearth: Qwen\/Qwen3-0\.6B has no ONNX graphs, .* is onnx-community\/Qwen3-0\.6B-ONNX\. .*\n$/,
    );
  }
});

Deno.test("serve reads settings from the environment, and the command line has precedence", async () => {
  await using folder = await ModelFolder.create();
  await folder.writeConfig(await Deno.readTextFile("models/hearth-demo-chat/config.json"));
  await using hearth = new HearthProcess(["--log-level", "info"], {
    env: {
      HEARTH_MODEL: folder.path,
      HEARTH_PORT: "0",
      HEARTH_DEVICE: "cpu",
      HEARTH_DTYPE: "fp32",
      HEARTH_API_KEY: "secret",
      HEARTH_LOG_FORMAT: "json",
      HEARTH_LOG_LEVEL: "error",
    },
  });
  await hearth.logged(/"message":"ready"|"level":"error"/);
  assert.equal(hearth.stdout, "");
  const lines = hearth.stderr.trim().split("\n").map((line) => JSON.parse(line));
  // The worker logs too, and its lines may come first.
  assert.ok(lines.some(({ message }) => message === "listening"));
  const ready = lines.find(({ message }) => message === "ready");
  assert.equal(ready.model, basename(folder.path));
  assert.equal(ready.dtype, "fp32");
  assert.equal(ready.backend, "cpu");
  assert.equal(ready.contextLength, 2048);
  assert.equal(typeof ready.secondsToReady, "number");
  assert.equal((await ask(ready.url, "/models")).status, 401);
  assert.equal((await ask(ready.url, "/health")).status, 200);
});

Deno.test("serve ignores a HEARTH_PORT that is a Kubernetes service's address, and says so", async () => {
  const env = { HEARTH_PORT: "tcp://10.96.0.7:80", HEARTH_LOG_FORMAT: "json" };
  await using hearth = new HearthProcess(["--device", "cpu", "-p", "0"], { env });
  const [line] = await hearth.logged(/.*"variable":.*/);
  const { level, variable, value } = JSON.parse(line);
  assert.deepEqual({ level, variable, value }, {
    level: "warn",
    variable: "HEARTH_PORT",
    value: env.HEARTH_PORT,
  });
});

Deno.test("serve warns when other machines can call it without a key", async () => {
  await using hearth = new HearthProcess(["-a", "0.0.0.0", ...CPU]);
  await hearth.logged(/WARN .*no --api-key is set/);
});

Deno.test("serve continues after the reader of its standard output has closed it", async () => {
  await using model = new HeldModel();
  await using hearth = new HearthProcess([...CPU, "-m", model.id], { env: model.env });
  const url = await hearth.url();
  await hearth.closeStdout();
  model.release();
  while ((await ask(url, "/health")).status === 503) assert.doesNotMatch(hearth.stderr, /ERROR/);
  assert.deepEqual(await ask(url, "/health"), { status: 200, body: { status: "ok" } });
});

Deno.test({
  name: "serve continues when the disk for its output and its log is full",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "hearth-run-" });
    const command = new Deno.Command("sh", {
      args: ["-c", 'exec "$@" >/dev/full 2>/dev/full', "sh", Deno.execPath(), ...RUN, ...CPU],
      env: { XDG_RUNTIME_DIR: folder },
    });
    await using server = command.spawn();
    const port = await findPort(join(folder, "hearth"));
    const url = `http://127.0.0.1:${port}`;
    while ((await ask(url, "/health")).status === 503);
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(chatBody()),
    });
    assert.equal(
      (await answer.json()).choices[0].message.content,
      "The capital of France is Paris.",
    );
    server.kill("SIGTERM");
    assert.equal((await server.status).code, 0);
    await Deno.remove(folder, { recursive: true });
  },
});

/** The port of the server that writes its process-id file into `folder`. */
async function findPort(folder: string): Promise<string> {
  for (;;) {
    const names = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
    const port = names.map(({ name }) => /^(\d+)\.pid$/.exec(name)?.[1]).find(Boolean);
    if (port !== undefined) return port;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

Deno.test("serve answers to more names with --model-alias, and to any with --any-model", async () => {
  const readStatus = async (url: string, model: string) => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(chatBody({ model, max_tokens: 1 })),
    });
    await response.body!.cancel();
    return response.status;
  };
  await using named = new HearthProcess([...CPU, "--model-alias", "gpt-4o-mini,tts-1"]);
  const url = await named.ready();
  for (const model of ["gpt-4o-mini", "tts-1", "hearth-demo-chat"]) {
    assert.equal(await readStatus(url, model), 200, model);
  }
  assert.equal(await readStatus(url, "gpt-4o"), 404);
  await using any = new HearthProcess([...CPU, "--any-model"]);
  assert.equal(await readStatus(await any.ready(), "claude-3-5-haiku-latest"), 200);
});
