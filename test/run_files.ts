/**
 * Runs test files one after the other in one isolate, so that what they import is loaded and compiled once:
 *
 *     deno test -A test/run_files.ts -- test/unit/a_test.ts test/unit/b_test.ts
 *
 * Each file is a test with its tests as steps. Hooks that a file registers run before and after its tests; those of
 * modules that several files import run once, after the last file.
 *
 * @module
 */
import { pathToFileURL } from "node:url";
import { configureLog } from "../src/base/log.ts";

type Hook = () => void | Promise<void>;

/** Tests and hooks that a file registers during its import. */
interface Registered {
  readonly url: string;
  readonly tests: Deno.TestStepDefinition[];
  readonly beforeAll: Hook[];
  readonly afterAll: Hook[];
}

const denoTest = Deno.test;
const afterFiles: Hook[] = [];
let current: Registered;

function register(...args: readonly unknown[]): void {
  const definition: Record<string, unknown> = {};
  for (const arg of args) {
    if (typeof arg === "string") definition["name"] = arg;
    else if (typeof arg === "function") Object.assign(definition, { fn: arg });
    else Object.assign(definition, arg);
  }
  current.tests.push(definition as unknown as Deno.TestStepDefinition);
}

/**
 * Whether the file whose tests are being registered is in the call stack: otherwise the caller is a module that it
 * imports.
 */
function isOfFile(): boolean {
  return new Error().stack!.includes(current.url);
}

const test = Object.assign(register, {
  ignore: (...args: readonly unknown[]) => register(...args, { ignore: true }),
  beforeAll: (hook: Hook) => void current.beforeAll.push(hook),
  afterAll: (hook: Hook) => void (isOfFile() ? current.afterAll : afterFiles).push(hook),
});
Object.assign(Deno, { test });

for (const file of Deno.args) denoTest(file, (t) => runFile(file, t));
denoTest.afterAll(() => runHooks(afterFiles));

async function runFile(file: string, t: Deno.TestContext): Promise<void> {
  const { href: url } = pathToFileURL(file);
  current = { url, tests: [], beforeAll: [], afterAll: [] };
  const { tests, beforeAll, afterAll } = current;
  // Intentional failures would fill the output.
  configureLog({ level: "error", format: "text" });
  await import(url);
  try {
    await runHooks(beforeAll);
    for (const test of tests) await t.step(test);
  } finally {
    await runHooks(afterAll);
  }
}

async function runHooks(hooks: readonly Hook[]): Promise<void> {
  for (const hook of hooks) await hook();
}
