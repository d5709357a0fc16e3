/**
 * A background-removal model's Prometheus metrics.
 *
 * @module
 */
import type { Counter, Histogram, Registry } from "prom-client";
import { COUNT_BUCKETS, MetricSet } from "../../metric_set.ts";

/** Counters and histograms of one model. */
export class MattingMetrics {
  readonly registry: Registry;
  readonly #images: Counter;
  readonly #pixels: Counter;
  readonly #imageSeconds: Histogram;
  readonly #batchSeconds: Histogram;
  readonly #batchImages: Histogram;

  /** @param requests how many run, and how many wait. */
  constructor(requests: () => { running: number; waiting: number }) {
    const metrics = new MetricSet();
    this.registry = metrics.registry;
    this.#images = metrics.counter("hearth_images_total", "Images that were cut out.");
    this.#pixels = metrics.counter("hearth_image_pixels_total", "Their pixels.");
    this.#imageSeconds = metrics.histogram(
      "hearth_image_seconds",
      "From the beginning of work on an image to its PNG file.",
    );
    this.#batchSeconds = metrics.histogram(
      "hearth_batch_seconds",
      "Duration of a run of the graph, resizing before and after it included.",
    );
    this.#batchImages = metrics.histogram(
      "hearth_batch_images",
      "Images in a run of the graph.",
      COUNT_BUCKETS,
    );
    metrics.gauge("hearth_sequences_running", "Images worked on.", () => requests().running);
    metrics.gauge("hearth_sequences_waiting", "Images that wait.", () => requests().waiting);
  }

  /** Records a run. */
  observeBatch(numImages: number, durationMs: number): void {
    this.#batchImages.observe(numImages);
    this.#batchSeconds.observe(durationMs / 1000);
  }

  /** Records an image that was cut out. */
  observeImage(numPixels: number, durationMs: number): void {
    this.#images.inc();
    this.#pixels.inc(numPixels);
    this.#imageSeconds.observe(durationMs / 1000);
  }
}
