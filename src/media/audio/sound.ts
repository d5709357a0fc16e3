/**
 * Decoded sound, and the errors for files without any.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";

/** A chunk of decoded sound. */
export interface Sound {
  /** f32, one array of equal length per channel, full scale at 1. */
  readonly channels: readonly Float32Array[];
  readonly sampleRateHz: number;
}

/** What a reader reports besides the sound. */
export interface Decoding {
  /** Called if the file ends early, with a clause that says what is missing; what there is of it is decoded. */
  readonly onTruncated: (what: string) => void;
}

/** Decodes a file of one format. It frees its decoder when it ends, also when it is ended by `return()`. */
export type SoundReader = (
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
) => AsyncGenerator<Sound, void>;

/** Longest recording. Small files can expand to any length, but real recordings are shorter than this. */
export const MAX_AUDIO_HOURS = 8;

const MIN_RATE_HZ = 1_000;
const MAX_RATE_HZ = 768_000;

/** The error for an invalid file. */
export function invalidAudio(message: string, cause?: unknown): HearthError {
  return new HearthError("invalid_media", message, { cause });
}

/** The error for a format or a codec that is not supported here. */
export class UnreadSoundError extends HearthError {
  constructor(message: string) {
    super(
      "invalid_media",
      `${message} A command that converts it: ffmpeg -i input -ac 1 -ar 16000 output.wav`,
    );
  }
}

/** @throws {HearthError} `invalid_media` when a header gives an impossible sample rate. */
export function checkSampleRate(sampleRateHz: number): void {
  if (sampleRateHz >= MIN_RATE_HZ && sampleRateHz <= MAX_RATE_HZ) return;
  throw invalidAudio(
    `The audio file gives a sample rate of ${sampleRateHz} Hz; ` +
      `${MIN_RATE_HZ} to ${MAX_RATE_HZ} Hz is wanted.`,
  );
}

/** Most errors that a library's decoder may report for a file; it writes each of them to standard error. */
const MAX_ERRORS = 64;

/** Ends the decoding of a file with too many errors. */
export class ErrorBudget {
  #numErrors = 0;

  /** @throws {HearthError} `invalid_media` when there are too many errors. */
  spend(errors: readonly { readonly message: string }[]): void {
    this.#numErrors += errors.length;
    if (this.#numErrors <= MAX_ERRORS) return;
    throw invalidAudio(
      `The audio file is damaged: its decoder found ${this.#numErrors} errors.`,
      errors[0]?.message,
    );
  }
}
