/**
 * `GET /metrics`: the metrics of the server, its session and the worker, for Prometheus.
 *
 * @module
 */
import type * as prometheus from "prom-client";
import { z } from "zod";
import { stderrQueue } from "../../base/log.ts";
import {
  AggregatorRegistry,
  Counter,
  Gauge,
  Histogram,
  MetricSet,
  Registry,
} from "../../base/metric_set.ts";
import type { Session } from "../session/session.ts";
import type { SessionState } from "../session/supervisor.ts";
import { type ConnectionFigures, newConnectionFigures } from "./connection/connections.ts";
import type { EndedRequest } from "./requests.ts";
import type { Route } from "./route.ts";

const PHASES: readonly SessionState["phase"][] = ["loading", "ready", "failed", "stopping"];
/** Bucket bounds in seconds; a response may take minutes. */
const SECONDS_BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** Counts answered requests and measures their durations, by one label. */
export class RequestMetrics {
  readonly #label: string;
  readonly #requests: prometheus.Counter;
  readonly #durations: prometheus.Histogram;

  /**
   * @param options.prefix prefix of the metrics' names.
   * @param options.label name of the label by which requests are counted.
   * @param options.note what else the durations include, appended to the help text.
   */
  constructor(registry: prometheus.Registry, { prefix, label, note = "" }: {
    readonly prefix: string;
    readonly label: string;
    readonly note?: string;
  }) {
    this.#label = label;
    this.#requests = new Counter({
      name: `${prefix}_requests_total`,
      help: "Requests answered; status 499 means that the client disconnected first",
      labelNames: [label, "method", "status"],
      registers: [registry],
    });
    this.#durations = new Histogram({
      name: `${prefix}_request_duration_seconds`,
      help: `Seconds from a request's arrival until its response was sent completely${note}`,
      labelNames: [label, "method"],
      buckets: SECONDS_BUCKETS,
      registers: [registry],
    });
  }

  observe(value: string, { method, status, seconds }: EndedRequest): void {
    this.#requests.inc({ [this.#label]: value, method, status });
    this.#durations.observe({ [this.#label]: value, method }, seconds);
  }
}

/** The server's own metrics, and access to the worker's. */
export class ServerMetrics {
  readonly #session: Session;
  #numInFlight = 0;
  #numLiveSessions = 0;
  readonly #metrics = new MetricSet();
  readonly #registry = this.#metrics.registry;
  readonly requests: RequestMetrics = new RequestMetrics(this.#registry, {
    prefix: "hearth_http",
    label: "route",
  });

  constructor(session: Session, connections: ConnectionFigures = newConnectionFigures()) {
    this.#session = session;
    const metrics = this.#metrics;
    metrics.gauge(
      "hearth_requests_in_flight",
      "Requests whose headers have arrived and whose response has not been sent completely",
      () => this.#numInFlight,
    );
    metrics.gauge(
      "hearth_live_sessions",
      "Open live transcription sessions",
      () => this.#numLiveSessions,
    );
    metrics.gauge(
      "process_resident_memory_bytes",
      "Resident memory of the process",
      () => Deno.memoryUsage().rss,
    );
    metrics.gauge(
      "hearth_queue_room",
      "Requests that would be admitted now",
      () => Math.max(0, session.capacity - session.numInFlight),
    );
    metrics.gauge(
      "hearth_requests_waiting",
      "Requests admitted and waiting for the model",
      () => session.numWaiting,
    );
    metrics.total(
      "hearth_worker_losses_total",
      "Workers lost since the start",
      () => session.numLosses,
    );
    metrics.total(
      "hearth_worker_hangs_total",
      "Workers lost since the start because they did not respond within --worker-timeout",
      () => session.numSilent,
    );
    metrics.gauge(
      "hearth_worker_silent_seconds",
      "Seconds since the worker last responded; 0 while it runs a step or loads",
      () => session.silentSeconds,
    );
    metrics.gauge("hearth_connections_open", "Open connections", () => connections.open);
    metrics.total(
      "hearth_connections_refused_total",
      "Connections refused, or closed while idle, because there were too many",
      () => connections.refused,
    );
    metrics.total(
      "hearth_accept_failures_total",
      "Connections that could not be accepted, usually for lack of a file descriptor",
      () => connections.failed,
    );
    metrics.total(
      "hearth_log_lines_dropped_total",
      "Log lines of the server's thread dropped because standard error was not read",
      () => stderrQueue.numDropped,
    );
    new Gauge({
      name: "hearth_phase",
      help: "1 for the session's current phase, 0 for the other phases",
      labelNames: ["phase"] as const,
      registers: [this.#registry],
      collect() {
        for (const phase of PHASES) this.set({ phase }, Number(phase === session.state.phase));
      },
    });
    new Gauge({
      name: "hearth_model_info",
      help: "Always 1; the labels say what is loaded, and runtime is the build of ONNX Runtime",
      labelNames: ["model", "kind", "dtype", "backend", "runtime"] as const,
      registers: [this.#registry],
      collect() {
        this.reset();
        if (session.state.phase !== "ready") return;
        const { id: model, kind, dtype, backend, runtime } = session.state.info;
        this.set({ model, kind, dtype, backend, runtime }, 1);
      },
    });
  }

  /** Counts a request until `completed` resolves. */
  begin(completed: Promise<void>): void {
    this.#numInFlight++;
    completed.then(() => this.#numInFlight--);
  }

  /** Counts a live session until `completed` resolves. */
  beginLiveSession(completed: Promise<void>): void {
    this.#numLiveSessions++;
    completed.then(() => this.#numLiveSessions--);
  }

  /** Writes all metrics in Prometheus' text format. */
  async scrape(): Promise<string> {
    const [own, workers] = await Promise.all([
      this.#registry.getMetricsAsJSON(),
      this.#session.metrics(),
    ]);
    return await AggregatorRegistry.aggregate([own, workers]).metrics();
  }
}

/** The endpoint that Prometheus scrapes. */
export function metricsRoute(
  metrics: Pick<ServerMetrics, "scrape">,
  summary = "Metrics for Prometheus",
): Route {
  const contentType = Registry.PROMETHEUS_CONTENT_TYPE;
  return {
    method: "GET",
    path: "/metrics",
    operation: {
      summary,
      response: { description: "The metrics", content: { "text/plain": z.string() } },
      errors: [],
    },
    handle: async (call) => call.body(await metrics.scrape(), 200, { "content-type": contentType }),
  };
}
