import assert from "node:assert/strict";
import { join } from "node:path";
import generationConfig from "../../models/hearth-demo-chat/generation_config.json" with {
  type: "json",
};
import { HearthProcess } from "../fixtures/hearth_process.ts";
import { ModelFolder } from "../fixtures/model_folder.ts";

const CPU = ["-p", "0", "--device", "cpu"];

/** A server with a run folder of its own. */
class Server implements AsyncDisposable {
  readonly process: HearthProcess;
  readonly #runFolder: string;

  private constructor(process: HearthProcess, runFolder: string) {
    this.process = process;
    this.#runFolder = runFolder;
  }

  static async start(args: readonly string[] = []): Promise<Server> {
    const runFolder = await Deno.makeTempDir({ prefix: "hearth-run-" });
    const env = { XDG_RUNTIME_DIR: runFolder };
    const server = new Server(new HearthProcess([...CPU, ...args], { env }), runFolder);
    await server.process.url();
    return server;
  }

  async ready(): Promise<string> {
    return await this.process.ready();
  }

  /** The names of the process-id files in the run folder. */
  pidFiles(): string[] {
    return [...Deno.readDirSync(join(this.#runFolder, "hearth"))].map(({ name }) => name);
  }

  readPidFile(): string {
    return Deno.readTextFileSync(join(this.#runFolder, "hearth", this.pidFiles()[0] ?? ""));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.process[Symbol.asyncDispose]();
    await Deno.remove(this.#runFolder, { recursive: true });
  }
}

/** Starts replies that go on to the end of the context, for many seconds, and resolves with its first event. */
async function startLongReplies(url: string): Promise<ReadableStreamDefaultReader<string>> {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "hearth-demo-chat",
      messages: [{ role: "user", content: "Tell me a story." }],
      // Never one of the tokens that would end it.
      logit_bias: Object.fromEntries(generationConfig.eos_token_id.map((id) => [id, -100])),
      n: 8,
      stream: true,
    }),
  });
  assert.equal(answer.status, 200);
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  await reader.read();
  return reader;
}

async function readToEnd(reader: ReadableStreamDefaultReader<string>): Promise<string> {
  let text = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
  }
}

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  Deno.test(`serve on ${signal} removes its process-id file and exits with 0`, async () => {
    await using server = await Server.start();
    const url = await server.ready();
    assert.deepEqual(server.pidFiles(), [`${new URL(url).port}.pid`]);
    assert.equal(server.readPidFile().split("\n")[0], String(server.process.pid));
    server.process.kill(signal);
    const { code, stderr } = await server.process.ending;
    assert.equal(code, 0);
    assert.match(stderr, new RegExp(`stopping.*${signal}`));
    assert.deepEqual(server.pidFiles(), []);
  });
}

Deno.test("serve on POST /shutdown answers, writes its line, removes its process-id file and exits with 0", async () => {
  await using server = await Server.start();
  const url = await server.ready();
  const answer = await fetch(`${url}/shutdown`, { method: "POST" });
  assert.equal(answer.status, 200);
  assert.equal(typeof (await answer.json()).message, "string");
  const { code, stderr } = await server.process.ending;
  assert.equal(code, 0);
  assert.match(stderr, /^\[SHUTDOWN\] Shutdown requested \(remote_allowed: false\)$/m);
  assert.deepEqual(server.pidFiles(), []);
});

Deno.test("serve stops while the model is still loading", async () => {
  await using folder = await ModelFolder.create();
  await folder.holdConfig();
  await using server = await Server.start(["-m", folder.path]);
  server.process.kill("SIGTERM");
  assert.equal((await server.process.ending).code, 0);
  assert.deepEqual(server.pidFiles(), []);
});

Deno.test("serve lets a request in flight finish before it stops", async () => {
  await using server = await Server.start();
  const url = await server.ready();
  const answer = fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "hearth-demo-chat",
      messages: [{ role: "user", content: "What is the capital of France?" }],
      max_tokens: 2,
      stream: true,
    }),
  });
  // Its head is here, so it is in flight.
  const body = (await answer).text();
  server.process.kill("SIGTERM");
  assert.match(await body, /data: \[DONE\]\n\n$/);
  assert.equal((await server.process.ending).code, 0);
});

Deno.test("serve takes no new connection while it stops, and ends what outlasts its grace with an error", async () => {
  await using server = await Server.start(["--dtype", "fp32"]);
  const url = await server.ready();
  const reply = await startLongReplies(url);
  server.process.kill("SIGTERM");
  await server.process.logged(/stopping/);
  const rest = readToEnd(reply);
  const { hostname, port } = new URL(url);
  await assert.rejects(async () => {
    while (true) (await Deno.connect({ hostname, port: Number(port) })).close();
  }, Deno.errors.ConnectionRefused);

  const events = (await rest).trim().split("\n\n");
  assert.match(events.at(-1) ?? "", /^data: \{"error":\{.*"code":"model_not_loaded"/);
  assert.ok(!events.includes("data: [DONE]"));
  assert.equal((await server.process.ending).code, 0);
  assert.deepEqual(server.pidFiles(), []);
});

Deno.test("serve ends at once at a second signal, without its process-id file", async () => {
  await using server = await Server.start(["--dtype", "fp32"]);
  const reply = await startLongReplies(await server.ready());
  server.process.kill("SIGTERM");
  await server.process.logged(/stopping/);
  server.process.kill("SIGINT");
  const { code } = await server.process.ending;
  assert.equal(code, 130);
  assert.deepEqual(server.pidFiles(), []);
  await reply.cancel().catch(() => {});
});
