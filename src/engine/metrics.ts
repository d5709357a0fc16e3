/**
 * What the engine tells Prometheus.
 *
 * @module
 */
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { ScheduledStep, SchedulerStats } from "./scheduler.ts";

const LATENCY_BUCKETS = [
  0.001,
  0.0025,
  0.005,
  0.01,
  0.025,
  0.05,
  0.1,
  0.25,
  0.5,
  1,
  2.5,
  5,
  10,
  30,
  60,
];

/** Counters and histograms of one engine, in a registry of its own: they cross to the server as JSON. */
export class EngineMetrics {
  readonly registry = new Registry();
  readonly promptTokens: Counter;
  readonly completionTokens: Counter;
  readonly queueSeconds: Histogram;
  readonly firstTokenSeconds: Histogram;
  readonly interTokenSeconds: Histogram;
  readonly #stepSeconds: Histogram;
  readonly #stepSequences: Histogram;

  constructor(stats: () => SchedulerStats) {
    const registers = [this.registry];
    const counter = (name: string, help: string) => new Counter({ name, help, registers });
    const histogram = (name: string, help: string, buckets = LATENCY_BUCKETS) =>
      new Histogram({ name, help, buckets, registers });
    this.promptTokens = counter("hearth_prompt_tokens_total", "Prompt tokens taken in.");
    this.completionTokens = counter("hearth_completion_tokens_total", "Tokens generated.");
    this.queueSeconds = histogram(
      "hearth_queue_seconds",
      "From a request's arrival to its first step.",
    );
    this.firstTokenSeconds = histogram(
      "hearth_time_to_first_token_seconds",
      "From a request's arrival to its first token.",
    );
    this.interTokenSeconds = histogram(
      "hearth_inter_token_seconds",
      "Between two tokens of one sequence.",
    );
    this.#stepSeconds = histogram("hearth_step_seconds", "Duration of a decoder step.");
    this.#stepSequences = histogram(
      "hearth_step_sequences",
      "Sequences in a decoder step.",
      [1, 2, 4, 8, 16, 32, 64, 128, 256],
    );
    const gauge = (name: string, help: string, read: (stats: SchedulerStats) => number) => {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read(stats()));
        },
      });
    };
    gauge("hearth_sequences_running", "Sequences that hold KV blocks.", (s) => s.numRunning);
    gauge("hearth_sequences_waiting", "Sequences in the queue.", (s) => s.numWaiting);
    gauge("hearth_kv_blocks_used", "KV blocks that sequences hold.", (s) => s.numUsedBlocks);
    gauge(
      "hearth_kv_blocks_cached",
      "KV blocks nobody holds that keep a known prefix.",
      (s) => s.numCachedBlocks,
    );
    gauge("hearth_kv_blocks_free", "KV blocks that hold nothing.", (s) => s.numFreeBlocks);

    const total = (name: string, help: string, read: (stats: SchedulerStats) => number) => {
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset();
          this.inc(read(stats()));
        },
      });
    };
    total(
      "hearth_prefix_query_tokens_total",
      "Prompt tokens looked up in the prefix cache.",
      (s) => s.numPrefixQueryTokens,
    );
    total(
      "hearth_prefix_hit_tokens_total",
      "Prompt tokens found there and not computed again.",
      (s) => s.numPrefixHitTokens,
    );
    total(
      "hearth_preemptions_total",
      "Times a sequence gave its KV blocks to an older one.",
      (s) => s.numPreemptions,
    );
  }

  /** Takes note of a step that has run. */
  observeStep(step: ScheduledStep, durationMs: number): void {
    this.#stepSeconds.observe(durationMs / 1000);
    this.#stepSequences.observe(step.scheduled.length);
  }
}
