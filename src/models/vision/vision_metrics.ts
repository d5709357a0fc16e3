/**
 * A vision model's Prometheus metrics besides its engine's.
 *
 * @module
 */
import type { Counter, Histogram, Registry } from "prom-client";
import { MetricSet } from "../../metric_set.ts";

/** Counters of images. */
export class VisionMetrics {
  readonly registry: Registry;
  readonly images: Counter;
  readonly encoderRuns: Counter;
  readonly prepareSeconds: Histogram;

  /** @param featureBytes memory of encoded images. */
  constructor(featureBytes: () => number) {
    const metrics = new MetricSet();
    this.registry = metrics.registry;
    this.images = metrics.counter("hearth_images_total", "Images in requests.");
    this.encoderRuns = metrics.counter(
      "hearth_vision_encoder_runs_total",
      "Images encoded: those whose tokens were not in the prefix cache, nor their rows at hand.",
    );
    this.prepareSeconds = metrics.histogram(
      "hearth_image_prepare_seconds",
      "Reading, resizing and normalising an image, the wait for its turn included.",
    );
    metrics.gauge(
      "hearth_encoded_image_bytes",
      "Memory that encoded images take.",
      featureBytes,
    );
  }
}
