/**
 * Speech recognition: audio files in, segments of text out.
 *
 * @module
 */
import type { Registry } from "prom-client";
import { LANGUAGES } from "../../api/languages.ts";
import type { Dtype } from "../../config.ts";
import { countFlacSamples } from "../../media/audio/flac.ts";
import { AudioReader } from "../../media/audio_reader.ts";
import { type Model, requireTask } from "../model.ts";
import type { Recogniser } from "./recogniser.ts";
import { SpeechMetrics } from "./speech_metrics.ts";
import type { Task, TranscribeEvent, TranscribeTask } from "../task.ts";
import type { VoiceActivity } from "./voice_activity.ts";
import { BusyTurns } from "../../next_turn.ts";
import { ActiveRequests } from "../active_requests.ts";

/**
 * Longer recordings than this count as large and leave slots to others: a minute of uncompressed speech, several of
 * compressed.
 */
const MAX_SMALL_BYTES = 2 * 2 ** 20;

/** Longest time that decoding blocks the thread. */
const MAX_TURN_MS = 10;

/** The parts of a speech model. */
export interface AsrModelOptions {
  /** Most recordings at a time. */
  readonly maxRecordings: number;
  /** Creates the recogniser; the model owns it. */
  readonly openRecogniser: (metrics: SpeechMetrics) => Recogniser;
}

export class AsrModel implements Model {
  readonly kind = "asr";
  readonly dtype: Dtype;
  readonly contextLength = undefined;
  readonly maxSequences: number;
  readonly #recogniser: Recogniser;
  readonly #metrics: SpeechMetrics;
  readonly #requests: ActiveRequests;
  #voiceActivity: VoiceActivity | undefined;

  constructor({ maxRecordings, openRecogniser }: AsrModelOptions) {
    this.maxSequences = maxRecordings;
    this.#requests = new ActiveRequests(maxRecordings, { maxSmall: MAX_SMALL_BYTES });
    this.#metrics = new SpeechMetrics(() => this.#requests.counts);
    this.#recogniser = openRecogniser(this.#metrics);
    this.dtype = this.#recogniser.dtype;
  }

  /**
   * From now on skips everything but speech.
   *
   * @param voiceActivity is the model's, unless this throws.
   * @throws {StartupError} when it does not support the recogniser's sample rate.
   */
  async listenFor(voiceActivity: VoiceActivity): Promise<void> {
    await voiceActivity.requireRate(this.#recogniser.sampleRateHz);
    this.#voiceActivity = voiceActivity;
  }

  get metrics(): Registry {
    return this.#metrics.registry;
  }

  start(task: Task, emit: (event: TranscribeEvent) => void): () => void {
    requireTask(task, "transcribe");
    if (task.language !== undefined) this.#recogniser.requireLanguage(task.language);
    if (task.translates) this.#recogniser.requireTranslation();
    if (task.timesWords) this.#recogniser.requireWordTimes();
    emit({ type: "admitted" });
    const { requestId, param } = task;
    return this.#requests.start({
      requestId,
      what: "transcription",
      emit,
      param,
      work: workOf(task.audio),
      answer: (signal, slot) => this.#work(task, slot, { emit, signal }),
    });
  }

  async dispose(): Promise<void> {
    await this.#requests.settle();
    await this.#recogniser.dispose();
    await this.#voiceActivity?.dispose();
  }

  async #work(
    { audio: file, language, translates = false, temperature, timesWords = false }: TranscribeTask,
    index: number,
    { emit, signal }: TranscribeOptions,
  ): Promise<void> {
    const startMs = performance.now();
    const { sampleRateHz, maxSpeechSeconds } = this.#recogniser;
    await using audio = new AudioReader(file, { sampleRateHz, signal });
    const listener = this.#voiceActivity?.listen(sampleRateHz);
    const turns = new BusyTurns();
    let turnMs = performance.now();
    const numSamples = await audio.scan(async (samples) => {
      await listener?.push(samples);
      if (performance.now() - turnMs > MAX_TURN_MS) {
        // Yields, so that other requests run while hours of sound are decoded.
        await turns.next();
        turnMs = performance.now();
      }
      signal.throwIfAborted();
    });
    const speech = await listener?.speech(maxSpeechSeconds);
    const durationSeconds = numSamples / sampleRateHz;
    const windows = this.#recogniser.transcribe({
      audio,
      numSamples,
      speech,
      index,
      language,
      translates,
      temperature,
      timesWords,
      signal,
    });
    let [promptTokens, completionTokens] = [0, 0];
    let hasStarted = false;
    const begin = (heard: string) => {
      if (!hasStarted) emit({ type: "start", language: heard, durationSeconds });
      hasStarted = true;
    };
    for await (const window of windows) {
      begin(window.language);
      promptTokens += window.numPromptTokens;
      completionTokens += window.numTokens;
      for (const segment of window.segments) emit({ type: "segment", segment });
    }
    // Without speech there is no language to detect.
    begin(language === undefined || translates ? "" : LANGUAGES[language]!);
    this.#metrics.observeRecording(durationSeconds, performance.now() - startMs);
    emit({ type: "done", usage: { promptTokens, completionTokens, cachedTokens: 0 } });
  }
}

interface TranscribeOptions {
  readonly emit: (event: TranscribeEvent) => void;
  readonly signal: AbortSignal;
}

/** Bytes of a file, or of its samples if more: FLAC compresses hours of silence to a few kilobytes. */
function workOf(file: Uint8Array): number {
  return Math.max(file.length, countFlacSamples(file) * Int16Array.BYTES_PER_ELEMENT);
}
