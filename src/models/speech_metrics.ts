/**
 * What a speech model tells Prometheus.
 *
 * @module
 */
import { Counter, Gauge, Histogram, Registry } from "prom-client";

const SECONDS_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const RECORDING_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

/** Counters and histograms of one model, in a registry of its own: they cross to the server as JSON. */
export class SpeechMetrics {
  readonly registry = new Registry();
  readonly #audioSeconds: Counter;
  readonly #tokens: Counter;
  readonly #windows: Counter;
  readonly #encoderSeconds: Histogram;
  readonly #stepSeconds: Histogram;
  readonly #recordingSeconds: Histogram;

  /** @param requests how many are worked on, and how many wait. */
  constructor(requests: () => { running: number; waiting: number }) {
    const registers = [this.registry];
    const counter = (name: string, help: string) => new Counter({ name, help, registers });
    const histogram = (name: string, help: string, buckets: number[]) =>
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
    this.#audioSeconds = counter("hearth_audio_seconds_total", "Seconds of sound transcribed.");
    this.#tokens = counter("hearth_completion_tokens_total", "Tokens that were chosen.");
    this.#windows = counter("hearth_windows_total", "Windows of sound that were encoded.");
    this.#encoderSeconds = histogram(
      "hearth_encoder_seconds",
      "Duration of features and encoder, for windows encoded together.",
      SECONDS_BUCKETS,
    );
    this.#stepSeconds = histogram(
      "hearth_step_seconds",
      "Duration of a decoding step.",
      SECONDS_BUCKETS,
    );
    this.#recordingSeconds = histogram(
      "hearth_transcription_seconds",
      "From the beginning of work on a recording to its transcript.",
      RECORDING_BUCKETS,
    );
    gauge("hearth_sequences_running", "Recordings worked on.", () => requests().running);
    gauge("hearth_sequences_waiting", "Recordings that wait.", () => requests().waiting);
  }

  /** Takes note of windows that were encoded together. */
  observeEncoding(numWindows: number, durationMs: number): void {
    this.#windows.inc(numWindows);
    this.#encoderSeconds.observe(durationMs / 1000);
  }

  /** Takes note of a step that chose a token for each of `numRows` windows. */
  observeStep(numRows: number, durationMs: number): void {
    this.#tokens.inc(numRows);
    this.#stepSeconds.observe(durationMs / 1000);
  }

  /** Takes note of a recording that was transcribed. */
  observeRecording(audioSeconds: number, durationMs: number): void {
    this.#audioSeconds.inc(audioSeconds);
    this.#recordingSeconds.observe(durationMs / 1000);
  }
}
