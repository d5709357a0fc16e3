/**
 * Live metrics: plots of the last five minutes.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import { Failure, readColour } from "./controls.tsx";
import { type History, KEPT_SECONDS, type Moment, type Plot, PLOTS } from "./metrics.ts";
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
    moments.map((moment, at) => read(moment, windowStart(moments, at)))
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

/** The last sample that is at least a window older than this one, else the first sample. */
function windowStart(moments: readonly Moment[], at: number): Moment {
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
