/**
 * The interface of speech recognisers, and the metrics that they count.
 *
 * @module
 */
import type { Dtype } from "../../base/config.ts";
import type { AudioReader } from "../../media/audio_reader.ts";
import type { OpenContext } from "../folder/open_context.ts";
import type { TranscriptSegment } from "../task.ts";
import type { SpokenLanguages } from "./spoken_languages.ts";
import { RequestMetrics } from "../../base/metric_set.ts";

/** A stretch of a recording, in samples. */
export interface SampleRange {
  readonly start: number;
  /** The sample after its last. */
  readonly end: number;
}

export interface Recording {
  /** Samples at the recogniser's rate; lets other recordings go first. See {@linkcode AudioReader.read}. */
  readonly read: AudioReader["read"];
  /** All of the recording's samples, at least one. */
  readonly numSamples: number;
  /**
   * Speech regions, in order, not overlapping, none longer than the recogniser's `maxSpeechSeconds`; unknown if absent.
   * The rest is skipped.
   */
  readonly speech: readonly SampleRange[] | undefined;
  /** A free slot below `maxRecordings`. */
  readonly index: number;
  /** One of the API's codes, which the model knows; detected from the audio if absent. */
  readonly language: string | undefined;
  /** Whether to translate to English. */
  readonly translates: boolean;
  /** 0 takes the most likely tokens. */
  readonly temperature: number;
  /** Whether segments need word times. */
  readonly timesWords: boolean;
  /** Aborting it ends the work before the next step. */
  readonly signal: AbortSignal;
}

export interface TranscribedWindow {
  /** The language's name: `english`; empty where that is not known. */
  readonly language: string;
  /** Tokens that the model was given. */
  readonly numPromptTokens: number;
  /** Tokens that it generated. */
  readonly numTokens: number;
  readonly segments: readonly TranscriptSegment[];
}

/** Turns recordings into segments, several at a time. */
export interface Recogniser {
  readonly dtype: Dtype;
  readonly sampleRateHz: number;
  /** Longest speech region that it takes. */
  readonly maxSpeechSeconds: number;
  readonly languages: SpokenLanguages;
  /** Why it cannot write English of other languages, to go on "since …"; absent where it can. */
  readonly whyNoTranslation?: string | undefined;
  /** Why it cannot tell the times of words, to go on "since …"; absent where it can. */
  readonly whyNoWordTimes?: string | undefined;
  /** Transcribes a whole recording. @throws the signal's reason. */
  transcribe(recording: Recording): AsyncGenerator<TranscribedWindow, void>;
  /** Waits for running work, and frees the model. */
  dispose(): Promise<void>;
}

export interface RecogniserOptions {
  /** Most recordings at a time. */
  readonly maxRecordings: number;
  readonly metrics: SpeechMetrics;
}

/** Opens a model of one family. @throws {StartupError} when the folder lacks a part, or a graph is another's. */
export type LoadRecogniser = (
  context: OpenContext,
  options: RecogniserOptions,
) => Promise<Recogniser>;

const RECORDING_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

export class SpeechMetrics extends RequestMetrics {
  readonly audioSeconds = this.counter(
    "hearth_audio_seconds_total",
    "Seconds of sound transcribed.",
  );
  readonly #windows = this.counter(
    "hearth_windows_total",
    "Windows of sound that were encoded.",
  );
  readonly #encoderSeconds = this.histogram(
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

  /** Counts and times what encodes windows together. */
  async encoding<T>(encode: () => Promise<T>, numWindows = 1): Promise<T> {
    const observe = this.#encoderSeconds.startTimer();
    const encoded = await encode();
    observe();
    this.#windows.inc(numWindows);
    return encoded;
  }
}
