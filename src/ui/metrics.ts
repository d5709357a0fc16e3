/**
 * Parses `/metrics`, and defines the plots.
 *
 * @module
 */
import { useEffect, useState } from "preact/hooks";
import { call } from "./server.ts";

/** Samples by the name of their metric, each with its labels. */
type Scrape = ReadonlyMap<string, readonly Sample[]>;

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Parses Prometheus' text format, as far as Hearth uses it. */
export function parseMetrics(text: string): Scrape {
  const scrape = new Map<string, Sample[]>();
  for (const line of text.split("\n")) {
    const match = line.match(/^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/);
    if (match === null) continue;
    const [, name, labelText = "", value] = match;
    const labels: Record<string, string> = {};
    for (const [, label, text] of labelText.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[label!] = text!;
    }
    const sample = { labels, value: Number(value) };
    const samples = scrape.get(name!);
    if (samples === undefined) scrape.set(name!, [sample]);
    else samples.push(sample);
  }
  return scrape;
}

/** One line of a plot. */
interface Line {
  readonly label: string;
  /** The current value; `null` if it is unknown. */
  readonly read: (now: Moment, window: Moment) => number | null;
}

/** A plot. */
export interface Plot {
  readonly title: string;
  readonly unit: string;
  /** The metric whose presence decides whether the plot is shown. */
  readonly metric: string;
  readonly lines: readonly Line[];
}

/** The metrics at one time. */
export interface Moment {
  readonly seconds: number;
  readonly scrape: Scrape;
}

const MIB = 1024 * 1024;

function total(scrape: Scrape, name: string): number | null {
  const samples = scrape.get(name);
  return samples ? samples.reduce((sum, { value }) => sum + value, 0) : null;
}

/** Increase per second over the window. */
function rate(name: string): Line["read"] {
  return (now, then) => {
    const seconds = now.seconds - then.seconds;
    const [to, from] = [total(now.scrape, name), total(then.scrape, name)];
    return seconds > 0 && to !== null ? Math.max(0, to - (from ?? 0)) / seconds : null;
  };
}

function gauge(name: string, scale = 1): Line["read"] {
  return ({ scrape }) => {
    const value = total(scrape, name);
    return value === null ? null : value / scale;
  };
}

/** A quantile of a histogram's increase over the window, in milliseconds, interpolated within the bucket. */
function quantile(name: string, share: number): Line["read"] {
  return (now, then) => {
    const counts = bucketGrowth(now.scrape, then.scrape, `${name}_bucket`);
    const all = counts.at(-1)?.count ?? 0;
    if (all === 0) return null;
    const wanted = share * all;
    let below = { bound: 0, count: 0 };
    for (const bucket of counts) {
      if (bucket.count >= wanted) {
        if (bucket.bound === Infinity) return below.bound * 1000;
        const within = (wanted - below.count) / (bucket.count - below.count);
        return (below.bound + within * (bucket.bound - below.bound)) * 1000;
      }
      below = bucket;
    }
    return null;
  };
}

function bucketGrowth(now: Scrape, then: Scrape, name: string) {
  const counts = new Map<number, number>();
  const add = (scrape: Scrape, sign: number) => {
    for (const { labels, value } of scrape.get(name) ?? []) {
      if (labels["method"] === "GET") continue;
      const bound = labels["le"] === "+Inf" ? Infinity : Number(labels["le"]);
      counts.set(bound, (counts.get(bound) ?? 0) + sign * value);
    }
  };
  add(now, 1);
  add(then, -1);
  return [...counts].map(([bound, count]) => ({ bound, count })).sort((a, b) => a.bound - b.bound);
}

/** All plots, in the order in which they are shown. */
export const PLOTS: readonly Plot[] = [
  {
    title: "Throughput",
    unit: "tokens/s",
    metric: "hearth_completion_tokens_total",
    lines: [
      { label: "generated", read: rate("hearth_completion_tokens_total") },
      { label: "prompt", read: rate("hearth_prompt_tokens_total") },
    ],
  },
  {
    title: "Requests",
    unit: "",
    metric: "hearth_requests_in_flight",
    lines: [
      { label: "in flight", read: gauge("hearth_requests_in_flight") },
      { label: "running", read: gauge("hearth_sequences_running") },
      { label: "waiting", read: gauge("hearth_sequences_waiting") },
    ],
  },
  {
    title: "Latency of requests",
    unit: "ms",
    metric: "hearth_http_request_duration_seconds_count",
    lines: [
      { label: "median", read: quantile("hearth_http_request_duration_seconds", 0.5) },
      { label: "95 %", read: quantile("hearth_http_request_duration_seconds", 0.95) },
    ],
  },
  {
    title: "Time to first token",
    unit: "ms",
    metric: "hearth_time_to_first_token_seconds_count",
    lines: [
      { label: "median", read: quantile("hearth_time_to_first_token_seconds", 0.5) },
      { label: "95 %", read: quantile("hearth_time_to_first_token_seconds", 0.95) },
    ],
  },
  {
    title: "KV cache blocks",
    unit: "",
    metric: "hearth_kv_blocks_used",
    lines: [
      { label: "used", read: gauge("hearth_kv_blocks_used") },
      { label: "cached", read: gauge("hearth_kv_blocks_cached") },
    ],
  },
  {
    title: "Memory of the process",
    unit: "MiB",
    metric: "process_resident_memory_bytes",
    lines: [{ label: "resident", read: gauge("process_resident_memory_bytes", MIB) }],
  },
];

const INTERVAL_MS = 1000;
/** Time range of the plots. */
export const KEPT_SECONDS = 300;

/** The metrics so far, and the last error. */
export interface History {
  readonly moments: readonly Moment[];
  readonly failure: string | undefined;
}

export function useMetricsHistory(): History {
  const [moments, setMoments] = useState<readonly Moment[]>([]);
  const [failure, setFailure] = useState<string>();
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const scrape = async () => {
      try {
        if (!document.hidden) {
          const text = await (await call("metrics", { signal })).text();
          const seconds = Date.now() / 1000;
          setMoments((before) => [
            ...before.filter((each) => each.seconds > seconds - KEPT_SECONDS),
            { seconds, scrape: parseMetrics(text) },
          ]);
          setFailure(undefined);
        }
      } catch (error) {
        if (!signal.aborted) setFailure((error as Error).message);
      }
      if (!signal.aborted) timer = setTimeout(scrape, INTERVAL_MS);
    };
    scrape();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, []);
  return { moments, failure };
}
