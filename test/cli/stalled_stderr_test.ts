import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));
/** Each request writes one log line; together they exceed a pipe's 64 KiB. */
const NUM_REQUESTS = 600;
const NUM_AHEAD = 50;

/** Sends requests without waiting for answers; the last one asks to close the connection. */
async function sendAhead(url: string): Promise<void> {
  const { hostname, port, host } = new URL(url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const head = `GET /health HTTP/1.1\r\nHost: ${host}\r\n`;
  await connection.write(
    new TextEncoder().encode(`${head}\r\n`.repeat(NUM_AHEAD) + `${head}Connection: close\r\n\r\n`),
  );
  const text = await new Response(connection.readable).text();
  assert.equal(text.match(/HTTP\/1\.1 200/g)?.length, NUM_AHEAD + 1);
}

Deno.test("a stalled reader of standard error delays neither answers nor SIGTERM", {
  ignore: Deno.build.os === "windows",
}, async () => {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", MAIN, "-p", "0", "--log-level", "debug"],
    env: { XDG_RUNTIME_DIR: Deno.makeTempDirSync() },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  try {
    let said = "";
    const stdout = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    while (!said.includes("ready in")) said += (await stdout.read()).value ?? "";
    const url = /listens at (http:\S+)/.exec(said)![1]!;
    for (let n = 0; n < NUM_REQUESTS; n++) {
      const response = await fetch(`${url}/nothing-${"x".repeat(80)}`, { method: "POST" });
      assert.equal(response.status, 404);
      await response.body?.cancel();
    }
    await sendAhead(url);
    const metrics = await (await fetch(`${url}/metrics`)).text();
    assert.match(metrics, /^hearth_log_lines_dropped_total \d+$/m);
    child.kill("SIGTERM");
    while (!(await stdout.read()).done);
    // Nothing has read the server's standard error so far.
    await child.stderr.cancel();
    assert.equal((await child.status).code, 0);
  } finally {
    try {
      child.kill("SIGKILL");
    } catch {
      // The process has ended.
    }
  }
});
