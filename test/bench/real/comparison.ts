/**
 * Compares programs in their own processes, which are started and asked alternately: medians over rounds, and the
 * resources that each process used.
 *
 * @module
 */
import { median, time } from "../report.ts";
import { readUsage } from "./process_usage.ts";

/** A contender whose model is loaded. */
export interface Running extends AsyncDisposable {
  readonly pid: number;
}

/** A program in a comparison; the first is always Hearth. */
export interface Contender<R extends Running> {
  readonly name: string;
  /** Resolves when the program can answer. */
  readonly start: () => Promise<R>;
}

/** A figure that is measured for each contender. */
export interface Metric {
  readonly label: string;
  readonly unit: "ms" | "s" | "MiB" | `${string}/s`;
  /** `gain`: how many times as good Hearth's figure is. `share`: Hearth's cost as a share of the other's. */
  readonly compare: "gain" | "share";
  /** The goal by the other contender's name: the least gain, or the greatest share. */
  readonly goals?: Readonly<Record<string, number>>;
}

/** Something to measure in each round. */
export interface Series<R extends Running> extends Metric {
  /** @returns the figure in the metric's unit, `undefined` where this contender cannot do it. */
  readonly measure: (running: R, round: number) => Promise<number | undefined>;
}

/** What is compared. */
export interface Comparison<R extends Running> {
  readonly title: string;
  readonly contenders: readonly Contender<R>[];
  readonly series: readonly Series<R>[];
  /** Goals for the start time and the memory, as shares of the other's. */
  readonly startGoals: Readonly<
    Record<string, { readonly ready?: number; readonly peak?: number }>
  >;
}

/** A metric's medians, in the order of the contenders. */
export interface Result extends Metric {
  readonly values: readonly (number | undefined)[];
}

/**
 * Time limit for each operation. A contender that takes longer is left out from then on: spinning threads, such as
 * llama.cpp's, hardly ever finish on shared cores.
 */
const PATIENCE_MS = 120_000;

/** How to measure. */
interface CompareOptions {
  readonly rounds: number;
  /** Whether series count a contender's processor time, which other programs hardly affect. */
  readonly byCpuTime?: boolean;
}

/** Runs the comparison, and reports progress on standard error. */
export async function compare<R extends Running>(
  { title, contenders, series, startGoals }: Comparison<R>,
  { rounds, byCpuTime = false }: CompareOptions,
): Promise<Result[]> {
  await using running = new AsyncDisposableStack();
  const readySeconds: number[][] = contenders.map(() => []);
  /** The running contenders; `undefined` for those that are left out. */
  const processes: (R | undefined)[] = contenders.map(() => undefined);
  const leftOut = new Set<number>();
  /** Leaves a contender out, for whatever reason. Without Hearth, nothing can be compared. */
  const leaveOut = async (index: number, reason: unknown) => {
    if (index === 0) throw reason;
    tell(`${title}: ${contenders[index]!.name} is left out: ${reason}`);
    leftOut.add(index);
    await processes[index]?.[Symbol.asyncDispose]();
    processes[index] = undefined;
  };
  for (let round = 0; round < rounds; round++) {
    for (const [index, { name, start }] of contenders.entries()) {
      if (leftOut.has(index)) continue;
      try {
        let started: R | undefined;
        readySeconds[index]!.push(await time(async () => void (started = await start())) / 1000);
        tell(`${title}: ${name} ready after ${readySeconds[index]!.at(-1)!.toFixed(2)} s`);
        if (round < rounds - 1) await started![Symbol.asyncDispose]();
        else processes[index] = running.use(started!);
      } catch (error) {
        await leaveOut(index, error);
      }
    }
  }

  const measureOne = async (
    { label, unit, measure }: Series<R>,
    { index, round }: { readonly index: number; readonly round: number },
  ) => {
    const process = processes[index];
    if (process === undefined) return undefined;
    try {
      const before = readUsage(process.pid).cpuSeconds;
      let byClock: number | undefined;
      const seconds = await time(async () => {
        byClock = await within(measure(process, round), byCpuTime ? 4 * PATIENCE_MS : PATIENCE_MS);
      }) / 1000;
      const cpuSeconds = readUsage(process.pid).cpuSeconds - before;
      const share = byCpuTime ? cpuSeconds / seconds : 1;
      const value = byClock && (unit.endsWith("/s") ? byClock / share : byClock * share);
      const what = `round ${round + 1} of ${rounds}, ${label}: ${contenders[index]!.name}`;
      if (value === undefined) return undefined;
      tell(`${title}, ${what} ${show(value)} ${unit}, ${cpuSeconds.toFixed(2)} s of CPU time`);
      return value;
    } catch (error) {
      await leaveOut(index, error);
      return undefined;
    }
  };
  // The first answer includes compilation and empty caches, so it does not count; starts have their own row.
  for (const index of processes.keys()) await measureOne(series[0]!, { index, round: -1 });
  const usages = () => processes.map((process) => process && readUsage(process.pid));
  const before = usages();
  const values = series.map(() => contenders.map((): number[] => []));
  for (let round = 0; round < rounds; round++) {
    for (const [row, one] of series.entries()) {
      // Each contender takes its turn to be first in a round.
      for (let turn = 0; turn < processes.length; turn++) {
        const index = (turn + round) % processes.length;
        const value = await measureOne(one, { index, round });
        if (value !== undefined) values[row]![index]!.push(value);
      }
    }
  }
  const after = usages();
  const getGoals = (key: "ready" | "peak") =>
    Object.fromEntries(
      Object.entries(startGoals).flatMap(([name, { [key]: goal }]) =>
        goal === undefined ? [] : [[name, goal]]
      ),
    );
  return [
    {
      label: "ready after",
      unit: "s",
      compare: "share",
      goals: getGoals("ready"),
      values: readySeconds.map(medianOfSome),
    },
    ...series.map(({ measure: _, ...metric }, row) => ({
      ...metric,
      values: values[row]!.map(medianOfSome),
    })),
    {
      label: "CPU time of a round",
      unit: "s",
      compare: "share",
      values: after.map((usage, index) =>
        usage && (usage.cpuSeconds - before[index]!.cpuSeconds) / rounds
      ),
    },
    {
      label: "peak memory",
      unit: "MiB",
      compare: "share",
      goals: getGoals("peak"),
      values: after.map((usage) => usage?.peakMiB),
    },
  ];
}

