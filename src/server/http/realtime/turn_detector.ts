/**
 * Finds where turns of speech begin and end while the audio is still arriving. The likelihood of speech comes from the
 * voice activity model that is loaded with the speech recognition model, or else from the loudness.
 *
 * As in Silero's own iterator, speech begins when the likelihood reaches a threshold, and ends below a lower one.
 *
 * @see https://github.com/snakers4/silero-vad
 * @module
 */
import type { RealtimeTurns } from "../../../wire/realtime.ts";
import { AudioResampler } from "../../../media/sound_rate.ts";
import type { VoiceState, VoiceWindows } from "../../../models/task.ts";
import type { Session } from "../../session/session.ts";
import { retryWhileFull } from "./live_transcripts.ts";

/** Silence begins when the likelihood is more than this below the threshold. */
const HYSTERESIS = 0.15;
/** Shorter sounds are not speech. */
const MIN_SPEECH_MS = 90;
/** A turn is ended at this length, so that its text is sent and its memory is freed. */
const MAX_TURN_MS = 60_000;

/** The beginning of a turn, with padding before the speech, or the end of a turn, with the silence after the speech. */
export interface TurnEvent {
  readonly type: "started" | "stopped";
  /** Position in milliseconds since the first audio. */
  readonly atMs: number;
}

/** Finds the turns of one speaker from the likelihood of speech in each window. */
export class TurnDetector {
  readonly #settings: RealtimeTurns;
  readonly #windowMs: number;
  /** Earliest position at which a turn may begin: audio before it belongs to earlier turns. */
  #earliestMs: number;
  #nowMs: number;
  #speechFromMs: number | undefined;
  #quietFromMs: number | undefined;
  #turnFromMs: number | undefined;

  /** @param options.startMs position at which the first window begins. */
  constructor(
    settings: RealtimeTurns,
    { windowMs, startMs }: { readonly windowMs: number; readonly startMs: number },
  ) {
    this.#settings = settings;
    this.#windowMs = windowMs;
    this.#earliestMs = this.#nowMs = startMs;
  }

