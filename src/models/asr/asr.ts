/**
 * Speech recognition: audio files in, segments of text out.
 *
 * @module
 */
import type { Registry } from "prom-client";
import { ALL_LANGUAGES } from "../../media/languages.ts";
import type { Dtype } from "../../base/config.ts";
import { HearthError } from "../../base/errors.ts";
import { countFlacSamples } from "../../media/audio/flac.ts";
import { AudioReader } from "../../media/audio.ts";
import { type Model, type OpenContext, requireTask } from "../model.ts";
import {
  type LoadRecogniser,
  type Recogniser,
  type RecogniserOptions,
  requireLanguage,
  SpeechMetrics,
  type SpokenLanguages,
} from "./recogniser.ts";
import type {
  DetectEvent,
  DetectTask,
  Task,
  TranscribeEvent,
  TranscribeTask,
  VoiceWindows,
} from "../task.ts";
import { VoiceActivity, type VoiceListener } from "./voice_activity.ts";
import { BusyThread } from "../../base/timing.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import { ShortFirst } from "../threads/semaphore.ts";

/**
 * Recordings with more bytes than this count as long, and wait for short ones. 2 MiB hold a minute of uncompressed
 * speech, or several minutes of compressed speech.
 */
const MAX_SHORT_BYTES = 2 * 2 ** 20;

/** Longest time of decoding before the thread yields. */
const MAX_BLOCKING_MS = 10;

/** Default for the maximum number of recordings transcribed at a time. */
const MAX_RECORDINGS = 8;

interface RunningRequest {
  readonly task: TranscribeTask;
  /** Unique among running requests. */
  readonly slot: number;
  readonly emit: (event: TranscribeEvent) => void;
  readonly signal: AbortSignal;
  /** Awaited before each slice of work, so that other recordings can go first. */
  readonly yieldToOthers: () => Promise<void>;
}

export class AsrModel implements Model {
  readonly kind = "asr";
  readonly dtype: Dtype;
  readonly contextLength = undefined;
  readonly maxSequences: number;
  readonly languages: SpokenLanguages;
  readonly voiceActivity: VoiceWindows | undefined;
  readonly metrics: Registry;
  readonly #recogniser: Recogniser;
  readonly #detector: VoiceActivity | undefined;
  /** Detections are short, and run independently of transcriptions. */
  readonly #detections = new ActiveRequests();
  readonly #metrics: SpeechMetrics;
  readonly #requests: ActiveRequests;
  readonly #shortFirst = new ShortFirst();

  readonly #ffmpeg: string | undefined;

  /** @param recogniser owned by the new object, like `voiceActivity`. */
  private constructor(
    recogniser: Recogniser,
    { voiceActivity, maxRecordings, metrics, ffmpeg }: RecogniserOptions & {
      readonly ffmpeg: string | undefined;
      /** Finds the parts with speech; if absent, the whole recording is transcribed. */
      readonly voiceActivity: VoiceActivity | undefined;
    },
  ) {
    this.maxSequences = maxRecordings;
    this.#requests = new ActiveRequests(maxRecordings, { maxSmall: MAX_SHORT_BYTES });
    this.#metrics = metrics;
    this.metrics = metrics.registry;
    metrics.requests = () => this.#requests.counts;
    this.#recogniser = recogniser;
    this.#ffmpeg = ffmpeg;
    this.#detector = voiceActivity;
    const { sampleRateHz } = recogniser;
    this.voiceActivity = voiceActivity &&
      { sampleRateHz, windowSamples: voiceActivity.getWindowSamples(sampleRateHz) };
    this.dtype = recogniser.dtype;
    this.languages = recogniser.languages;
  }

  /** @throws {StartupError} when the model's folder or the voice activity model's folder is incomplete. */
  static async load(context: OpenContext, load: LoadRecogniser): Promise<AsrModel> {
    const { vadFolder, engine } = context;
    // Loaded before the larger model, so that its errors appear without delay.
    const voiceActivity = vadFolder === undefined ? undefined : await VoiceActivity.load(vadFolder);
    const options = {
      maxRecordings: engine.maxSequences ?? MAX_RECORDINGS,
      metrics: new SpeechMetrics(),
    };
    const recogniser = await load(context, options);
    await voiceActivity?.requireRate(recogniser.sampleRateHz);
    return new AsrModel(recogniser, { ...options, voiceActivity, ffmpeg: engine.ffmpeg });
  }

