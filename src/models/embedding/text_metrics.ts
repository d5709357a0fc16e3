/**
 * The Prometheus metrics of embedding models and rerankers.
 *
 * @module
 */
import { COUNT_BUCKETS, MetricSet } from "../../metric_set.ts";

/** A batch that has run. */
export interface BatchObservation {
  readonly numTexts: number;
  /** Without padding. */
  readonly numTokens: number;
  /** Padding included. */
  readonly numPositions: number;
  readonly durationMs: number;
}

/** Counters and histograms of one batcher. */
export class TextMetrics extends MetricSet {
  readonly #promptTokens = this.counter(
    "hearth_prompt_tokens_total",
    "Tokens of requests that were answered.",
  );
  readonly #computedTokens = this.counter(
    "hearth_batch_tokens_total",
    "Tokens that batches held, padding aside.",
  );
  readonly #paddingTokens = this.counter(
    "hearth_batch_padding_tokens_total",
    "Positions of batches that held no token.",
  );
  readonly #jobSeconds = this.histogram(
    "hearth_texts_seconds",
    "From a request's arrival to its answer.",
  );
  readonly #batchSeconds = this.histogram("hearth_batch_seconds", "Duration of a batch.");
  readonly #batchTexts = this.histogram(
    "hearth_batch_texts",
    "Texts in a batch.",
    COUNT_BUCKETS,
  );

  /** @param now the current queue. */
  constructor(now: () => { numTexts: number; numTokens: number }) {
    super();
    this.gauge(
      "hearth_texts_waiting",
      "Texts encoded and not yet run.",
      () => now().numTexts,
    );
    this.gauge("hearth_text_tokens_waiting", "Their tokens.", () => now().numTokens);
  }

  /** Records a batch that has run. */
  observeBatch({ numTexts, numTokens, numPositions, durationMs }: BatchObservation): void {
    this.#computedTokens.inc(numTokens);
    this.#paddingTokens.inc(numPositions - numTokens);
    this.#batchSeconds.observe(durationMs / 1000);
    this.#batchTexts.observe(numTexts);
  }

  /** Records a request that was answered. */
  observeJob(numTokens: number, durationMs: number): void {
    this.#promptTokens.inc(numTokens);
    this.#jobSeconds.observe(durationMs / 1000);
  }
}