/** @throws {Error} when `work` takes too long; its later result is ignored. */
async function within<T>(work: Promise<T>, patienceMs: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`no end after ${patienceMs / 1000} s. Is the machine idle?`)),
    patienceMs,
  );
  work.catch(() => {});
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The median; `undefined` if there are no values. */
function medianOfSome(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : median(values);
}

/** Options for {@linkcode readHeader} and {@linkcode toRows}. */
interface TableOptions {
  readonly names: readonly string[];
  /** Whether the table has goals, which exist only for the CPU. */
  readonly hasGoals: boolean;
}

/** Makes a table row for each result: its name, Hearth's figure, and each other contender's figure, ratio and goal. */
export function toRows(
  results: readonly Result[],
  { names, hasGoals }: TableOptions,
): string[][] {
  return results.map(({ label, unit, compare, goals = {}, values }) => {
    const ours = values[0];
    return [
      `${label}, ${unit}`,
      show(ours),
      ...names.slice(1).flatMap((name, index) => {
        const theirs = values[index + 1];
        const goal = goals[name];
        const goalCell = (text: string) => hasGoals ? [text] : [];
        if (ours === undefined || theirs === undefined) return [show(theirs), "", ...goalCell("")];
        const isGain = compare === "gain";
        const ratio = isGain && !unit.endsWith("/s") ? theirs / ours : ours / theirs;
        const isMet = goal === undefined || (isGain ? ratio >= goal : ratio <= goal);
        return [
          show(theirs),
          `${ratio.toPrecision(2)}×`,
          ...goalCell(
            goal === undefined
              ? ""
              : `${isGain ? "≥" : "≤"} ${goal}× ${isMet ? "met" : "**missed**"}`,
          ),
        ];
      }),
    ];
  });
}

/** The header of {@linkcode toRows}'s table. */
export function readHeader(title: string, { names, hasGoals }: TableOptions): string[] {
  const columns = ["ratio", ...hasGoals ? ["goal"] : []];
  return [title, names[0]!, ...names.slice(1).flatMap((name) => [name, ...columns])];
}

function show(value: number | undefined): string {
  if (value === undefined) return "";
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function tell(line: string): void {
  // deno-lint-ignore no-console -- a run takes minutes
  console.error(line);
}
