/**
 * What a model that reads pictures line by line tells Prometheus.
 *
 * @module
 */
import type { Counter, Histogram, Registry } from "prom-client";
import { MetricSet } from "../../metric_set.ts";

/** Counters and a histogram of one model. */
export class LineOcrMetrics {
  readonly registry: Registry;
  readonly #pictures: Counter;
  readonly #lines: Counter;
  readonly #pictureSeconds: Histogram;

  /** @param requests how many are worked on, and how many wait. */
  constructor(requests: () => { running: number; waiting: number }) {
    const metrics = new MetricSet();
    this.registry = metrics.registry;
    this.#pictures = metrics.counter("hearth_pictures_total", "Pictures that were read.");
    this.#lines = metrics.counter("hearth_lines_total", "Lines of text read in them.");
    this.#pictureSeconds = metrics.histogram(
      "hearth_picture_seconds",
      "From the beginning of work on a picture to the end of its answer.",
    );
    metrics.gauge("hearth_sequences_running", "Pictures worked on.", () => requests().running);
    metrics.gauge("hearth_sequences_waiting", "Pictures that wait.", () => requests().waiting);
  }

  /** Takes note of a picture that was read. */
  observe({ numLines, durationMs }: { numLines: number; durationMs: number }): void {
    this.#pictures.inc();
    this.#lines.inc(numLines);
    this.#pictureSeconds.observe(durationMs / 1000);
  }
}
