/**
 * The interface of speech recognisers.
 *
 * @module
 */
import type { Dtype } from "../../config.ts";
import { HearthError } from "../../errors.ts";
import type { AudioReader } from "../../media/audio_reader.ts";
import type { TranscriptSegment } from "../task.ts";

/** Most recordings at a time where the user does not say. */
export const MAX_RECORDINGS = 8;

/** A stretch of a recording, in samples. */
export interface SampleRange {
  readonly start: number;
  /** The sample after its last. */
  readonly end: number;
}

/** A recording and its options. */
export interface Recording {
  /** At the recogniser's sample rate. */
  readonly audio: AudioReader;
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

/** The refusal of a recogniser without word times; `why` follows "since …". */
export function noWordTimes(why: string): HearthError {
  return new HearthError(
    "unsupported_by_model",
    `timestamp_granularities: the loaded model cannot tell the times of words, since ${why}; it tells those of "segment".`,
    { param: "timestamp_granularities" },
  );
}

/** The refusal of a recogniser that cannot translate; `why` follows "since …". */
export function noTranslation(why: string): HearthError {
  return new HearthError(
    "unsupported_by_model",
    `The loaded model does not translate, since ${why}; /audio/transcriptions writes what is spoken.`,
  );
}

/** The result of one window of a recording. */
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
  /** Most recordings at a time. */
  readonly maxRecordings: number;
  /** Longest speech region that it takes. */
  readonly maxSpeechSeconds: number;
  /** @throws {HearthError} `invalid_value`, naming the model's languages, when this is not one of them. */
  requireLanguage(code: string): void;
  /** @throws {HearthError} `unsupported_by_model`, saying why, when it has no word times. */
  requireWordTimes(): void;
  /** @throws {HearthError} `unsupported_by_model`, saying why, when it cannot translate. */
  requireTranslation(): void;
  /** Transcribes a whole recording. @throws the signal's reason. */
  transcribe(recording: Recording): AsyncGenerator<TranscribedWindow, void>;
  /** Waits for running work, and frees the model. */
  dispose(): Promise<void>;
}
