/**
 * A speech model's Prometheus metrics.
 *
 * @module
 */
import type { Counter, Histogram, Registry } from "prom-client";
import type { EngineMetrics } from "../../engine/metrics.ts";
import { adoptMetrics, MetricSet } from "../../metric_set.ts";

const RECORDING_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

/** Counters and histograms of one model. */
export class SpeechMetrics {
  readonly registry: Registry;
  readonly #audioSeconds: Counter;
  readonly #tokens: Counter;
  readonly #windows: Counter;
  readonly #encoderSeconds: Histogram;
  readonly #stepSeconds: Histogram;
  readonly #recordingSeconds: Histogram;

  /** @param requests how many run, and how many wait. */
  constructor(requests: () => { running: number; waiting: number }) {
    const metrics = new MetricSet();
    this.registry = metrics.registry;
    this.#audioSeconds = metrics.counter(
      "hearth_audio_seconds_total",
      "Seconds of sound transcribed.",
    );
    this.#tokens = metrics.counter("hearth_completion_tokens_total", "Tokens that were chosen.");
    this.#windows = metrics.counter("hearth_windows_total", "Windows of sound that were encoded.");
    this.#encoderSeconds = metrics.histogram(
      "hearth_encoder_seconds",
      "Duration of features and encoder, for windows encoded together.",
    );
    this.#stepSeconds = metrics.histogram(
      "hearth_step_seconds",
      "Duration of a decoding step.",
    );
    this.#recordingSeconds = metrics.histogram(
      "hearth_transcription_seconds",
      "From the beginning of work on a recording to its transcript.",
      RECORDING_BUCKETS,
    );
    metrics.gauge("hearth_sequences_running", "Recordings worked on.", () => requests().running);
    metrics.gauge("hearth_sequences_waiting", "Recordings that wait.", () => requests().waiting);
  }

  /** Adds an engine's metrics of tokens and steps; its requests are recordings here. */
  adopt({ registry }: EngineMetrics): void {
    adoptMetrics(this.registry, registry, ["hearth_sequences_running", "hearth_sequences_waiting"]);
  }

  /** Records windows that were encoded together. */
  observeEncoding(numWindows: number, durationMs: number): void {
    this.#windows.inc(numWindows);
    this.#encoderSeconds.observe(durationMs / 1000);
  }

  /** Records a step that sampled a token for each of `numRows` windows. */
  observeStep(numRows: number, durationMs: number): void {
    this.#tokens.inc(numRows);
    this.#stepSeconds.observe(durationMs / 1000);
  }

  /** Records a transcribed recording. */
  observeRecording(audioSeconds: number, durationMs: number): void {
    this.#audioSeconds.inc(audioSeconds);
    this.#recordingSeconds.observe(durationMs / 1000);
  }
}
