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

/** Runs all. Standard error tells how far it is. */
export async function compare<R extends Running>(
  { title, contenders, series, startGoals }: Comparison<R>,
  { rounds }: { readonly rounds: number },
): Promise<Result[]> {
  await using running = new AsyncDisposableStack();
  const readySeconds: number[][] = contenders.map(() => []);
  const processes: R[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const [index, { start }] of contenders.entries()) {
      let started: R | undefined;
      readySeconds[index]!.push(await time(async () => void (started = await start())) / 1000);
      if (round < rounds - 1) await started![Symbol.asyncDispose]();
      else processes.push(running.use(started!));
    }
  }
  tell(`${title}: ready after ${readySeconds.map((all) => median(all).toFixed(2)).join(" / ")} s`);

  // The first answer is that of caches and compilers; starts have their own row.
  for (const process of processes) await series[0]!.measure(process, rounds);
  const before = processes.map(({ pid }) => readUsage(pid));
  const values = series.map(() => contenders.map((): number[] => []));
  for (let round = 0; round < rounds; round++) {
    for (const [row, { label, measure }] of series.entries()) {
      // Each contender is the first of a round in its turn.
      for (let turn = 0; turn < processes.length; turn++) {
        const index = (turn + round) % processes.length;
        const value = await measure(processes[index]!, round);
        if (value !== undefined) values[row]![index]!.push(value);
      }
      tell(
        `${title}, round ${round + 1} of ${rounds}, ${label}: ${
          values[row]!.map((all) => all.at(-1)?.toFixed(1) ?? "–").join(" / ")
        }`,
      );
    }
  }
  const after = processes.map(({ pid }) => readUsage(pid));
  const goalsOf = (key: "ready" | "peak") =>
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
      goals: goalsOf("ready"),
      values: readySeconds.map(median),
    },
    ...series.map(({ measure: _, ...metric }, row) => ({
      ...metric,
      values: values[row]!.map((all) => all.length === 0 ? undefined : median(all)),
    })),
    {
      label: "CPU time of a round",
      unit: "s",
      compare: "share",
      values: after.map(({ cpuSeconds }, i) => (cpuSeconds - before[i]!.cpuSeconds) / rounds),
    },
    {
      label: "peak memory",
      unit: "MiB",
      compare: "share",
      goals: goalsOf("peak"),
      values: after.map(({ peakMiB }) => peakMiB),
    },
  ];
}

/** A row of a table for each result: what, Hearth's figure, then of each other its figure, the ratio and the goal. */
export function toRows(results: readonly Result[], names: readonly string[]): string[][] {
  return results.map(({ label, unit, compare, goals = {}, values }) => {
    const ours = values[0];
    return [
      `${label}, ${unit}`,
      show(ours),
      ...names.slice(1).flatMap((name, index) => {
        const theirs = values[index + 1];
        const goal = goals[name];
        if (ours === undefined || theirs === undefined) return [show(theirs), "", ""];
        const isGain = compare === "gain";
        const ratio = isGain && !unit.endsWith("/s") ? theirs / ours : ours / theirs;
        const isMet = goal === undefined || (isGain ? ratio >= goal : ratio <= goal);
        return [
          show(theirs),
          `${ratio.toPrecision(2)}×`,
          goal === undefined
            ? ""
            : `${isGain ? "≥" : "≤"} ${goal}× ${isMet ? "met" : "**missed**"}`,
        ];
      }),
    ];
  });
}

/** The header of {@linkcode toRows}'s table. */
export function headerOf(title: string, names: readonly string[]): string[] {
  return [title, names[0]!, ...names.slice(1).flatMap((name) => [name, "ratio", "goal"])];
}

function show(value: number | undefined): string {
  if (value === undefined) return "";
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function tell(line: string): void {
  // deno-lint-ignore no-console -- a run takes minutes
  console.error(line);
}
