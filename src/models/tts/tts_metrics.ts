/**
 * A speech synthesis model's Prometheus metrics.
 *
 * @module
 */
import { RequestMetrics } from "../../metric_set.ts";

/** Real-time factor: seconds of work per second of sound. */
const FACTOR_BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 5];

/** Counters and histograms of one model. */
export class TtsMetrics extends RequestMetrics {
  readonly #audioSeconds = this.counter(
    "hearth_audio_seconds_total",
    "Seconds of sound that were made.",
  );
  readonly #tokens = this.counter(
    "hearth_prompt_tokens_total",
    "Tokens of text that were spoken.",
  );
  readonly #clonedVoices = this.counter(
    "hearth_cloned_voices_total",
    "Voices that were made of recordings; one that is kept is not made again.",
  );
  readonly #firstSeconds = this.histogram(
    "hearth_first_audio_seconds",
    "From a request's arrival to its first sound.",
  );
  readonly #realTimeFactor = this.histogram(
    "hearth_real_time_factor",
    "Seconds of work for each second of sound, by pieces of text.",
    FACTOR_BUCKETS,
  );

  constructor() {
    super("Texts");
  }

  /** Records the first sound of a request. */
  observeFirst(durationMs: number): void {
    this.#firstSeconds.observe(durationMs / 1000);
  }

  /** Records a cloned voice. */
  observeClonedVoice(): void {
    this.#clonedVoices.inc();
  }

  /** Records a synthesized piece of text. */
  observePiece(
    { numTokens, audioSeconds, durationMs }: {
      readonly numTokens: number;
      readonly audioSeconds: number;
      readonly durationMs: number;
    },
  ): void {
    this.#tokens.inc(numTokens);
    this.#audioSeconds.inc(audioSeconds);
    if (audioSeconds > 0) this.#realTimeFactor.observe(durationMs / 1000 / audioSeconds);
  }
}
