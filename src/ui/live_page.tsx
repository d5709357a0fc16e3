/**
 * Live figures: parses `/metrics`, and plots the last five minutes.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { Failure, readColour } from "./controls.tsx";
import type { ServerInfo } from "./server.ts";

/** Window over which rates and quantiles are computed. */
const WINDOW_SECONDS = 10;
const PLOT_HEIGHT = 160;

export function LivePage({ info, history }: { info: ServerInfo; history: History }): JSX.Element {
  const { moments, failure } = history;
  const latest = moments.at(-1);
  return (
    <main class="wide" tabIndex={0} aria-label="Live figures">
      <h1>Live figures</h1>
      <dl class="facts">
        <Fact name="Model" value={info.id} />
        <Fact name="Kind" value={info.kind} />
        <Fact name="Weights" value={info.dtype} />
        <Fact name="Device" value={info.adapter} />
        {info.context_length !== null && (
          <Fact name="Context" value={`${info.context_length.toLocaleString("en")} tokens`} />
        )}
        <Fact name="Concurrency" value={`${info.max_sequences} requests`} />
        <Fact name="Hearth" value={info.version} />
      </dl>
      <Failure message={failure} />
      <div class="plots">
        {latest &&
          PLOTS.filter(({ metric }) => latest.scrape.has(metric)).map((plot) => (
            <PlotView key={plot.title} plot={plot} moments={moments} />
          ))}
      </div>
    </main>
  );
}

function Fact({ name, value }: { name: string; value: string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function PlotView({ plot, moments }: { plot: Plot; moments: readonly Moment[] }): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  useEffect(() => {
    const element = host.current!;
    const made = chart.current = createChart(element, plot);
    const observer = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: PLOT_HEIGHT })
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, []);
  const lines = plot.lines.map(({ read }) =>
    moments.map((moment, at) => read(moment, findWindowStart(moments, at)))
  );
  useEffect(() => {
    const now = moments.at(-1)?.seconds ?? 0;
    chart.current!.setData([moments.map(({ seconds }) => seconds), ...lines], false);
    chart.current!.setScale("x", { min: now - KEPT_SECONDS, max: now });
    const most = Math.max(1, ...lines.flat().map((value) => value ?? 0));
    chart.current!.setScale("y", { min: 0, max: most * 1.1 });
  }, [moments]);
  return (
    <figure class="plot" data-plot={plot.title}>
      <figcaption>
        {plot.title}
        {plot.lines.map(({ label }, index) => (
          <span key={label} data-line={index}>
            {label} <output>{format(lines[index]!.at(-1))} {plot.unit}</output>
          </span>
        ))}
      </figcaption>
      <div ref={host} role="img" aria-label={`${plot.title} of the last five minutes`} />
    </figure>
  );
}

function format(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toFixed(1)));
}

/** Finds the latest moment that is at least a window before this one, or else the first moment. */
function findWindowStart(moments: readonly Moment[], at: number): Moment {
  const before = moments[at]!.seconds - WINDOW_SECONDS;
  let start = at;
  while (start > 0 && moments[start]!.seconds > before) start--;
  return moments[start]!;
}

function createChart(host: HTMLElement, plot: Plot): uPlot {
  const colour = (name: string) => readColour(host, name);
  const axis = {
    stroke: colour("--soft"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: `11px ${getComputedStyle(host).fontFamily}`,
  };
  return new uPlot(
    {
      width: host.clientWidth,
      height: PLOT_HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: true, auto: false }, y: { auto: false } },
      axes: [
        { ...axis, space: 80, size: 24, values: (_, seconds) => seconds.map(formatTime) },
        { ...axis, size: 48 },
      ],
      series: [
        {},
        ...plot.lines.map(({ label }, index) => ({
          label,
          stroke: colour(["--accent", "--second", "--third"][index]!),
          width: 1.5,
          points: { show: false },
        })),
      ],
    },
    [[], ...plot.lines.map(() => [])],
    host,
  );
}

