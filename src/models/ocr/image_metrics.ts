/**
 * An image-to-text model's Prometheus metrics.
 *
 * @module
 */
import type { EngineMetrics } from "../../engine/metrics.ts";
import { RequestMetrics } from "../../metric_set.ts";

export class ImageMetrics extends RequestMetrics {
  readonly images = this.counter("hearth_images_total", "Images that were encoded.");
  readonly promptTokens = this.counter(
    "hearth_prompt_tokens_total",
    "Positions of encoded images, and tokens of prompts.",
  );
  readonly firstTokenSeconds = this.histogram(
    "hearth_time_to_first_token_seconds",
    "From a request's arrival to its first token.",
  );
  readonly encoderSeconds = this.histogram(
    "hearth_encoder_seconds",
    "Duration of the encoder, for images encoded together.",
  );
  readonly answerSeconds = this.histogram(
    "hearth_image_seconds",
    "From a request's arrival to the end of its answer.",
  );

  constructor() {
    super("Requests");
  }

  /** Adds an engine's metrics of tokens and steps; requests begin earlier, with their image. */
  adoptEngine({ registry }: EngineMetrics): void {
    this.adopt(registry, ["hearth_prompt_tokens_total", "hearth_time_to_first_token_seconds"]);
  }
}
