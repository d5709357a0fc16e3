/**
 * `deno task test`: runs all tests except `test/long/`, or the given files and folders. Since tests also wait, it runs
 * one process more than there are cores, but at most four. At the end it repeats the failures, lists the slowest files,
 * says why tests were skipped, and prints one line of counts. It exits with the exit code of `deno test`. Files of a
 * folder share an isolate, so that their imports are compiled once. If the arguments contain options or patterns, all
 * arguments go to one `deno test`.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { quietenVulkan } from "../src/cli/loading.ts";
import { explainSkipped, listSlowest, readReport, type Report } from "./test_report.ts";

/** Test module that runs the files in its arguments in one isolate. */
const ENTRY = "test/run_files.ts";
/**
 * Maximum number of files per process: what files leave behind adds up, and the last process should not run alone for
 * long.
 */
const MOST_FILES = 16;
/** Up to this many files run as in a plain `deno test`: in separate isolates, with their output shown immediately. */
const FEW_FILES = 4;
/** The tests in this folder only run if it is named, as in `deno task test:long`. */
const LONG = join("test", "long", sep);
/** Files in this folder take a fraction of a second, so they run last. */
const UNITS = join("test", "unit");
/** Files that measure their process get their own isolate: leftovers of other files would distort the figures. */
const MEASURES_PROCESS = /Deno\.memoryUsage|\/proc\/self\/(fd|task)/;
/** Maximum number of processes: each may have one or two models in memory. */
const MOST_PROCESSES = 4;

/** The files of one process, which run in one isolate together or in one each. */
interface Share {
  readonly files: readonly string[];
  readonly isolates: "one" | "each";
}

/** Resolves when all output so far is written. */
let writing = Promise.resolve();

const repository = fileURLToPath(new URL("../", import.meta.url));
quietenVulkan();
Deno.chdir(repository);
Deno.exit(await runTests(Deno.args));

async function runTests(args: readonly string[]): Promise<number> {
  const missing = await findMissing();
  const files = args.some((arg) => arg.startsWith("-") || !existsSync(arg))
    ? []
    : args.length > 0
    ? await listTestFiles(args)
    : (await listTestFiles(["test"])).filter((file) => !file.startsWith(LONG));
  const reports: Report[] = [];
  if (files.length <= FEW_FILES) {
    // `deno test` reads options and patterns, and says what is wrong with the arguments.
    reports.push(await runProcess(args, { isOnly: true }));
  } else {
    const shares = await divideFiles(files);
    const lane = async () => {
      for (let share = shares.shift(); share !== undefined; share = shares.shift()) {
        const { files, isolates } = share;
        reports.push(await runProcess(isolates === "each" ? files : [ENTRY, "--", ...files]));
      }
    };
    const numLanes = Math.min(MOST_PROCESSES, navigator.hardwareConcurrency + 1, shares.length);
    await Promise.all(Array.from({ length: numLanes }, lane));
    // Other processes may have printed in between.
    await write(reports.map(({ failures }) => failures).join(""));
  }
  writeLine(listSlowest(reports));
  const total = (of: "passed" | "failed" | "skipped") =>
    reports.reduce((sum, report) => sum + report[of], 0);
  if (total("skipped") > 0) writeLine(explainSkipped(total("skipped"), missing));
  writeLine(`${total("passed")} passed, ${total("failed")} failed, ${total("skipped")} skipped`);
  return reports.find(({ exitCode }) => exitCode !== 0)?.exitCode ?? 0;
}

/** The test files among the paths and inside those that are folders, relative to the repository. */
async function listTestFiles(paths: readonly string[]): Promise<string[]> {
  const files = new Set<string>();
  for (const path of paths) {
    const { isDirectory } = await Deno.stat(path);
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

/** Divides files among processes. Neighbours take about the same time, so they go to different processes. */
async function divideFiles(files: readonly string[]): Promise<Share[]> {
  const groups = new Map<string, string[]>();
  for (const file of files) {
    const isAlone = MEASURES_PROCESS.test(await Deno.readTextFile(file));
    const folder = file.split(sep, file.startsWith(LONG) ? 3 : 2).join(sep);
    const key = isAlone ? "" : folder;
    groups.set(key, [...groups.get(key) ?? [], file]);
  }
  return [...groups]
    .sort(([a], [b]) => Number(a === UNITS) - Number(b === UNITS))
    .flatMap(([folder, files]) => {
      const numShares = Math.ceil(files.length / MOST_FILES);
      return Array.from({ length: numShares }, (_, share): Share => ({
        files: files.filter((_, index) => index % numShares === share),
        isolates: folder === "" ? "each" : "one",
      }));
    });
}

/**
 * Runs `deno test`.
 *
 * @param options.isOnly whether no other process runs. Only then is the output shown immediately. Otherwise it is shown
 * when the process has ended.
 */
async function runProcess(
  args: readonly string[],
  { isOnly = false }: { readonly isOnly?: boolean } = {},
): Promise<Report> {
  // Folder for the process-id files of servers under test.
  const runtimeFolder = await Deno.makeTempDir({ prefix: "hearth-test-" });
  try {
    const child = new Deno.Command(Deno.execPath(), {
      // Types are not checked here: `deno task ok` does that.
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
    return readReport(output, { args, code });
  } finally {
    await Deno.remove(runtimeFolder, { recursive: true });
  }
}

/** Lists the requirements of tests that this machine lacks, each with its remedy. */
async function findMissing(): Promise<string[]> {
  const missing: string[] = [];
  // Imported only now, after `quietenVulkan`. The module turns OpenGL off, for this process and for those that it
  // starts later.
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

function writeLine(line: string): void {
  if (line !== "") Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}

/** Writes the whole text, after the texts of earlier calls. A pipe may take only a part of it at once. */
function write(text: string): Promise<void> {
  writing = writing.then(() =>
    new Blob([text]).stream().pipeTo(Deno.stdout.writable, { preventClose: true })
  );
  return writing;
}
