/**
 * An image-to-text model's Prometheus metrics.
 *
 * @module
 */
import type { Counter, Histogram, Registry } from "prom-client";
import type { EngineMetrics } from "../../engine/metrics.ts";
import { adoptMetrics, MetricSet } from "../../metric_set.ts";

/** Counters and histograms of one model. */
export class ImageMetrics {
  readonly registry: Registry;
  readonly #images: Counter;
  readonly #promptTokens: Counter;
  readonly #firstTokenSeconds: Histogram;
  readonly #encoderSeconds: Histogram;
  readonly #answerSeconds: Histogram;

  /** How many requests run, and how many wait. */
  requests = (): { running: number; waiting: number } => ({ running: 0, waiting: 0 });

  constructor() {
    const metrics = new MetricSet();
    this.registry = metrics.registry;
    this.#images = metrics.counter("hearth_images_total", "Images that were encoded.");
    this.#promptTokens = metrics.counter(
      "hearth_prompt_tokens_total",
      "Places of encoded images, and tokens of prompts.",
    );
    this.#firstTokenSeconds = metrics.histogram(
      "hearth_time_to_first_token_seconds",
      "From a request's arrival to its first token.",
    );
    this.#encoderSeconds = metrics.histogram(
      "hearth_encoder_seconds",
      "Duration of the encoder, for images encoded together.",
    );
    this.#answerSeconds = metrics.histogram(
      "hearth_image_seconds",
      "From a request's arrival to the end of its answer.",
    );
    metrics.gauge("hearth_sequences_running", "Requests worked on.", () => this.requests().running);
    metrics.gauge("hearth_sequences_waiting", "Requests that wait.", () => this.requests().waiting);
  }

  /** Records images that were encoded together. */
  observeEncoding(numImages: number, durationMs: number): void {
    this.#images.inc(numImages);
    this.#encoderSeconds.observe(durationMs / 1000);
  }

  /** Records a prompt, including its image's positions. */
  observePrompt(numTokens: number): void {
    this.#promptTokens.inc(numTokens);
  }

  /** Records a request's first token. */
  observeFirstToken(sinceArrivalMs: number): void {
    this.#firstTokenSeconds.observe(sinceArrivalMs / 1000);
  }

  /** Adds an engine's metrics of tokens and steps; requests begin earlier, with their image. */
  adopt({ registry }: EngineMetrics): void {
    adoptMetrics(this.registry, registry, [
      "hearth_prompt_tokens_total",
      "hearth_sequences_running",
      "hearth_sequences_waiting",
      "hearth_time_to_first_token_seconds",
    ]);
  }

  /** Records a request that was answered. */
  observeAnswer(durationMs: number): void {
    this.#answerSeconds.observe(durationMs / 1000);
  }
}
