/**
 * Contenders in processes of their own, started and asked in turn; medians over rounds, and what each process used.
 *
 * @module
 */
import { median, time } from "../report.ts";
import { readUsage } from "./process_usage.ts";

/** A contender whose model is loaded. */
export interface Running extends AsyncDisposable {
  readonly pid: number;
}

/** One side of a comparison; the first of several is Hearth. */
export interface Contender<R extends Running> {
  readonly name: string;
  /** Resolves when it can answer. */
  readonly start: () => Promise<R>;
}

/** A figure of each contender. */
export interface Metric {
  readonly label: string;
  readonly unit: "ms" | "s" | "MiB" | `${string}/s`;
  /** `gain`: how many times as good as the other's. `share`: how much of the other's cost. */
  readonly compare: "gain" | "share";
  /** Least gain or greatest share wanted, by the other contender's name. */
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
  /** Greatest shares of the other's time to be ready, and of its memory. */
  readonly startGoals: Readonly<
    Record<string, { readonly ready?: number; readonly peak?: number }>
  >;
}

/** A metric's medians, in the order of the contenders. */
export interface Result extends Metric {
  readonly values: readonly (number | undefined)[];
}

/**
 * A contender that takes longer for anything is left out from then on: threads that spin, as llama.cpp's do, hardly
 * ever end where they have to share their cores.
 */
const PATIENCE_MS = 120_000;

/** How to measure. */
interface CompareOptions {
  readonly rounds: number;
  /** Whether series count the time of the processors that a contender used, which what runs beside it changes little. */
  readonly byCpuTime?: boolean;
}

/** Runs all. Standard error tells how far it is. */
export async function compare<R extends Running>(
  { title, contenders, series, startGoals }: Comparison<R>,
  { rounds, byCpuTime = false }: CompareOptions,
): Promise<Result[]> {
  await using running = new AsyncDisposableStack();
  const readySeconds: number[][] = contenders.map(() => []);
  /** Those that run; of one that is left out, nothing. */
  const processes: (R | undefined)[] = contenders.map(() => undefined);
  const leftOut = new Set<number>();
  /** Nothing can be compared without Hearth; another contender may be left out, whatever its reason. */
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
  // The first answer is that of caches and compilers; starts have their own row.
  for (const index of processes.keys()) await measureOne(series[0]!, { index, round: -1 });
  const usages = () => processes.map((process) => process && readUsage(process.pid));
  const before = usages();
  const values = series.map(() => contenders.map((): number[] => []));
  for (let round = 0; round < rounds; round++) {
    for (const [row, one] of series.entries()) {
      // Each contender is the first of a round in its turn.
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

/** @throws {Error} when `work` takes too long; what it ends with afterwards nobody hears. */
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

/** `undefined` of none. */
function medianOfSome(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : median(values);
}

/** What of {@linkcode readHeader} and {@linkcode toRows} depends on the device. */
interface TableOptions {
  readonly names: readonly string[];
  /** Goals are set for the CPU alone. */
  readonly hasGoals: boolean;
}

/** A row of a table for each result: what, Hearth's figure, then of each other its figure, the ratio and the goal. */
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
