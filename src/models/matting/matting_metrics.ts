/**
 * A background-removal model's Prometheus metrics.
 *
 * @module
 */
import { COUNT_BUCKETS, RequestMetrics } from "../../metric_set.ts";

/** Counters and histograms of one model. */
export class MattingMetrics extends RequestMetrics {
  readonly #images = this.counter("hearth_images_total", "Images that were cut out.");
  readonly #pixels = this.counter("hearth_image_pixels_total", "Their pixels.");
  readonly #imageSeconds = this.histogram(
    "hearth_image_seconds",
    "From the beginning of work on an image to its PNG file.",
  );
  readonly #batchSeconds = this.histogram(
    "hearth_batch_seconds",
    "Duration of a run of the graph, resizing before and after it included.",
  );
  readonly #batchImages = this.histogram(
    "hearth_batch_images",
    "Images in a run of the graph.",
    COUNT_BUCKETS,
  );

  constructor() {
    super("Images");
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
