/**
 * Speech recognisers: their interface, and what several families share: metrics, languages, and the feature extractors
 * of transformers.js.
 *
 * @module
 */
import type { Dtype } from "../../base/config.ts";
import type { AudioReader } from "../../media/audio.ts";
import type { OpenContext } from "../model.ts";
import type { TranscriptSegment } from "../task.ts";
import { RequestMetrics } from "../../base/metric_set.ts";
import { ALL_LANGUAGES, LANGUAGES } from "../../media/languages.ts";
import { HearthError, runStartupStep, StartupError } from "../../base/errors.ts";
import { toModelName } from "../../hub/cache.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { Buffer } from "node:buffer";
import { basename, dirname } from "node:path";
import { deflateSync } from "node:zlib";
import { type PlainTensors, toPlainTensors } from "../folder/graph_file.ts";

/** A range of a recording, in samples. */
export interface SampleRange {
  readonly start: number;
  /** The sample after the last one. */
  readonly end: number;
}

export interface Recording {
  /**
   * Reads samples at the recogniser's rate, after letting other recordings go first. See {@linkcode AudioReader.read}.
   */
  readonly read: AudioReader["read"];
  /** Number of samples in the recording, at least 1. */
  readonly numSamples: number;
  /**
   * Speech regions, in order, without overlap, none longer than the recogniser's `maxSpeechSeconds`. The rest of the
   * recording is skipped. If absent, the whole recording is transcribed.
   */
  readonly speech: readonly SampleRange[] | undefined;
  /** Slot of the recording, below `maxRecordings` and unique among running recordings. */
  readonly index: number;
  /** The API's code of a language that the model knows; detected from the audio if absent. */
  readonly language: string | undefined;
  /** Whether to translate to English. */
  readonly translates: boolean;
  /** 0 takes the most likely tokens. */
  readonly temperature: number;
  /** Whether segments must have word times. */
  readonly timesWords: boolean;
  /** Aborting it ends the work before the next step. */
  readonly signal: AbortSignal;
}

export interface TranscribedWindow {
  /** Name of the language: `english`; empty if unknown. */
  readonly language: string;
  /** Number of tokens that the model was given. */
  readonly numPromptTokens: number;
  /** Number of tokens that the model generated. */
  readonly numTokens: number;
  readonly segments: readonly TranscriptSegment[];
}

/** Turns recordings into segments, several at a time. */
export interface Recogniser {
  readonly dtype: Dtype;
  readonly sampleRateHz: number;
  /** Length of the longest speech region that it takes. */
  readonly maxSpeechSeconds: number;
  readonly languages: SpokenLanguages;
  /** Why it cannot translate to English: the clause after "since" in the error. Absent if it can. */
  readonly whyNoTranslation?: string | undefined;
  /** Why it gives no word times: the clause after "since" in the error. Absent if it gives them. */
  readonly whyNoWordTimes?: string | undefined;
  /** Transcribes a whole recording. @throws the signal's reason. */
  transcribe(recording: Recording): AsyncGenerator<TranscribedWindow, void>;
  /** Waits for running work and frees the model. */
  dispose(): Promise<void>;
}

export interface RecogniserOptions {
  /** Maximum number of recordings at a time. */
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
    "Duration of computing features and encoding them, for windows encoded together.",
  );
  readonly recordingSeconds = this.histogram(
    "hearth_transcription_seconds",
    "Time from the beginning of work on a recording to its transcript.",
    RECORDING_BUCKETS,
  );

  constructor() {
    super("Recordings");
  }

  /** Counts and times an encoder's run over several windows. */
  async measureEncoding<T>(encode: () => Promise<T>, numWindows = 1): Promise<T> {
    const observe = this.#encoderSeconds.startTimer();
    const encoded = await encode();
    observe();
    this.#windows.inc(numWindows);
    return encoded;
  }
}

/** Codes of languages as in the API; empty if the folder does not name the languages. */
export type SpokenLanguages = readonly string[];

/** Languages without spaces between words. */
export const UNSPACED_LANGUAGES: readonly string[] = ["ja", "lo", "my", "th", "yue", "zh"];

