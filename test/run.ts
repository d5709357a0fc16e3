/**
 * `deno task test`: runs `deno test` with the arguments given, says what was skipped and why, and ends with one line
 * of counts. Its exit code is that of `deno test`.
 *
 * @module
 */
import { findAdapter } from "../src/gpu/device.ts";

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

const SUMMARY = /^(?:ok|FAILED) \| (\d+) passed.*? \| (\d+) failed(?:.*?(\d+) ignored)?/m;
// deno-lint-ignore no-control-regex -- that is what colours are made of
const COLOUR = /\x1b\[[0-9;]*m/g;

const repository = new URL("../", import.meta.url);
const runtimeFolder = await Deno.makeTempDir({ prefix: "hearth-test-" });
// Software Vulkan complains on standard error where this is unset; and servers under test leave their traces here.
Deno.env.set("XDG_RUNTIME_DIR", runtimeFolder);
const exitCode = await runTests(Deno.args).finally(() =>
  Deno.remove(runtimeFolder, { recursive: true })
);
Deno.exit(exitCode);

async function runTests(args: readonly string[]): Promise<number> {
  const missing = await findMissing();
  const child = new Deno.Command(Deno.execPath(), {
    // Types are the concern of `deno task ok`.
    args: ["test", "-A", "--no-check", ...args],
    cwd: repository,
    stdout: "piped",
  }).spawn();
  const output = await passThrough(child.stdout);
  const { code } = await child.status;

  const counts = readCounts(output);
  if (counts === undefined) {
    writeLine(`deno test ended with exit code ${code} and no summary.`);
    return code === 0 ? 1 : code;
  }
  const { passed, failed, skipped } = counts;
  if (skipped > 0) writeLine(explainSkipped(skipped, missing));
  writeLine(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  return code;
}

/** What some tests need and this machine has not, each with its remedy. */
async function findMissing(): Promise<string[]> {
  const missing: string[] = [];
  if (await findAdapter({ allowFallback: true }) === undefined) {
    missing.push(
      "there is no WebGPU adapter (for a software one: apt-get install -y mesa-vulkan-drivers libvulkan1)",
    );
  }
  try {
    await Deno.stat(new URL("../shared/models/", repository));
  } catch {
    missing.push("there is no ../shared beside the repository, with the models some tests read");
  }
  return missing;
}

/** Copies the stream to standard output and returns what it held, without colours. */
async function passThrough(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  const [shown, kept] = stream.tee();
  const [text] = await Promise.all([
    new Response(kept).text(),
    shown.pipeTo(Deno.stdout.writable, { preventClose: true }),
  ]);
  return text.replace(COLOUR, "");
}

function readCounts(output: string): Counts | undefined {
  // The last one: a test may print another's summary.
  const match = [...output.matchAll(new RegExp(SUMMARY, "gm"))].at(-1);
  if (match === undefined) return undefined;
  const [, passed, failed, skipped = "0"] = match;
  return { passed: Number(passed), failed: Number(failed), skipped: Number(skipped) };
}

function explainSkipped(skipped: number, missing: readonly string[]): string {
  const tests = skipped === 1 ? "1 test was" : `${skipped} tests were`;
  const reason = missing.length > 0
    ? missing.join("; ")
    : "the lines marked ignored above say which";
  return `${tests} skipped: ${reason}.`;
}

function writeLine(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}
