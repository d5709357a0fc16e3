import assert from "node:assert/strict";

Deno.test("a worker that dies is one error in its log and one in the server's, with the requests counted", async () => {
  const script = new URL("../fixtures/crashing_server.ts", import.meta.url).pathname;
  const args = ["run", "-A", "--no-check", script, "8"];
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  const text = new TextDecoder().decode(stderr);
  assert.equal(code, 0, text);
  const statuses = JSON.parse(new TextDecoder().decode(stdout));
  assert.deepEqual(statuses, [200, 503, 200, 503, 200, 503, 200, 503]);
  const lines = text.split("\n").filter((line) => /^\S+ +(ERROR|WARN) /.test(line));
  assert.deepEqual(lines.map((line) => line.replace(/^\S+ +/, "").replace(/ \S+=.*/, "")), [
    "ERROR the worker died",
    "ERROR the worker is lost and will be replaced",
  ]);
  assert.match(lines.at(-1)!, / numRequests=8$/);
});