function formatTime(seconds: number): string {
  const time = new Date(seconds * 1000);
  return time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

/** Samples by the name of their metric. */
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

interface Line {
  readonly label: string;
  /** The current value; `null` if it is unknown. */
  readonly read: (now: Moment, windowStart: Moment) => number | null;
}

interface Plot {
  readonly title: string;
  readonly unit: string;
  /** The metric whose presence decides whether the plot is shown. */
  readonly metric: string;
  readonly lines: readonly Line[];
}

/** The metrics at one time. */
interface Moment {
  readonly seconds: number;
  readonly scrape: Scrape;
}

const MIB = 1024 * 1024;

function sumSamples(scrape: Scrape, name: string): number | null {
  const samples = scrape.get(name);
  return samples ? samples.reduce((sum, { value }) => sum + value, 0) : null;
}

/** Reads the increase per second of a counter over the window. */
function readRate(name: string): Line["read"] {
  return (now, then) => {
    const seconds = now.seconds - then.seconds;
    const [to, from] = [sumSamples(now.scrape, name), sumSamples(then.scrape, name)];
    return seconds > 0 && to !== null ? Math.max(0, to - (from ?? 0)) / seconds : null;
  };
}

/** Reads the current value of a gauge. @param scale divides the value. */
function readGauge(name: string, scale = 1): Line["read"] {
  return ({ scrape }) => {
    const value = sumSamples(scrape, name);
    return value === null ? null : value / scale;
  };
}

/** Reads a quantile of a histogram's increase over the window, in milliseconds, interpolated within the bucket. */
function readQuantile(name: string, share: number): Line["read"] {
  return (now, then) => {
    const counts = countBucketGrowth(now.scrape, then.scrape, `${name}_bucket`);
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

function countBucketGrowth(now: Scrape, then: Scrape, name: string) {
  const counts = new Map<number, number>();
  const add = (scrape: Scrape, sign: number) => {
    for (const { labels, value } of scrape.get(name) ?? []) {
      // Requests with GET run no model.
      if (labels["method"] === "GET") continue;
      const bound = labels["le"] === "+Inf" ? Infinity : Number(labels["le"]);
      counts.set(bound, (counts.get(bound) ?? 0) + sign * value);
    }
  };
  add(now, 1);
  add(then, -1);
  return [...counts].map(([bound, count]) => ({ bound, count })).sort((a, b) => a.bound - b.bound);
}

const DURATION = "hearth_http_request_duration_seconds";
const FIRST_TOKEN = "hearth_time_to_first_token_seconds";

/** All plots, in the order in which they are shown. */
export const PLOTS: readonly Plot[] = [
  {
    ...{ title: "Throughput", unit: "tokens/s", metric: "hearth_completion_tokens_total" },
    lines: [
      { label: "generated", read: readRate("hearth_completion_tokens_total") },
      { label: "prompt", read: readRate("hearth_prompt_tokens_total") },
    ],
  },
  {
    ...{ title: "Requests", unit: "", metric: "hearth_requests_in_flight" },
    lines: [
      { label: "in flight", read: readGauge("hearth_requests_in_flight") },
      { label: "running", read: readGauge("hearth_sequences_running") },
      { label: "waiting", read: readGauge("hearth_sequences_waiting") },
    ],
  },
  {
    ...{ title: "Latency of requests", unit: "ms", metric: `${DURATION}_count` },
    lines: makeQuantileLines(DURATION),
  },
  {
    ...{ title: "Time to first token", unit: "ms", metric: `${FIRST_TOKEN}_count` },
    lines: makeQuantileLines(FIRST_TOKEN),
  },
  {
    ...{ title: "KV cache blocks", unit: "", metric: "hearth_kv_blocks_used" },
    lines: [
      { label: "used", read: readGauge("hearth_kv_blocks_used") },
      { label: "cached", read: readGauge("hearth_kv_blocks_cached") },
    ],
  },
  {
    ...{ title: "Memory of the process", unit: "MiB", metric: "process_resident_memory_bytes" },
    lines: [{ label: "resident", read: readGauge("process_resident_memory_bytes", MIB) }],
  },
];

function makeQuantileLines(name: string): Line[] {
  return [
    { label: "median", read: readQuantile(name, 0.5) },
    { label: "95 %", read: readQuantile(name, 0.95) },
  ];
}

/** Time range of the plots. */
export const KEPT_SECONDS = 300;

/** The metrics of the last five minutes, and the last error. */
export interface History {
  readonly moments: readonly Moment[];
  readonly failure: string | undefined;
}