  /** Position from which audio must be kept: where the current turn begins, or where the next turn may begin. */
  get neededFromMs(): number {
    const beginMs = this.#turnFromMs ??
      (this.#speechFromMs ?? this.#nowMs) - this.#settings.prefixMs;
    return Math.max(this.#earliestMs, beginMs);
  }

  /** Whether a turn has begun and not ended. */
  get isInTurn(): boolean {
    return this.#turnFromMs !== undefined;
  }

  /**
   * Takes the next window.
   *
   * @param likelihood the likelihood of speech in it, 0 to 1.
   * @returns the event, if a turn begins or ends with this window.
   */
  push(likelihood: number): TurnEvent | undefined {
    const { threshold, silenceMs } = this.#settings;
    const windowFromMs = this.#nowMs;
    this.#nowMs += this.#windowMs;
    if (this.#turnFromMs === undefined) {
      if (likelihood < threshold) {
        this.#speechFromMs = undefined;
        return undefined;
      }
      this.#speechFromMs ??= windowFromMs;
      return this.#nowMs - this.#speechFromMs < MIN_SPEECH_MS ? undefined : this.#begin();
    }
    if (likelihood >= threshold) this.#quietFromMs = undefined;
    else if (likelihood < threshold - HYSTERESIS) this.#quietFromMs ??= windowFromMs;
    const isQuiet = this.#quietFromMs !== undefined &&
      this.#nowMs - this.#quietFromMs >= silenceMs;
    return isQuiet || this.#nowMs - this.#turnFromMs >= MAX_TURN_MS ? this.#end() : undefined;
  }

  #begin(): TurnEvent {
    this.#turnFromMs = this.neededFromMs;
    this.#quietFromMs = undefined;
    return { type: "started", atMs: this.#turnFromMs };
  }

  #end(): TurnEvent {
    this.#turnFromMs = this.#speechFromMs = undefined;
    this.#earliestMs = this.#nowMs;
    return { type: "stopped", atMs: this.#nowMs };
  }
}

interface VoiceDetectorOptions {
  readonly session: Session;
  readonly requestId: string;
  readonly windows: VoiceWindows;
  /** Sample rate of the audio that is pushed. */
  readonly sampleRateHz: number;
  readonly signal: AbortSignal;
}

/** Detects the speech of one speaker with the voice activity model that is loaded with the speech recognition model. */
export class VoiceDetector {
  readonly windowMs: number;
  readonly #options: VoiceDetectorOptions;
  readonly #resampler: AudioResampler | undefined;
  #state: VoiceState | undefined;

  constructor(options: VoiceDetectorOptions) {
    const { windows, sampleRateHz } = options;
    this.#options = options;
    this.windowMs = 1000 * windows.windowSamples / windows.sampleRateHz;
    if (sampleRateHz !== windows.sampleRateHz) {
      this.#resampler = new AudioResampler(sampleRateHz, windows.sampleRateHz);
    }
  }

  /**
   * Takes samples.
   *
   * @param samples full scale at 2^15.
   * @returns the likelihood of speech, 0 to 1, in each window that is complete.
   * @throws {HearthError} when the model cannot be run.
   */
  async push(samples: Int16Array): Promise<readonly number[]> {
    const { session, requestId, signal } = this.#options;
    const scaled = Float32Array.from(samples, (sample) => sample / 2 ** 15);
    const heard = this.#resampler?.push(scaled) ?? scaled;
    const { likelihoods, state } = await retryWhileFull(() =>
      session.answer({
        type: "detect",
        requestId,
        samples: heard,
        state: this.#state,
      }, { signal }), signal);
    this.#state = state;
    return likelihoods;
  }
}

const WINDOW_SECONDS = 0.032;
/** Level below which sound is never speech, in decibels relative to full scale. */
const SILENCE_DB = -55;
/** Level of the noise at first, until quieter sound is heard. */
const FIRST_NOISE_DB = -45;
/** Decibels above the noise at which the likelihood of speech is one half. */
const SPEECH_DB = 12;
/** Rise of the level, in decibels, that multiplies the odds of speech by e. */
const SLOPE_DB = 3;
/**
 * How fast the estimate of the noise rises during louder sound. During quieter sound it falls at once. So it stays near
 * the level of the quietest recent sound.
 */
const NOISE_RISE_DB_PER_SECOND = 2;

/** Detects speech by its loudness: whatever is well above the noise is speech. */
export class LoudnessDetector {
  readonly windowMs = 1000 * WINDOW_SECONDS;
  readonly #windowSamples: number;
  #sumOfSquares = 0;
  #numSamples = 0;
  #noiseDb = FIRST_NOISE_DB;

  constructor(sampleRateHz: number) {
    this.#windowSamples = Math.round(WINDOW_SECONDS * sampleRateHz);
  }

  /**
   * Takes samples.
   *
   * @param samples full scale at 2^15.
   * @returns the likelihood of speech, 0 to 1, in each window that is complete.
   */
  push(samples: Int16Array): Promise<number[]> {
    const likelihoods: number[] = [];
    for (const sample of samples) {
      this.#sumOfSquares += sample * sample;
      if (++this.#numSamples === this.#windowSamples) likelihoods.push(this.#endWindow());
    }
    return Promise.resolve(likelihoods);
  }

  #endWindow(): number {
    const meanSquare = this.#sumOfSquares / this.#numSamples / 2 ** 30;
    const levelDb = Math.max(SILENCE_DB, 10 * Math.log10(meanSquare));
    this.#sumOfSquares = this.#numSamples = 0;
    const risenDb = this.#noiseDb + NOISE_RISE_DB_PER_SECOND * WINDOW_SECONDS;
    this.#noiseDb = Math.min(levelDb, risenDb);
    return 1 / (1 + Math.exp((SPEECH_DB - (levelDb - this.#noiseDb)) / SLOPE_DB));
  }
}
