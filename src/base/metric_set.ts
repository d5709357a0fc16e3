/**
 * Metrics of one part of the program, in a registry of their own. The worker's metrics cross to the server as JSON.
 *
 * @module
 */
import type * as prometheus from "prom-client";
import cluster from "prom-client/lib/cluster.js";
import counter from "prom-client/lib/counter.js";
import gauge from "prom-client/lib/gauge.js";
import histogram from "prom-client/lib/histogram.js";
import registry from "prom-client/lib/registry.js";

// The classes of prom-client that are used here, from the modules that define them. prom-client's main module also
// imports a pushing client, a digest of quantiles and metrics of Node, which costs each thread 20 to 40 ms at its
// start. The types come from the main module, because the other modules have none.
type Main = typeof prometheus;
export const AggregatorRegistry = cluster as unknown as Main["AggregatorRegistry"];
export const Counter = counter as unknown as Main["Counter"];
export const Gauge = gauge as unknown as Main["Gauge"];
export const Histogram = histogram as unknown as Main["Histogram"];
export const Registry = registry as unknown as Main["Registry"];

// deno-fmt-ignore -- a scale reads better on one line
/** Durations from a millisecond to a minute. */
const SECONDS_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Sizes of batches. */
export const COUNT_BUCKETS: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/** Makes metrics in one registry. Prometheus shows their names and help texts. */
export class MetricSet {
  readonly registry = new Registry();
  readonly #registers = [this.registry];

  counter(name: string, help: string): prometheus.Counter {
    return new Counter({ name, help, registers: this.#registers });
  }

  /** A counter whose value is kept elsewhere and read at each scrape. */
  total(name: string, help: string, read: () => number): void {
    new Counter({
      name,
      help,
      registers: this.#registers,
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }

  /** A gauge whose value is read at each scrape. */
  gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: this.#registers,
      collect() {
        this.set(read());
      },
    });
  }

  /** @param buckets upper bounds; bounds for durations in seconds if absent. */
  histogram(
    name: string,
    help: string,
    buckets: readonly number[] = SECONDS_BUCKETS,
  ): prometheus.Histogram {
    return new Histogram({ name, help, buckets: [...buckets], registers: this.#registers });
  }
}

/** Metrics of a model: counts of its requests, and the metrics of its engine, if it has one. */
export class RequestMetrics extends MetricSet {
  /** Counts running and waiting requests. Whatever schedules them replaces this function. */
  requests = (): { readonly running: number; readonly waiting: number } => ({
    running: 0,
    waiting: 0,
  });

  /** @param what the things that requests are about, as a capitalized plural: `Recordings`. */
  constructor(what: string) {
    super();
    this.gauge("hearth_sequences_running", `${what} worked on.`, () => this.requests().running);
    this.gauge("hearth_sequences_waiting", `${what} that wait.`, () => this.requests().waiting);
  }

  /**
   * Takes over the metrics of another registry, which replace metrics of the same names. The metrics named in
   * `staying`, and the metrics of running and waiting requests, are not replaced.
   */
  adopt(from: prometheus.Registry, staying: readonly string[] = []): void {
    const kept = [...staying, "hearth_sequences_running", "hearth_sequences_waiting"];
    for (const metric of from.getMetricsAsArray()) {
      const { name } = metric as unknown as { readonly name: string };
      if (kept.includes(name)) continue;
      this.registry.removeSingleMetric(name);
      this.registry.registerMetric(metric as unknown as prometheus.Metric);
    }
  }
}