  start(task: Task, emit: (event: TranscribeEvent | DetectEvent) => void): () => void {
    if (task.type === "detect" && this.#detector !== undefined) {
      return this.#detections.start({
        requestId: task.requestId,
        what: "voice activity",
        emit,
        answer: async () => emit(await this.#detect(task, this.#detector!)),
      });
    }
    requireTask(task, "transcribe");
    requireAbilities(task, this.#recogniser);
    emit({ type: "admitted" });
    const { requestId, param } = task;
    const work = estimateWork(task.audio);
    return this.#requests.start({
      requestId,
      what: "transcription",
      emit,
      param,
      work,
      answer: async (signal, slot) => {
        const request = { task, slot, emit, signal };
        if (work > MAX_SHORT_BYTES) {
          return await this.#transcribe({
            ...request,
            yieldToOthers: this.#shortFirst.makeYieldForLong(signal),
          });
        }
        const thread = new BusyThread();
        const end = this.#shortFirst.begin();
        try {
          await this.#transcribe({ ...request, yieldToOthers: () => thread.yield() });
        } finally {
          end();
        }
      },
    });
  }

  async dispose(): Promise<void> {
    await Promise.all([this.#requests.settle(), this.#detections.settle()]);
    await this.#recogniser.dispose();
    await this.#detector?.dispose();
  }

  async #detect(
    { samples, state: before }: DetectTask,
    detector: VoiceActivity,
  ): Promise<DetectEvent> {
    const listener = detector.listen(this.#recogniser.sampleRateHz, before);
    await listener.push(samples);
    const { wholeLikelihoods: likelihoods, state } = listener;
    return { type: "done", likelihoods, state };
  }

  async #transcribe({ task, slot, emit, signal, yieldToOthers }: RunningRequest): Promise<void> {
    const observe = this.#metrics.recordingSeconds.startTimer();
    const { language, translates = false, temperature, timesWords = false, maxTokens = Infinity } =
      task;
    const { sampleRateHz, maxSpeechSeconds } = this.#recogniser;
    await using audio = new AudioReader(task.audio, { sampleRateHz, signal, ffmpeg: this.#ffmpeg });
    const listener = this.#detector?.listen(sampleRateHz);
    const numSamples = await scan(audio, { listener, signal, yieldToOthers });
    const durationSeconds = numSamples / sampleRateHz;
    const windows = this.#recogniser.transcribe({
      read: async (start, end) => {
        // Called at the beginning of each window.
        await yieldToOthers();
        return await audio.read(start, end);
      },
      numSamples,
      speech: await listener?.findSpeech(maxSpeechSeconds),
      index: slot,
      language,
      translates,
      temperature,
      timesWords,
      signal,
    });
    let [promptTokens, completionTokens, shownTokens] = [0, 0, 0];
    let [hasStarted, isCut] = [false, false];
    const begin = (heard: string) => {
      const { truncated } = audio;
      const start = { type: "start", language: heard, durationSeconds } as const;
      if (!hasStarted) emit(truncated === undefined ? start : { ...start, truncated });
      hasStarted = true;
    };
    for await (const window of windows) {
      begin(window.language);
      promptTokens += window.numPromptTokens;
      completionTokens += window.numTokens;
      for (const segment of window.segments) {
        isCut = shownTokens + segment.tokens.length > maxTokens;
        if (isCut) break;
        shownTokens += segment.tokens.length;
        emit({ type: "segment", segment });
      }
      if (isCut) break;
    }
    if (isCut) completionTokens = shownTokens;
    // In a recording without speech no language is detected.
    begin(language === undefined || translates ? "" : ALL_LANGUAGES[language]!);
    observe();
    this.#metrics.audioSeconds.inc(durationSeconds);
    emit({ type: "done", usage: { promptTokens, completionTokens, cachedTokens: 0 }, isCut });
  }
}

/**
 * Decodes the whole recording once, to find its length and the parts with speech.
 *
 * @returns the number of samples.
 */
async function scan(
  audio: AudioReader,
  { listener, signal, yieldToOthers }: Pick<RunningRequest, "signal" | "yieldToOthers"> & {
    readonly listener: VoiceListener | undefined;
  },
): Promise<number> {
  let yieldedMs = performance.now();
  return await audio.scan(async (samples) => {
    await listener?.push(samples);
    if (performance.now() - yieldedMs > MAX_BLOCKING_MS) {
      // Other requests run while a long recording is decoded.
      await yieldToOthers();
      yieldedMs = performance.now();
    }
    signal.throwIfAborted();
  });
}

/** @throws {HearthError} when the task requires something that the recogniser cannot do. */
function requireAbilities(
  { language, translates, timesWords }: TranscribeTask,
  { languages, whyNoTranslation, whyNoWordTimes }: Recogniser,
): void {
  if (language !== undefined) requireLanguage(languages, language);
  if (translates && whyNoTranslation !== undefined) {
    throw new HearthError(
      "unsupported_by_model",
      `The loaded model does not translate, since ${whyNoTranslation}; it can only transcribe.`,
    );
  }
  if (timesWords && whyNoWordTimes !== undefined) {
    throw new HearthError(
      "unsupported_by_model",
      `the loaded model gives no times of words, since ${whyNoWordTimes}; it gives times of segments only.`,
      { param: "timesWords" },
    );
  }
}

/**
 * Estimates the work in bytes: the size of the file, or of its decoded samples if that is larger. FLAC compresses hours
 * of silence to a few kilobytes.
 */
function estimateWork(file: Uint8Array): number {
  return Math.max(file.length, countFlacSamples(file) * Int16Array.BYTES_PER_ELEMENT);
}
