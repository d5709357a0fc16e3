import assert from "node:assert/strict";

const LOG = new URL("../../../src/base/log.ts", import.meta.url).href;

/** Standard error of a program that imports the log. */
async function run(settings: { level: string; format: string }, program: string): Promise<string> {
  const code = `import { configureLog, log } from ${JSON.stringify(LOG)};
    configureLog(${JSON.stringify(settings)}); ${program}`;
  const { stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-lock", code],
    env: { NO_COLOR: "1" },
  }).output();
  return new TextDecoder().decode(stderr);
}

Deno.test("log writes one readable line with quoted fields as text", async () => {
  const line = await run(
    { level: "info", format: "text" },
    `log.info("took a request", { id: "r-1", path: "/a b\\nINFO forged", n: 3, none: undefined });`,
  );
  assert.match(
    line,
    /^\d{4}-\d\d-\d\dT[\d:.]+Z INFO {2}took a request id=r-1 path="\/a b\\nINFO forged" n=3\n$/,
  );
});

Deno.test("log writes one object per line as JSON, whose own keys no field can override", async () => {
  const line = await run(
    { level: "debug", format: "json" },
    `log.debug("asked", { level: "error", tokens: 5n, list: [1, 2] });`,
  );
  const { time, ...rest } = JSON.parse(line);
  assert.ok(!Number.isNaN(Date.parse(time)));
  assert.deepEqual(rest, { level: "debug", message: "asked", tokens: "5", list: [1, 2] });
});

Deno.test("log writes an error with its stack and its causes", async () => {
  const text = await run(
    { level: "info", format: "text" },
    `log.error("failed", { error: new Error("outer", { cause: new Error("inner") }) });`,
  );
  assert.match(
    text,
    /ERROR failed error=Error: outer\n {4}at .*\ncaused by Error: inner\n {4}at /s,
  );
});

Deno.test("log omits lines below its level", async () => {
  const text = await run(
    { level: "warn", format: "text" },
    `log.debug("a"); log.info("b"); log.warn("c"); log.error("d");`,
  );
  assert.deepEqual(text.match(/(WARN|ERROR|INFO|DEBUG) +\w/g), ["WARN  c", "ERROR d"]);
});

Deno.test("log writes Node's warnings as separate lines", async () => {
  const program = `import process from "node:process"; process.emitWarning("too many of them");`;
  const line = await run({ level: "warn", format: "json" }, program);
  assert.equal(JSON.parse(line).message, "a runtime warning");
  assert.match(JSON.parse(line).error, /too many of them/);
  assert.equal(await run({ level: "error", format: "json" }, program), "");
});
