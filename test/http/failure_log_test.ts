import assert from "node:assert/strict";

/** Runs a fixture script to its end. */
async function runScript(
  name: string,
  ...args: string[]
): Promise<{ code: number; stdout: string; stderr: string }> {
  const script = new URL(`../fixtures/servers/${name}`, import.meta.url).pathname;
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", script, ...args],
  });
  const { code, stdout, stderr } = await command.output();
  const [out, text] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, stdout: out!, stderr: text! };
}

Deno.test("a worker that dies logs one error, and the server another with the number of its requests", async () => {
  const { code, stdout, stderr } = await runScript("crashing_server.ts", "8");
  assert.equal(code, 0, stderr);
  const statuses = JSON.parse(stdout);
  assert.deepEqual(statuses, [200, 503, 200, 503, 200, 503, 200, 503]);
  const lines = stderr.split("\n").filter((line) => /^\S+ +(ERROR|WARN) /.test(line));
  assert.deepEqual(lines.map((line) => line.replace(/^\S+ +/, "").replace(/ \S+=.*/, "")), [
    "ERROR the worker died",
    "ERROR the worker is lost and will be replaced",
  ]);
  assert.match(lines.at(-1)!, / numRequests=8$/);
});

Deno.test("a request that fails in the model has its stack and its id in the log, and neither path nor stack in the answer", async () => {
  const { code, stdout, stderr } = await runScript("failing_server.ts", "req-7");
  assert.equal(code, 0, stderr);
  assert.match(stderr, /ERROR request failed requestId=req-7 error=TypeError: .*\n +at .*\.ts:\d+/);
  assert.equal(JSON.parse(stdout).error.code, "inference_failed");
  assert.doesNotMatch(stdout, /TypeError|\.ts|\bat /);
});
