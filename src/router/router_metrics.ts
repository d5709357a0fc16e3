/**
 * The router's own metrics. Those of the models are added with the label `model`.
 *
 * @module
 */
import { log } from "../base/log.ts";
import { MetricSet } from "../base/metric_set.ts";
import { Counter, Gauge, Histogram } from "../base/prometheus.ts";
import { labelMetrics } from "./label_metrics.ts";
import type { ModelAddress } from "./model_process.ts";
import type { ModelPool, ModelState } from "./model_pool.ts";

const SCRAPE_MS = 2_000;

/** A request that was answered. */
interface Observation {
  /** Id of the model; `none` if the request went to no model. */
  readonly model: string;
  readonly method: string;
  readonly status: number;
  readonly seconds: number;
}

/** The router's metrics. */
export class RouterMetrics {
  readonly #pool: ModelPool;
  readonly #metrics = new MetricSet();
  readonly #requests = new Counter({
    name: "hearth_router_requests_total",
    help: "Requests answered; status 499 means that the client disconnected first",
    labelNames: ["model", "method", "status"] as const,
    registers: [this.#metrics.registry],
  });
  readonly #durations = new Histogram({
    name: "hearth_router_request_duration_seconds",
    help:
      "Seconds from a request's arrival until its response was sent completely, including loading",
    labelNames: ["model", "method"] as const,
    buckets: [0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
    registers: [this.#metrics.registry],
  });

  constructor(pool: ModelPool) {
    this.#pool = pool;
    this.#metrics.gauge(
      "hearth_router_resident_memory_bytes",
      "Resident memory of the router's process",
      () => Deno.memoryUsage().rss,
    );
    this.#perModel(
      "hearth_router_model_loaded",
      "1 while the model is loaded",
      ({ status }) => Number(status === "loaded"),
    );
    this.#perModel(
      "hearth_router_requests_in_flight",
      "Requests that the model is working on",
      ({ numInUse }) => numInUse,
    );
    this.#perModel(
      "hearth_router_requests_waiting",
      "Requests waiting for the model to be loaded",
      ({ numWaiting }) => numWaiting,
    );
    this.#perModel(
      "hearth_router_model_starts",
      "How often the model's process was started",
      ({ numStarts }) => numStarts,
    );
    this.#perModel(
      "hearth_router_model_memory_bytes",
      "Memory that the model takes, or last took, if --max-memory-mb is set",
      ({ bytes }) => bytes,
    );
    this.#perModel(
      "hearth_router_model_losses",
      "How often the model's process ended unexpectedly",
      ({ numLosses }) => numLosses,
    );
  }

  observe({ model, method, status, seconds }: Observation): void {
    this.#requests.inc({ model, method, status });
    this.#durations.observe({ model, method }, seconds);
  }

  /** Writes all metrics in Prometheus' text format. A model that does not answer in time is left out. */
  async scrape(): Promise<string> {
    const scrapes = await Promise.all(
      this.#pool.states.flatMap(({ model: { id }, address }) =>
        address === undefined ? [] : [scrapeModel(id, address)]
      ),
    );
    const own = await this.#metrics.registry.metrics();
    return `${own.trimEnd()}\n${labelMetrics(new Map(scrapes.flat()))}`;
  }

  #perModel(name: string, help: string, read: (state: ModelState) => number): void {
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
    return [[id, await response.text()]];
  } catch (error) {
    log.warn("the metrics of a model are missing", { model: id, reason: (error as Error).message });
    return [];
  }
}
