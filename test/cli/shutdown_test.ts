import assert from "node:assert/strict";
import generationConfig from "../../models/hearth-demo-chat/generation_config.json" with {
  type: "json",
};
import { HeldModel } from "../fixtures/servers/held_model.ts";
import { HearthProcess } from "../fixtures/servers/hearth_process.ts";

const CPU = ["-p", "0", "--device", "cpu"];

/** Starts eight answers that fill the context, which takes many seconds. Returns their reader after the first event. */
async function startLongReplies(url: string): Promise<ReadableStreamDefaultReader<string>> {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "hearth-demo-chat",
      messages: [{ role: "user", content: "Tell me a story." }],
      // Excludes the tokens that would end the answer.
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

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
  Deno.test(`serve on ${signal} removes its process-id file and exits with 0`, async () => {
    await using hearth = new HearthProcess(CPU);
    const url = await hearth.ready();
    const [[name, text] = [], ...others] = hearth.pidFiles();
    assert.equal(name, `${new URL(url).port}.pid`);
    assert.equal(text?.split("\n")[0], String(hearth.pid));
    assert.deepEqual(others, []);
    hearth.kill(signal);
    const { code, stderr } = await hearth.ending;
    assert.equal(code, 0);
    assert.match(stderr, new RegExp(`stopping.*${signal}`));
    assert.equal(hearth.pidFiles().size, 0);
  });
}

for (const signal of ["SIGTERM", "SIGHUP"] as const) {
  Deno.test(`serve on ${signal} within its first second leaves no process-id file`, async () => {
    // `undefined` waits until serve prints its address; the file exists by then. Most of the other waits end earlier.
    for (const waitMs of [undefined, 100, 300, 500, 700]) {
      await using hearth = new HearthProcess(CPU);
      if (waitMs === undefined) await hearth.url();
      else await new Promise((resolve) => setTimeout(resolve, waitMs));
      hearth.kill(signal);
      const { code, signal: endedBy, stderr } = await hearth.ending;
      // Before Hearth's own code runs, the signal ends the process by default.
      assert.ok(
        code === 0 || endedBy === signal,
        `${code} ${endedBy} after ${waitMs} ms: ${stderr}`,
      );
      if (waitMs === undefined) assert.equal(code, 0);
      assert.equal(hearth.pidFiles().size, 0);
    }
  });
}

Deno.test("serve under nohup outlives its terminal", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  await using hearth = new HearthProcess(CPU, { wrapper: ["nohup"] });
  await hearth.ready();
  hearth.kill("SIGHUP");
  assert.equal((await fetch(`${await hearth.url()}/health`)).status, 200);
  hearth.kill("SIGTERM");
  assert.equal((await hearth.ending).code, 0);
});

Deno.test("serve on POST /shutdown answers, logs the shutdown, removes its process-id file and exits with 0", async () => {
  await using hearth = new HearthProcess(CPU);
  const url = await hearth.ready();
  const answer = await fetch(`${url}/shutdown`, { method: "POST" });
  assert.equal(answer.status, 200);
  assert.equal(typeof (await answer.json()).message, "string");
  const { code, stderr } = await hearth.ending;
  assert.equal(code, 0);
  assert.match(stderr, /^\[SHUTDOWN\] Shutdown requested \(remote_allowed: false\)$/m);
  assert.equal(hearth.pidFiles().size, 0);
});

Deno.test("serve stops while the model is still loading", async () => {
  await using model = new HeldModel();
  await using hearth = new HearthProcess([...CPU, "-m", model.id], { env: model.env });
  await hearth.url();
  hearth.kill("SIGTERM");
  assert.equal((await hearth.ending).code, 0);
  assert.equal(hearth.pidFiles().size, 0);
});

Deno.test("serve lets a request in progress finish before it stops", async () => {
  await using hearth = new HearthProcess(CPU);
  const url = await hearth.ready();
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
  // When the headers have arrived, the request is in progress.
  const body = (await answer).text();
  hearth.kill("SIGTERM");
  assert.match(await body, /data: \[DONE\]\n\n$/);
  assert.equal((await hearth.ending).code, 0);
});

Deno.test("serve accepts no new connection while it stops, and ends requests with an error when the grace period is over", async () => {
  await using hearth = new HearthProcess([...CPU, "--dtype", "fp32"]);
  const url = await hearth.ready();
  const reply = await startLongReplies(url);
  hearth.kill("SIGTERM");
  await hearth.logged(/stopping/);
  const rest = readToEnd(reply);
  const { hostname, port } = new URL(url);
  // Connections that wait to be accepted when listening stops are reset.
  await assert.rejects(async () => {
    while (true) {
      const connection = await Deno.connect({ hostname, port: Number(port) }).catch((error) => {
        if (!(error instanceof Deno.errors.ConnectionReset)) throw error;
      });
      connection?.close();
    }
  }, Deno.errors.ConnectionRefused);

  const events = (await rest).trim().split("\n\n");
  assert.match(events.at(-1) ?? "", /^data: \{"error":\{.*"code":"shutting_down"/);
  assert.ok(!events.includes("data: [DONE]"));
  assert.equal((await hearth.ending).code, 0);
  assert.equal(hearth.pidFiles().size, 0);
});

Deno.test("serve ends at once at a second signal, and removes its process-id file", async () => {
  await using hearth = new HearthProcess([...CPU, "--dtype", "fp32", "--drain-seconds", "600"]);
  const reply = await startLongReplies(await hearth.ready());
  hearth.kill("SIGTERM");
  await hearth.logged(/stopping/);
  // The file is removed after the wait for requests in progress.
  assert.equal(hearth.pidFiles().size, 1);
  hearth.kill("SIGINT");
  const { code } = await hearth.ending;
  assert.equal(code, 130);
  assert.equal(hearth.pidFiles().size, 0);
  await reply.cancel().catch(() => {});
});
