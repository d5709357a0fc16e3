/**
 * An image-to-text model's Prometheus metrics.
 *
 * @module
 */
import type { EngineMetrics } from "../../engine/metrics.ts";
import { RequestMetrics } from "../../metric_set.ts";

/** Counters and histograms of one model. */
export class ImageMetrics extends RequestMetrics {
  readonly #images = this.counter("hearth_images_total", "Images that were encoded.");
  readonly #promptTokens = this.counter(
    "hearth_prompt_tokens_total",
    "Positions of encoded images, and tokens of prompts.",
  );
  readonly #firstTokenSeconds = this.histogram(
    "hearth_time_to_first_token_seconds",
    "From a request's arrival to its first token.",
  );
  readonly #encoderSeconds = this.histogram(
    "hearth_encoder_seconds",
    "Duration of the encoder, for images encoded together.",
  );
  readonly #answerSeconds = this.histogram(
    "hearth_image_seconds",
    "From a request's arrival to the end of its answer.",
  );

  constructor() {
    super("Requests");
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
  adoptEngine({ registry }: EngineMetrics): void {
    this.adopt(registry, ["hearth_prompt_tokens_total", "hearth_time_to_first_token_seconds"]);
  }

  /** Records a request that was answered. */
  observeAnswer(durationMs: number): void {
    this.#answerSeconds.observe(durationMs / 1000);
  }
}
