/**
 * Speech recognisers: their interface, the metrics that they count, and the languages that they know; Whisper's own
 * configuration has more of those.
 *
 * @module
 */
import type { Dtype } from "../../base/config.ts";
import type { AudioReader } from "../../media/audio.ts";
import type { OpenContext } from "../model.ts";
import type { TranscriptSegment } from "../task.ts";
import { RequestMetrics } from "../../base/metric_set.ts";
import { ALL_LANGUAGES, LANGUAGES } from "../../media/languages.ts";
import { HearthError } from "../../base/errors.ts";
import { toModelName } from "../../hub/cache.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";

/** A stretch of a recording, in samples. */
export interface SampleRange {
  readonly start: number;
  /** The sample after its last. */
  readonly end: number;
}

export interface Recording {
  /**
   * Reads samples at the recogniser's rate, after other recordings had their chance to go first. See
   * {@linkcode AudioReader.read}.
   */
  readonly read: AudioReader["read"];
  /** Length of the recording, at least 1. */
  readonly numSamples: number;
  /**
   * Speech regions, in order, without overlap, none longer than the recogniser's `maxSpeechSeconds`; unknown if absent.
   * The rest of the recording is skipped.
   */
  readonly speech: readonly SampleRange[] | undefined;
  /** A free slot below `maxRecordings`. */
  readonly index: number;
  /** One of the API's codes that the model knows; detected from the audio if absent. */
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
  /** The longest speech region it can take. */
  readonly maxSpeechSeconds: number;
  readonly languages: SpokenLanguages;
  /** Why it cannot translate to English: the words after "since" in the error; absent if it can. */
  readonly whyNoTranslation?: string | undefined;
  /** Why it cannot tell the times of words: the words after "since" in the error; absent if it can. */
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

/**
 * Opens a model of one family.
 *
 * @throws {StartupError} when a file is missing from the folder, or a graph does not fit the family.
 */
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

  /** Counts and times an encoder's run over several windows. */
  async encoding<T>(encode: () => Promise<T>, numWindows = 1): Promise<T> {
    const observe = this.#encoderSeconds.startTimer();
    const encoded = await encode();
    observe();
    this.#windows.inc(numWindows);
    return encoded;
  }
}

/** Codes of the API; empty if the folder does not name the languages. */
export type SpokenLanguages = readonly string[];

/** Languages without spaces between words. */
export const UNSPACED_LANGUAGES: readonly string[] = ["ja", "lo", "my", "th", "yue", "zh"];

/** The default language of a model family. */
const BY_TYPE: Readonly<Record<string, string>> = { moonshine: "en" };

/** Languages of models whose files name none, by how the model's name begins. */
const BY_NAME: readonly (readonly [string, SpokenLanguages])[] = [
  ["parakeet-tdt-0.6b-v2", ["en"]],
  [
    "parakeet-tdt-0.6b-v3",
    "bg cs da de el en es et fi fr hr hu it lt lv mt nl pl pt ro ru sk sl sv uk".split(" "),
  ],
];

/**
 * The languages of a model: those of a known model, else those that `config.json` or the folder's name gives
 * (`wav2vec2-large-xlsr-53-german`, `moonshine-tiny-ko`).
 */
export function findLanguages({ path, config }: ModelFolder): SpokenLanguages {
  const name = toModelName(path);
  const known = BY_NAME.find(([beginning]) => name.startsWith(beginning));
  if (known !== undefined) return known[1];
  const named = config["language"];
  if (typeof named === "string" && Object.hasOwn(ALL_LANGUAGES, named)) return [named];
  const words = name.toLowerCase().split(/[^a-z0-9]+/);
  const byName = Object.keys(LANGUAGES).find((code) => words.includes(LANGUAGES[code]!));
  const byCode = words.findLast((word) => word in LANGUAGES);
  const found = byName ?? byCode ?? BY_TYPE[String(config["model_type"])];
  return found === undefined ? [] : [found];
}

/** @throws {HearthError} `invalid_value` naming the supported languages, when `code` is not one of them. */
export function requireLanguage(languages: SpokenLanguages, code: string): void {
  if (languages.includes(code)) return;
  const known = languages.length > 0
    ? `it knows ${languages.join(", ")}`
    : "it writes the one language it was trained on, which its files do not name: leave the field out";
  throw new HearthError(
    "invalid_value",
    `language: the loaded model does not know ${JSON.stringify(code)}; ${known}.`,
    { param: "language" },
  );
}

/** A language's name: `english`; empty if unknown. */
export function languageName(code: string | undefined): string {
  return ALL_LANGUAGES[code ?? ""] ?? "";
}
