/**
 * Reads what `deno test` prints: counts, failures, and how long each file took.
 *
 * @module
 */

/** The results of one `deno test` process. */
export interface Report {
  readonly exitCode: number;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** The failure report of the process, and the names of files that did not run to the end. */
  readonly failures: string;
  /** Seconds by file. */
  readonly seconds: ReadonlyMap<string, number>;
}

/** The counts of tests and of their steps. */
const SUMMARY =
  /^(?:ok|FAILED) \| (\d+) passed(?: \((\d+) steps?\))?.*? \| (\d+) failed(?: \((\d+) steps?\))?(?:.*?(\d+) ignored(?: \((\d+) steps?\))?)?/gm;
/** The failure summary that a process prints after all its tests. */
const ERRORS = /^ ERRORS $[^]*?(?=^ FAILURES $)/m;
/** Matches the location where a step was registered: it is the same for all tests of files that share an isolate. */
const ENTRY_LOCATION = / => \.\/test\/run_files\.ts:\d+:\d+/g;
// deno-lint-ignore no-control-regex -- colour codes
const COLOUR = /\x1b\[[0-9;]*m/g;
/** Number of slowest files that are listed. */
const NUM_SLOWEST = 10;
const SECONDS_PER_UNIT: Readonly<Record<string, number>> = {
  µs: 1e-6,
  ms: 1e-3,
  s: 1,
  m: 60,
  h: 3600,
};

/**
 * Reads the output of `deno test <args>`.
 *
 * @param options.args arguments of the process. Each file after `--` ran as one test, with the file's tests as steps.
 */
export function readReport(
  coloured: string,
  { args, code }: { readonly args: readonly string[]; readonly code: number },
): Report {
  const output = coloured.replace(COLOUR, "").replace(ENTRY_LOCATION, "");
  const shared = args.includes("--") ? args.slice(args.indexOf("--") + 1) : [];
  const seconds = readFileSeconds(output, shared);
  let failures = ERRORS.exec(output)?.[0] ?? "";
  const missed = shared.filter((file) => !seconds.has(file));
  if (missed.length > 0) failures += `Not run to the end: ${missed.join(", ")}\n`;
  // Takes the last match: a test may itself print a summary of `deno test`.
  const counts = [...output.matchAll(SUMMARY)].at(-1);
  if (counts === undefined) {
    failures += `deno test ${args.join(" ")} ended with exit code ${code} and no summary.\n`;
  }
  const [passed, passedSteps, failed, failedSteps, skipped, skippedSteps] =
    counts?.slice(1).map((count = "0") => Number(count)) ?? [0, 0, 0, 0, 0, 0];
  return {
    exitCode: code || Number(counts === undefined || missed.length > 0),
    ...shared.length > 0
      // A file that fails counts as a failure even if none of its tests fails.
      ? { passed: passedSteps!, failed: Math.max(failed!, failedSteps!), skipped: skippedSteps! }
      : { passed: passed!, failed: failed!, skipped: skipped! },
    failures,
    seconds,
  };
}

/** Reads the time of each file that shares an isolate. For other files, adds up the times of their tests. */
function readFileSeconds(output: string, shared: readonly string[]): Map<string, number> {
  const seconds = new Map<string, number>();
  let file = "";
  for (const line of output.split("\n")) {
    file = /^running \d+ tests? from \.\/(\S+)/.exec(line)?.[1] ?? file;
    // Steps are indented. The time of a test includes the time of its steps.
    const result = /^(?! ).* (?:ok|FAILED)(?: \([^)]*\))? \(([\d.hmsµ]+)\)$/.exec(line);
    if (result === null) continue;
    const key = shared.length === 0 ? file : shared.find((each) => line.startsWith(`${each} ...`));
    if (key !== undefined) seconds.set(key, (seconds.get(key) ?? 0) + parseSeconds(result[1]!));
  }
  return seconds;
}

/** Parses `1m43s` or `250ms`. */
function parseSeconds(duration: string): number {
  const parts = duration.matchAll(/([\d.]+)(µs|ms|h|m|s)/g);
  return Array.from(parts, ([, amount, unit]) => Number(amount) * SECONDS_PER_UNIT[unit!]!)
    .reduce((sum, part) => sum + part, 0);
}

/** Lists the slowest files of all processes; empty if there are few files. */
export function listSlowest(reports: readonly Report[]): string {
  const all = reports.flatMap(({ seconds }) => [...seconds]);
  if (all.length <= NUM_SLOWEST) return "";
  const lines = all.sort(([, a], [, b]) => b - a).slice(0, NUM_SLOWEST)
    .map(([file, took]) => `${took.toFixed(0).padStart(6)} s  ${file}`);
  return `The slowest files:\n${lines.join("\n")}`;
}

/** Says how many tests were skipped, and what was missing. */
export function explainSkipped(skipped: number, missing: readonly string[]): string {
  const tests = skipped === 1 ? "1 test was" : `${skipped} tests were`;
  const reason = missing.length > 0
    ? missing.join("; ")
    : "the lines marked ignored above say which";
  return `${tests} skipped: ${reason}.`;
}
