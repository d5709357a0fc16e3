/**
 * What speech models differ in: how sound becomes text.
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

/** A recording and what is asked of it. */
export interface Recording {
  /** At the recogniser's sample rate. */
  readonly audio: AudioReader;
  /** All of the recording's samples, at least one. */
  readonly numSamples: number;
  /**
   * Where somebody speaks, in order and apart, none longer than the recogniser's `maxSpeechSeconds`; unknown if absent.
   * The rest is not listened to.
   */
  readonly speech: readonly SampleRange[] | undefined;
  /** A free place below `maxRecordings`. */
  readonly index: number;
  /** One of the API's codes, which the model knows; told from the sound if absent. */
  readonly language: string | undefined;
  /** Whether English is to be written, whatever is spoken. */
  readonly translates: boolean;
  /** 0 takes the most likely tokens. */
  readonly temperature: number;
  /** Whether segments are to come with the times of their words. */
  readonly timesWords: boolean;
  /** Aborting it ends the work before the next step. */
  readonly signal: AbortSignal;
}

/** The refusal of a recogniser that cannot tell the times of words; `why` goes on "since …". */
export function noWordTimes(why: string): HearthError {
  return new HearthError(
    "unsupported_by_model",
    `timestamp_granularities: the loaded model cannot tell the times of words, since ${why}; it tells those of "segment".`,
    { param: "timestamp_granularities" },
  );
}

/** The refusal of a recogniser that cannot translate; `why` goes on "since …". */
export function noTranslation(why: string): HearthError {
  return new HearthError(
    "unsupported_by_model",
    `The loaded model does not translate, since ${why}; /audio/transcriptions writes what is spoken.`,
  );
}

/** What one window of a recording gave. */
export interface TranscribedWindow {
  /** The language's name: `english`; empty where that is not known. */
  readonly language: string;
  /** Tokens that the model was given. */
  readonly numPromptTokens: number;
  /** Tokens that it chose. */
  readonly numTokens: number;
  readonly segments: readonly TranscriptSegment[];
}

/** Turns recordings into segments, several at a time. */
export interface Recogniser {
  readonly dtype: Dtype;
  readonly sampleRateHz: number;
  /** Most recordings at a time. */
  readonly maxRecordings: number;
  /** What is heard in one piece. */
  readonly maxSpeechSeconds: number;
  /** @throws {HearthError} `invalid_value`, saying which languages the model has, when this is none of them. */
  requireLanguage(code: string): void;
  /** @throws {HearthError} `unsupported_by_model`, saying why, when it cannot tell the times of words. */
  requireWordTimes(): void;
  /** @throws {HearthError} `unsupported_by_model`, saying why, when it cannot write English of other languages. */
  requireTranslation(): void;
  /** Listens to a recording from its beginning to its end. @throws the signal's reason. */
  transcribe(recording: Recording): AsyncGenerator<TranscribedWindow, void>;
  /** Waits for what is under way, and frees the model. */
  dispose(): Promise<void>;
}
