/**
 * `deno task test`: runs all tests, or those of the files and folders given, one more process at a time than there are
 * cores, as tests also wait; repeats the failures, lists what was skipped and why, and ends with one line of counts. Its
 * exit code is that of `deno test`. With options among the arguments, all of them go to one `deno test`.
 *
 * @module
 */
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { quietenVulkan } from "../src/cli/loading.ts";

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

const SUMMARY = /^(?:ok|FAILED) \| (\d+) passed.*? \| (\d+) failed(?:.*?(\d+) ignored)?/m;
/** The failure summary that a process prints after all its tests. */
const ERRORS = /^ ERRORS $[^]*?(?=^ FAILURES $)/m;
// deno-lint-ignore no-control-regex -- colour codes
const COLOUR = /\x1b\[[0-9;]*m/g;

/** Most files of a process: enough to keep startup cheap. Towards the end they are fewer, so that none runs alone for long. */
const MOST_FILES = 8;
/** Their files take a fraction of a second, and so come last. */
const UNITS = join("test", "unit");
/** Most processes: each may hold a model or two. */
const MOST_PROCESSES = 4;
/** So many of the slowest files are listed. */
const NUM_SLOWEST = 10;
const SECONDS_PER_UNIT: Readonly<Record<string, number>> = {
  µs: 1e-6,
  ms: 1e-3,
  s: 1,
  m: 60,
  h: 3600,
};

/** Resolves when all output so far is written. */
let writing = Promise.resolve();

const repository = fileURLToPath(new URL("../", import.meta.url));
quietenVulkan();
Deno.chdir(repository);
Deno.exit(await runTests(Deno.args));

async function runTests(args: readonly string[]): Promise<number> {
  const missing = await findMissing();
  const files = args.some((arg) => arg.startsWith("-"))
    ? []
    : orderFiles(await listTestFiles(args.length > 0 ? args : ["test"]));
  // One process shows its output immediately; `deno test` says what is wrong with the arguments.
  const isOnly = files.length <= MOST_FILES;
  const numLanes = isOnly ? 1 : Math.min(MOST_PROCESSES, navigator.hardwareConcurrency + 1);
  const counts: Counts[] = [];
  const failures: string[] = [];
  const fileSeconds = new Map<string, number>();
  let exitCode = 0;
  const run = async (args: readonly string[]) => {
    const { code, output } = await runProcess(args, { isOnly });
    const counted = readCounts(output);
    readFileSeconds(output, fileSeconds);
    if (counted === undefined) {
      failures.push(`deno test ${args.join(" ")} ended with exit code ${code} and no summary.\n`);
    } else counts.push(counted);
    // Other processes may have printed in between.
    if (!isOnly) failures.push(...output.match(ERRORS) ?? []);
    exitCode ||= counted === undefined ? code || 1 : code;
  };
  const lane = async () => {
    while (files.length > 0) {
      const share = Math.ceil(files.length / (2 * numLanes));
      await run(files.splice(0, Math.min(share, MOST_FILES)));
    }
  };
  if (isOnly) await run(args);
  else await Promise.all(Array.from({ length: numLanes }, lane));

  await write(failures.join(""));
  if (fileSeconds.size > NUM_SLOWEST) writeLine(listSlowest(fileSeconds));
  const total = (of: keyof Counts) => counts.reduce((sum, each) => sum + each[of], 0);
  if (total("skipped") > 0) writeLine(explainSkipped(total("skipped"), missing));
  writeLine(`${total("passed")} passed, ${total("failed")} failed, ${total("skipped")} skipped`);
  return exitCode;
}

/** The test files among paths and in those that are folders, relative to the repository. */
async function listTestFiles(paths: readonly string[]): Promise<string[]> {
  const files = new Set<string>();
  for (const path of paths) {
    const { isDirectory } = await Deno.stat(path).catch(() => ({ isDirectory: false }));
    const entries = isDirectory ? await Array.fromAsync(Deno.readDir(path)) : [];
    const inside = entries
      .filter(({ name, isDirectory }) => isDirectory || name.endsWith("_test.ts"))
      .map(({ name }) => join(path, name));
    for (const file of isDirectory ? await listTestFiles(inside) : [relative(".", path)]) {
      files.add(file);
    }
  }
  return [...files].sort();
}

/** Those that take long come first. Neighbours take about as long: they go to different processes. */
function orderFiles(files: readonly string[]): string[] {
  const [long = [], short = []] = [false, true]
    .map((isUnit) => files.filter((file) => file.startsWith(UNITS) === isUnit));
  return [long, short].flatMap((files) => {
    const numRuns = Math.ceil(files.length / MOST_FILES);
    return Array.from(
      { length: numRuns },
      (_, run) => files.filter((_, index) => index % numRuns === run),
    ).flat();
  });
}

/** Runs `deno test`. Its output is shown immediately, or all at once if other processes print too. */
async function runProcess(
  args: readonly string[],
  { isOnly }: { readonly isOnly: boolean },
): Promise<{ code: number; output: string }> {
  // Folder for the process-id files of servers under test.
  const runtimeFolder = await Deno.makeTempDir({ prefix: "hearth-test-" });
  try {
    const child = new Deno.Command(Deno.execPath(), {
      // `deno task ok` checks types.
      args: ["test", "-A", "--no-check", ...args],
      cwd: repository,
      env: { XDG_RUNTIME_DIR: runtimeFolder },
      stdout: "piped",
    }).spawn();
    const output = isOnly
      ? await passThrough(child.stdout)
      : await new Response(child.stdout).text();
    const { code } = await child.status;
    if (!isOnly) await write(output);
    return { code, output: output.replace(COLOUR, "") };
  } finally {
    await Deno.remove(runtimeFolder, { recursive: true });
  }
}

/** What tests need and this machine lacks, each with its remedy. */
async function findMissing(): Promise<string[]> {
  const missing: string[] = [];
  // It takes no OpenGL, nor do processes that are started after it. Imported after Vulkan was quietened.
  const { HAS_ADAPTER } = await import("../test/fixtures/engine/gpu.ts");
  if (!HAS_ADAPTER) {
    missing.push(
      "there is no WebGPU adapter (for a software one: apt-get install -y mesa-vulkan-drivers libvulkan1)",
    );
  }
  try {
    await Deno.stat(join(repository, "../shared/models"));
  } catch {
    missing.push("there is no ../shared beside the repository, with the models some tests read");
  }
  return missing;
}

/** Copies the stream to standard output and returns its text. */
async function passThrough(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  const [shown, kept] = stream.tee();
  const [text] = await Promise.all([
    new Response(kept).text(),
    shown.pipeTo(Deno.stdout.writable, { preventClose: true }),
  ]);
  return text;
}

function readCounts(output: string): Counts | undefined {
  // The last one: a test may print another's summary.
  const match = [...output.matchAll(new RegExp(SUMMARY, "gm"))].at(-1);
  if (match === undefined) return undefined;
  const [, passed, failed, skipped = "0"] = match;
  return { passed: Number(passed), failed: Number(failed), skipped: Number(skipped) };
}

/** Adds up the time of each file's tests, as `deno test` prints it behind each. */
function readFileSeconds(output: string, seconds: Map<string, number>): void {
  let file = "";
  for (const line of output.split("\n")) {
    file = /^running \d+ tests? from \.\/(\S+)/.exec(line)?.[1] ?? file;
    // Steps are indented: their time is in that of their test.
    const took = /^(?! ).*\b(?:ok|FAILED) \(([\d.hmsµ]+)\)$/.exec(line)?.[1];
    if (file !== "" && took !== undefined) {
      seconds.set(file, (seconds.get(file) ?? 0) + parseSeconds(took));
    }
  }
}

/** Parses `1m43s` or `250ms`. */
function parseSeconds(duration: string): number {
  const parts = duration.matchAll(/([\d.]+)(µs|ms|h|m|s)/g);
  return Array.from(parts, ([, amount, unit]) => Number(amount) * SECONDS_PER_UNIT[unit!]!)
    .reduce((sum, part) => sum + part, 0);
}

function listSlowest(seconds: ReadonlyMap<string, number>): string {
  const slowest = [...seconds].sort(([, a], [, b]) => b - a).slice(0, NUM_SLOWEST);
  const lines = slowest.map(([file, took]) => `${took.toFixed(0).padStart(6)} s  ${file}`);
  return `The slowest files:\n${lines.join("\n")}`;
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

/** Writes all of `text`, of which a pipe may take only a part at once, after the texts of the calls before. */
function write(text: string): Promise<void> {
  writing = writing.then(() =>
    new Blob([text]).stream().pipeTo(Deno.stdout.writable, { preventClose: true })
  );
  return writing;
}
