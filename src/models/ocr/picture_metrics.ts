/**
 * What a model that reads pictures tells Prometheus.
 *
 * @module
 */
import type { Counter, Histogram, Registry } from "prom-client";
import { COUNT_BUCKETS, MetricSet } from "../../metric_set.ts";

/** Counters and histograms of one model. */
export class PictureMetrics {
  readonly registry: Registry;
  readonly #pictures: Counter;
  readonly #promptTokens: Counter;
  readonly #completionTokens: Counter;
  readonly #firstTokenSeconds: Histogram;
  readonly #encoderSeconds: Histogram;
  readonly #stepSeconds: Histogram;
  readonly #stepSequences: Histogram;
  readonly #answerSeconds: Histogram;

  /** @param requests how many are worked on, and how many wait. */
  constructor(requests: () => { running: number; waiting: number }) {
    const metrics = new MetricSet();
    this.registry = metrics.registry;
    this.#pictures = metrics.counter("hearth_pictures_total", "Pictures that were encoded.");
    this.#promptTokens = metrics.counter(
      "hearth_prompt_tokens_total",
      "Places of encoded pictures, and tokens of prompts.",
    );
    this.#completionTokens = metrics.counter(
      "hearth_completion_tokens_total",
      "Tokens generated.",
    );
    this.#firstTokenSeconds = metrics.histogram(
      "hearth_time_to_first_token_seconds",
      "From a request's arrival to its first token.",
    );
    this.#encoderSeconds = metrics.histogram(
      "hearth_encoder_seconds",
      "Duration of the encoder, for pictures encoded together.",
    );
    this.#stepSeconds = metrics.histogram("hearth_step_seconds", "Duration of a decoding step.");
    this.#stepSequences = metrics.histogram(
      "hearth_step_sequences",
      "Sequences in a decoding step.",
      COUNT_BUCKETS,
    );
    this.#answerSeconds = metrics.histogram(
      "hearth_picture_seconds",
      "From a request's arrival to the end of its answer.",
    );
    metrics.gauge("hearth_sequences_running", "Requests worked on.", () => requests().running);
    metrics.gauge("hearth_sequences_waiting", "Requests that wait.", () => requests().waiting);
  }

  /** Takes note of pictures that were encoded together. */
  observeEncoding(numPictures: number, durationMs: number): void {
    this.#pictures.inc(numPictures);
    this.#encoderSeconds.observe(durationMs / 1000);
  }

  /** Takes note of a prompt, its picture's places included. */
  observePrompt(numTokens: number): void {
    this.#promptTokens.inc(numTokens);
  }

  /** Takes note of a step of so many choices. */
  observeStep(numRows: number, durationMs: number): void {
    this.#stepSequences.observe(numRows);
    this.#stepSeconds.observe(durationMs / 1000);
  }

  /** Takes note of a token that was chosen. @param sinceArrivalMs where it is the request's first. */
  observeToken(sinceArrivalMs: number | undefined): void {
    this.#completionTokens.inc();
    if (sinceArrivalMs !== undefined) this.#firstTokenSeconds.observe(sinceArrivalMs / 1000);
  }

  /** Takes note of a request that was answered. */
  observeAnswer(durationMs: number): void {
    this.#answerSeconds.observe(durationMs / 1000);
  }
}
