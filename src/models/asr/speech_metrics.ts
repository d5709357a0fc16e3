/**
 * A speech model's Prometheus metrics.
 *
 * @module
 */
import { RequestMetrics } from "../../metric_set.ts";

const RECORDING_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

export class SpeechMetrics extends RequestMetrics {
  readonly audioSeconds = this.counter(
    "hearth_audio_seconds_total",
    "Seconds of sound transcribed.",
  );
  readonly windows = this.counter("hearth_windows_total", "Windows of sound that were encoded.");
  readonly encoderSeconds = this.histogram(
    "hearth_encoder_seconds",
    "Duration of features and encoder, for windows encoded together.",
  );
  readonly recordingSeconds = this.histogram(
    "hearth_transcription_seconds",
    "From the beginning of work on a recording to its transcript.",
    RECORDING_BUCKETS,
  );

  constructor() {
    super("Recordings");
  }
}