/** Default languages of model families, by `model_type`. A language that the folder names takes precedence. */
const BY_TYPE: Readonly<Record<string, string>> = { moonshine: "en" };

/** Languages of models whose files do not name them, by the beginning of the model's name. */
const BY_NAME: readonly (readonly [string, SpokenLanguages])[] = [
  ["parakeet-tdt-0.6b-v2", ["en"]],
  [
    "parakeet-tdt-0.6b-v3",
    "bg cs da de el en es et fi fr hr hu it lt lv mt nl pl pt ro ru sk sl sv uk".split(" "),
  ],
];

/**
 * Finds the languages of a model. If the model is not a known one, the language comes from `config.json` or the
 * folder's name (`wav2vec2-large-xlsr-53-german`, `moonshine-tiny-ko`).
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

/** @throws {HearthError} `invalid_value` listing the supported languages, when `code` is not one of them. */
export function requireLanguage(languages: SpokenLanguages, code: string): void {
  if (languages.includes(code)) return;
  const known = languages.length > 0
    ? `it knows ${languages.join(", ")}`
    : "it knows only the language it was trained on, which its files do not name: leave out this field";
  throw new HearthError(
    "invalid_value",
    `language: the loaded model does not know ${JSON.stringify(code)}; ${known}.`,
    { param: "language" },
  );
}

/** Returns the name of a language: `english`; empty if unknown. */
export function toLanguageName(code: string | undefined): string {
  return ALL_LANGUAGES[code ?? ""] ?? "";
}

const DEFAULT_RATE_HZ = 16_000;
const FILES = ["preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"];

/** A feature extractor, which takes a sound, or a processor, which takes a text with a placeholder and a sound. */
type Prepare = (...given: readonly unknown[]) => Promise<Readonly<Record<string, unknown>>>;

/** Turns sound into the inputs of graphs, with a feature extractor or processor of transformers.js. */
interface SpeechFeatures {
  readonly sampleRateHz: number;
  /**
   * Prepares a sound.
   *
   * @param prompt a text with a placeholder for the sound; for processors only.
   * @returns the graph's inputs, including `input_ids` if there is a prompt.
   */
  prepare(samples: Float32Array, prompt?: string): Promise<PlainTensors>;
}

/**
 * Opens the feature extractor or, if `takesText`, the processor that a folder names.
 *
 * @throws {StartupError} when a file is missing, or transformers.js does not support the named class.
 */
export async function openSpeechFeatures(
  folder: ModelFolder,
  { takesText }: { readonly takesText: boolean },
): Promise<SpeechFeatures> {
  const missing = FILES.filter((name) => !folder.files.has(name));
  if (missing.length > 0) {
    throw new StartupError(
      `${folder.path} has no ${missing.join(" and no ")}, which a speech model needs.`,
    );
  }
  // Imported on demand, as Whisper and TDT models do not need it.
  const { loadTransformers } = await import("../../device/ort/hook.ts");
  const library = await loadTransformers({ modelsFolder: dirname(folder.path) });
  const name = basename(folder.path);
  return await openPart(folder, async () => {
    const extractor = await library.AutoFeatureExtractor.from_pretrained(name);
    const prepare = (takesText
      ? await library.AutoProcessor.from_pretrained(name)
      : extractor) as unknown as Prepare;
    return {
      sampleRateHz: Number(extractor.config.sampling_rate ?? DEFAULT_RATE_HZ),
      prepare: async (samples, prompt) =>
        toPlainTensors(await (takesText ? prepare(prompt, samples) : prepare(samples))),
    };
  });
}

/**
 * Opens a part of a model.
 *
 * @throws {StartupError} naming the folder, its model type and what went wrong.
 */
export function openPart<T>({ path, config }: ModelFolder, open: () => Promise<T>): Promise<T> {
  return runStartupStep(
    open,
    (reason) => `${path} cannot be loaded as a model of type ${config["model_type"]}: ${reason}`,
  );
}

/** Divides the bytes of a text by its compressed bytes; high for repetitive text. */
export function computeCompressionRatio(text: string): number {
  const bytes = Buffer.from(text);
  return bytes.length / deflateSync(bytes).length;
}
