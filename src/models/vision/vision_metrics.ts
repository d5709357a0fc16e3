/**
 * What a vision model tells Prometheus beside its engine.
 *
 * @module
 */
import type { Counter, Histogram, Registry } from "prom-client";
import { MetricSet } from "../../metric_set.ts";

/** Counters of pictures. */
export class VisionMetrics {
  readonly registry: Registry;
  readonly pictures: Counter;
  readonly encoderRuns: Counter;
  readonly prepareSeconds: Histogram;

  /** @param featureBytes how much memory encoded pictures take. */
  constructor(featureBytes: () => number) {
    const metrics = new MetricSet();
    this.registry = metrics.registry;
    this.pictures = metrics.counter("hearth_pictures_total", "Pictures in requests.");
    this.encoderRuns = metrics.counter(
      "hearth_vision_encoder_runs_total",
      "Pictures encoded: those whose tokens were not in the prefix cache, nor their rows at hand.",
    );
    this.prepareSeconds = metrics.histogram(
      "hearth_picture_prepare_seconds",
      "Reading, resizing and normalising a picture, the wait for its turn included.",
    );
    metrics.gauge(
      "hearth_encoded_picture_bytes",
      "Memory that encoded pictures take.",
      featureBytes,
    );
  }
}
