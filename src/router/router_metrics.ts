/**
 * The router's own metrics, and the metrics of the models' processes, each with the label `model`.
 *
 * @module
 */
import { log } from "../base/log.ts";
import { Gauge, MetricSet } from "../base/metric_set.ts";
import { RequestMetrics } from "../server/http/metrics.ts";
import type { ModelAddress } from "./model_process.ts";
import type { ModelPool, ModelState } from "./model_pool.ts";

const SCRAPE_MS = 2_000;

export class RouterMetrics {
  readonly #pool: ModelPool;
  readonly #metrics = new MetricSet();
  /** Counts of requests by model; `none` stands for requests that went to no model. */
  readonly requests: RequestMetrics = new RequestMetrics(this.#metrics.registry, {
    prefix: "hearth_router",
    label: "model",
    note: ", including loading",
  });

  constructor(pool: ModelPool) {
    this.#pool = pool;
    this.#metrics.gauge(
      "hearth_router_resident_memory_bytes",
      "Resident memory of the router's process",
      () => Deno.memoryUsage().rss,
    );
    this.#addModelGauge(
      "hearth_router_model_loaded",
      "1 while the model is loaded",
      ({ status }) => Number(status === "loaded"),
    );
    this.#addModelGauge(
      "hearth_router_requests_in_flight",
      "Requests that the model is working on",
      ({ numInUse }) => numInUse,
    );
    this.#addModelGauge(
      "hearth_router_requests_waiting",
      "Requests waiting for the model to be loaded",
      ({ numWaiting }) => numWaiting,
    );
    this.#addModelGauge(
      "hearth_router_model_starts",
      "How often the model's process was started",
      ({ numStarts }) => numStarts,
    );
    this.#addModelGauge(
      "hearth_router_model_memory_bytes",
      "Memory of the model: as configured, or else as last measured with --max-memory-mb; 0 if unknown",
      ({ bytes }) => bytes,
    );
    this.#addModelGauge(
      "hearth_router_model_losses",
      "How often the model's process ended unexpectedly",
      ({ numLosses }) => numLosses,
    );
  }

  /** Writes all metrics in Prometheus' text format. A model whose process does not return them in time is left out. */
  async scrape(): Promise<string> {
    const scrapes = await Promise.all(
      this.#pool.states.flatMap(({ model: { id }, address }) =>
        address === undefined ? [] : [scrapeModel(id, address)]
      ),
    );
    const own = await this.#metrics.registry.metrics();
    return `${own.trimEnd()}\n${labelMetrics(new Map(scrapes.flat()))}`;
  }

  #addModelGauge(name: string, help: string, read: (state: ModelState) => number): void {
    const pool = this.#pool;
    new Gauge({
      name,
      help,
      labelNames: ["model"] as const,
      registers: [this.#metrics.registry],
      collect() {
        for (const state of pool.states) this.set({ model: state.model.id }, read(state));
      },
    });
  }
}

async function scrapeModel(
  id: string,
  { url, key }: ModelAddress,
): Promise<(readonly [id: string, text: string])[]> {
  try {
    const response = await fetch(`${url}/metrics`, {
      headers: { authorization: `Bearer ${key}` },
      signal: AbortSignal.timeout(SCRAPE_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`status ${response.status}`);
    return [[id, text]];
  } catch (error) {
    log.warn("a model's process did not return its metrics", {
      model: id,
      reason: (error as Error).message,
    });
    return [];
  }
}

/** The lines of one metric: its `# HELP` and `# TYPE`, then its samples. */
interface Family {
  readonly comments: readonly string[];
  readonly samples: string[];
}

/**
 * Merges the metrics of several processes. Each sample gets the label `model` unless it has one, and a metric that
 * several processes have is described only once.
 *
 * @param scrapes the metrics of each model in Prometheus' text format, by the model's id.
 */
export function labelMetrics(scrapes: ReadonlyMap<string, string>): string {
  const families = new Map<string, Family>();
  for (const [model, text] of scrapes) {
    let comments: string[] = [];
    let family: Family | undefined;
    for (const line of text.split("\n").filter((each) => each !== "")) {
      if (line.startsWith("#")) {
        if (family !== undefined) comments = [];
        family = undefined;
        comments.push(line);
        continue;
      }
      family ??= openFamily(families, comments, line);
      family.samples.push(labelSample(line, model));
    }
  }
  const lines = [...families.values()].flatMap(({ comments, samples }) => [
    ...comments,
    ...samples,
  ]);
  return lines.length === 0 ? "" : `${lines.join("\n")}\n`;
}

function openFamily(
  families: Map<string, Family>,
  comments: readonly string[],
  sample: string,
): Family {
  const name = /^# \w+ (\S+)/.exec(comments[0] ?? "")?.[1] ?? /^[^{\s]+/.exec(sample)![0];
  const known = families.get(name);
  if (known !== undefined) return known;
  const family = { comments, samples: [] };
  families.set(name, family);
  return family;
}

function labelSample(line: string, model: string): string {
  const label = `model="${model.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"`;
  const [, name = "", labels] = /^([^{\s]+)(\{)?/.exec(line)!;
  if (labels === undefined) return `${name}{${label}}${line.slice(name.length)}`;
  const rest = line.slice(name.length + 1);
  if (/^(?:.*",)?model="/.test(rest)) return line;
  return `${name}{${label}${rest.startsWith("}") ? "" : ","}${rest}`;
}
