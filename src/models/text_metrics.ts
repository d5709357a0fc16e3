/**
 * What a model of texts tells Prometheus.
 *
 * @module
 */
import { Counter, Gauge, Histogram, Registry } from "prom-client";

const SECONDS_BUCKETS = [
  0.001,
  0.0025,
  0.005,
  0.01,
  0.025,
  0.05,
  0.1,
  0.25,
  0.5,
  1,
  2.5,
  5,
  10,
  30,
  60,
];

/** A batch that has run. */
export interface BatchObservation {
  readonly numTexts: number;
  /** Padding aside. */
  readonly numTokens: number;
  /** Padding included. */
  readonly numPlaces: number;
  readonly durationMs: number;
}

/** Counters and histograms of one batcher, in a registry of its own: they cross to the server as JSON. */
export class TextMetrics {
  readonly registry = new Registry();
  readonly #promptTokens: Counter;
  readonly #computedTokens: Counter;
  readonly #paddingTokens: Counter;
  readonly #jobSeconds: Histogram;
  readonly #batchSeconds: Histogram;
  readonly #batchTexts: Histogram;

  /** @param waiting what waits to be run. */
  constructor(waiting: () => { numTexts: number; numTokens: number }) {
    const registers = [this.registry];
    const counter = (name: string, help: string) => new Counter({ name, help, registers });
    const histogram = (name: string, help: string, buckets = SECONDS_BUCKETS) =>
      new Histogram({ name, help, buckets, registers });
    const gauge = (name: string, help: string, read: () => number) => {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    };
    this.#promptTokens = counter(
      "hearth_prompt_tokens_total",
      "Tokens of requests that were answered.",
    );
    this.#computedTokens = counter(
      "hearth_batch_tokens_total",
      "Tokens that batches held, padding aside.",
    );
    this.#paddingTokens = counter(
      "hearth_batch_padding_tokens_total",
      "Places of batches that held no token.",
    );
    this.#jobSeconds = histogram(
      "hearth_texts_seconds",
      "From a request's arrival to its answer.",
    );
    this.#batchSeconds = histogram("hearth_batch_seconds", "Duration of a batch.");
    this.#batchTexts = histogram(
      "hearth_batch_texts",
      "Texts in a batch.",
      [1, 2, 4, 8, 16, 32, 64, 128, 256],
    );
    gauge("hearth_texts_waiting", "Texts encoded and not yet run.", () => waiting().numTexts);
    gauge("hearth_text_tokens_waiting", "Their tokens.", () => waiting().numTokens);
  }

  /** Takes note of a batch that has run. */
  observeBatch({ numTexts, numTokens, numPlaces, durationMs }: BatchObservation): void {
    this.#computedTokens.inc(numTokens);
    this.#paddingTokens.inc(numPlaces - numTokens);
    this.#batchSeconds.observe(durationMs / 1000);
    this.#batchTexts.observe(numTexts);
  }

  /** Takes note of a request that was answered. */
  observeJob(numTokens: number, durationMs: number): void {
    this.#promptTokens.inc(numTokens);
    this.#jobSeconds.observe(durationMs / 1000);
  }
}
