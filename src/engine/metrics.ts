/**
 * The engine's Prometheus metrics.
 *
 * @module
 */
import { COUNT_BUCKETS, MetricSet } from "../base/metric_set.ts";
import type { SchedulerStats } from "./scheduler.ts";
import type { ScheduledStep } from "./step.ts";

/** Counters and histograms of one engine. */
export class EngineMetrics extends MetricSet {
  readonly promptTokens = this.counter("hearth_prompt_tokens_total", "Prompt tokens received.");
  readonly completionTokens = this.counter(
    "hearth_completion_tokens_total",
    "Tokens generated.",
  );
  readonly queueSeconds = this.histogram(
    "hearth_queue_seconds",
    "Seconds from a request's arrival to its first step.",
  );
  readonly firstTokenSeconds = this.histogram(
    "hearth_time_to_first_token_seconds",
    "Seconds from a request's arrival to its first token.",
  );
  readonly interTokenSeconds = this.histogram(
    "hearth_inter_token_seconds",
    "Seconds between two tokens of one sequence.",
  );
  readonly #stepSeconds = this.histogram("hearth_step_seconds", "Duration of a decoder step.");
  readonly #stepSequences = this.histogram(
    "hearth_step_sequences",
    "Sequences in a decoder step.",
    COUNT_BUCKETS,
  );

  /** @param mostBlocks blocks that the main pool may grow to. */
  constructor(stats: () => SchedulerStats, mostBlocks: number) {
    super();
    const gauge = (name: string, help: string, read: (stats: SchedulerStats) => number) =>
      this.gauge(name, help, () => read(stats()));
    gauge("hearth_sequences_running", "Sequences that hold KV blocks.", (s) => s.numRunning);
    gauge("hearth_sequences_waiting", "Sequences in the queue.", (s) => s.numWaiting);
    gauge("hearth_kv_blocks_used", "KV blocks that sequences hold.", (s) => s.numUsedBlocks);
    gauge(
      "hearth_kv_blocks_cached",
      "KV blocks that no sequence holds and that cache a prefix.",
      (s) => s.numCachedBlocks,
    );
    gauge("hearth_kv_blocks_free", "KV blocks that are empty.", (s) => s.numFreeBlocks);
    gauge(
      "hearth_kv_usage_ratio",
      "KV blocks that sequences hold, as a fraction (0 to 1) of the pool's largest size.",
      (s) => s.numUsedBlocks / mostBlocks,
    );
    gauge(
      "hearth_kv_window_blocks_used",
      "KV blocks of sliding-window layers that sequences hold.",
      ({ windows }) => windows.reduce((sum, { numUsedBlocks }) => sum + numUsedBlocks, 0),
    );
    gauge(
      "hearth_kv_window_blocks_cached",
      "KV blocks of sliding-window layers that no sequence holds and that cache a prefix.",
      ({ windows }) => windows.reduce((sum, { numCachedBlocks }) => sum + numCachedBlocks, 0),
    );
    gauge(
      "hearth_kv_window_blocks_free",
      "KV blocks of sliding-window layers that are empty.",
      ({ windows }) => windows.reduce((sum, { numFreeBlocks }) => sum + numFreeBlocks, 0),
    );

    const total = (name: string, help: string, read: (stats: SchedulerStats) => number) =>
      this.total(name, help, () => read(stats()));
    total(
      "hearth_prefix_query_tokens_total",
      "Prompt tokens looked up in the prefix cache.",
      (s) => s.numPrefixQueryTokens,
    );
    total(
      "hearth_prefix_hit_tokens_total",
      "Prompt tokens found in the prefix cache, which are not computed again.",
      (s) => s.numPrefixHitTokens,
    );
    total(
      "hearth_prefix_evicted_blocks_total",
      "KV blocks of cached prefixes that were reused for other tokens.",
      (s) => s.numEvictedBlocks,
    );
    total(
      "hearth_preemptions_total",
      "Times a sequence lost its KV blocks to an older one.",
      (s) => s.numPreemptions,
    );
  }

  /** Records a step that has run. */
  observeStep(step: ScheduledStep, durationMs: number): void {
    this.#stepSeconds.observe(durationMs / 1000);
    this.#stepSequences.observe(step.scheduled.length);
  }
}
