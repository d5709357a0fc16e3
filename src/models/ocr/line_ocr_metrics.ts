/**
 * A line OCR model's Prometheus metrics.
 *
 * @module
 */
import type { Counter, Histogram, Registry } from "prom-client";
import { MetricSet } from "../../metric_set.ts";

/** Counters and a histogram of one model. */
export class LineOcrMetrics {
  readonly registry: Registry;
  readonly #images: Counter;
  readonly #lines: Counter;
  readonly #imageSeconds: Histogram;

  /** @param requests how many run, and how many wait. */
  constructor(requests: () => { running: number; waiting: number }) {
    const metrics = new MetricSet();
    this.registry = metrics.registry;
    this.#images = metrics.counter("hearth_images_total", "Images that were read.");
    this.#lines = metrics.counter("hearth_lines_total", "Lines of text read in them.");
    this.#imageSeconds = metrics.histogram(
      "hearth_image_seconds",
      "From the beginning of work on an image to the end of its answer.",
    );
    metrics.gauge("hearth_sequences_running", "Images worked on.", () => requests().running);
    metrics.gauge("hearth_sequences_waiting", "Images that wait.", () => requests().waiting);
  }

  /** Records an image that was read. */
  observe({ numLines, durationMs }: { numLines: number; durationMs: number }): void {
    this.#images.inc();
    this.#lines.inc(numLines);
    this.#imageSeconds.observe(durationMs / 1000);
  }
}
