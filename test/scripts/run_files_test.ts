import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readReport, type Report } from "../../scripts/test_report.ts";

const ENTRY = fileURLToPath(new URL("../run_files.ts", import.meta.url));

/** Runs files with these texts in one isolate. */
async function run(texts: Readonly<Record<string, string>>): Promise<Report & { folder: string }> {
  const folder = await Deno.makeTempDir({ prefix: "hearth-files-" });
  try {
    for (const [name, text] of Object.entries(texts)) {
      await Deno.writeTextFile(join(folder, name), text);
    }
    const files = Object.keys(texts)
      .filter((name) => name.endsWith("_test.ts")).map((name) => join(folder, name));
    const args = [ENTRY, "--", ...files];
    const { code, stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", "--no-check", ...args],
    }).output();
    return { ...readReport(new TextDecoder().decode(stdout), { args, code }), folder };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("files that share an isolate: tests are counted, and failures named with their files", async () => {
  const { folder, failures, seconds, ...counts } = await run({
    "a_test.ts": `
      Deno.test("passes", () => {});
      Deno.test({ name: "has a step", fn: async (t) => { await t.step("step", () => {}); } });
      Deno.test("waits", {}, () => new Promise((resolve) => setTimeout(resolve, 60)));`,
    "b_test.ts": `
      Deno.test.ignore("is ignored", () => {});
      Deno.test({ name: "is ignored too", ignore: true, fn() {} });
      Deno.test("fails", () => { throw new Error("as it should"); });`,
    "c_test.ts": `throw new Error("cannot be loaded");`,
    "d_test.ts": `Deno.test("passes after the others", () => {});`,
  });
  assert.deepEqual(counts, { exitCode: 1, passed: 5, failed: 2, skipped: 2 });
  assert.deepEqual(
    [...seconds.keys()],
    ["a", "b", "c", "d"].map((name) => join(folder, `${name}_test.ts`)),
  );
  assert.ok(seconds.get(join(folder, "a_test.ts"))! >= 0.03);
  assert.match(failures, /b_test\.ts \.\.\. fails\n.*as it should/);
  assert.match(failures, /c_test\.ts\n.*cannot be loaded/);
  assert.doesNotMatch(failures, /a_test|d_test/);
});

Deno.test("files that share an isolate: hooks of a file run around its tests, those of shared modules at the end", async () => {
  const { exitCode, passed } = await run({
    "shared.ts": `
      export const events = [];
      Deno.test.afterAll(() => {
        const wanted = "before a, test a, after a, before b, test b, after b";
        if (events.join(", ") !== wanted) throw new Error(events.join(", "));
      });`,
    ...Object.fromEntries(["a", "b"].map((name) => [
      `${name}_test.ts`,
      `import { events } from "./shared.ts";
       Deno.test.beforeAll(() => void events.push("before ${name}"));
       Deno.test.afterAll(() => void events.push("after ${name}"));
       Deno.test("test", () => void events.push("test ${name}"));`,
    ])),
  });
  assert.deepEqual([exitCode, passed], [0, 2]);
});

Deno.test("files that share an isolate: an uncaught error fails the process, and the tests that did not run are reported", async () => {
  const { exitCode, failures } = await run({
    "a_test.ts": `Deno.test("passes", () => {});`,
    "b_test.ts": `
      Deno.test("leaves", () => void setTimeout(() => { throw new Error("later"); }, 1));
      Deno.test("waits", () => new Promise((resolve) => setTimeout(resolve, 1000)));`,
    "c_test.ts": `Deno.test("is not reached", () => {});`,
  });
  assert.equal(exitCode, 1);
  assert.match(failures, /later/);
  assert.match(failures, /Not run to the end: \S+b_test\.ts, \S+c_test\.ts/);
});
