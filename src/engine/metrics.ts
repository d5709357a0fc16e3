/**
 * The engine's Prometheus metrics.
 *
 * @module
 */
import type { Counter, Histogram, Registry } from "prom-client";
import { COUNT_BUCKETS, MetricSet } from "../base/metric_set.ts";
import type { SchedulerStats } from "./scheduler.ts";
import type { ScheduledStep } from "./step.ts";

/** Counters and histograms of one engine. */
export class EngineMetrics {
  readonly registry: Registry;
  readonly promptTokens: Counter;
  readonly completionTokens: Counter;
  readonly queueSeconds: Histogram;
  readonly firstTokenSeconds: Histogram;
  readonly interTokenSeconds: Histogram;
  readonly #stepSeconds: Histogram;
  readonly #stepSequences: Histogram;

  /** @param mostBlocks that the pool may grow to. */
  constructor(stats: () => SchedulerStats, mostBlocks: number) {
    const metrics = new MetricSet();
    this.registry = metrics.registry;
    this.promptTokens = metrics.counter("hearth_prompt_tokens_total", "Prompt tokens taken in.");
    this.completionTokens = metrics.counter("hearth_completion_tokens_total", "Tokens generated.");
    this.queueSeconds = metrics.histogram(
      "hearth_queue_seconds",
      "From a request's arrival to its first step.",
    );
    this.firstTokenSeconds = metrics.histogram(
      "hearth_time_to_first_token_seconds",
      "From a request's arrival to its first token.",
    );
    this.interTokenSeconds = metrics.histogram(
      "hearth_inter_token_seconds",
      "Between two tokens of one sequence.",
    );
    this.#stepSeconds = metrics.histogram("hearth_step_seconds", "Duration of a decoder step.");
    this.#stepSequences = metrics.histogram(
      "hearth_step_sequences",
      "Sequences in a decoder step.",
      COUNT_BUCKETS,
    );
    const gauge = (name: string, help: string, read: (stats: SchedulerStats) => number) =>
      metrics.gauge(name, help, () => read(stats()));
    gauge("hearth_sequences_running", "Sequences that hold KV blocks.", (s) => s.numRunning);
    gauge("hearth_sequences_waiting", "Sequences in the queue.", (s) => s.numWaiting);
    gauge("hearth_kv_blocks_used", "KV blocks that sequences hold.", (s) => s.numUsedBlocks);
    gauge(
      "hearth_kv_blocks_cached",
      "KV blocks nobody holds that keep a known prefix.",
      (s) => s.numCachedBlocks,
    );
    gauge("hearth_kv_blocks_free", "KV blocks that hold nothing.", (s) => s.numFreeBlocks);
    gauge(
      "hearth_kv_usage_ratio",
      "Share of the KV blocks that the pool may grow to that sequences hold, from 0 to 1.",
      (s) => s.numUsedBlocks / mostBlocks,
    );
    gauge(
      "hearth_kv_window_blocks_used",
      "KV blocks of layers with a window that sequences hold.",
      ({ windows }) => windows.reduce((sum, { numUsedBlocks }) => sum + numUsedBlocks, 0),
    );
    gauge(
      "hearth_kv_window_blocks_cached",
      "KV blocks of layers with a window that nobody holds and that keep a known prefix.",
      ({ windows }) => windows.reduce((sum, { numCachedBlocks }) => sum + numCachedBlocks, 0),
    );
    gauge(
      "hearth_kv_window_blocks_free",
      "KV blocks of layers with a window that hold nothing.",
      ({ windows }) => windows.reduce((sum, { numFreeBlocks }) => sum + numFreeBlocks, 0),
    );

    const total = (name: string, help: string, read: (stats: SchedulerStats) => number) =>
      metrics.total(name, help, () => read(stats()));
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
      "hearth_prefix_evicted_blocks_total",
      "KV blocks of known prefixes that were reused for other tokens.",
      (s) => s.numEvictedBlocks,
    );
    total(
      "hearth_preemptions_total",
      "Times a sequence gave its KV blocks to an older one.",
      (s) => s.numPreemptions,
    );
  }

  /** Records a step that has run. */
  observeStep(step: ScheduledStep, durationMs: number): void {
    this.#stepSeconds.observe(durationMs / 1000);
    this.#stepSequences.observe(step.scheduled.length);
  }
}
