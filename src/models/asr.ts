/**
 * Speech recognition: audio files in, segments of text out.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { SpeechKernels } from "../backend/speech.ts";
import type { Sampler } from "../backend/backend.ts";
import type { Dtype } from "../config.ts";
import { HearthError } from "../errors.ts";
import { log } from "../log.ts";
import { decodeAudio } from "../media/audio.ts";
import type { Task, TranscribeEvent, TranscribeTask } from "./task.ts";
import { type Model, requireTask } from "./model.ts";
import { Places } from "./places.ts";
import { SpeechMetrics } from "./speech_metrics.ts";
import { WhisperBatcher } from "./whisper_batcher.ts";
import { languageNameOf, languageTokenOf } from "./whisper_config.ts";
import type { WhisperGraphs } from "./whisper_graphs.ts";
import { transcribe, type TranscriberDeps } from "./whisper_transcriber.ts";

/** What a speech model is made of; it owns all of it. */
export interface AsrModelParts extends Pick<TranscriberDeps, "spec" | "config" | "decode"> {
  readonly graphs: WhisperGraphs;
  readonly speech: SpeechKernels;
  readonly sampler: Sampler;
  /** Most recordings at a time. */
  readonly maxRecordings: number;
  /** Most windows that the encoder takes in one piece. */
  readonly maxGroupRows: number;
}

/** See the module. */
export class AsrModel implements Model {
  readonly kind = "asr";
  readonly dtype: Dtype;
  readonly contextLength = undefined;
  readonly maxSequences: number;
  readonly #parts: AsrModelParts;
  readonly #metrics: SpeechMetrics;
  readonly #batcher: WhisperBatcher;
  readonly #places: Places;
  readonly #running = new Set<Promise<void>>();

  constructor(parts: AsrModelParts) {
    this.#parts = parts;
    this.dtype = parts.graphs.dtype;
    this.maxSequences = parts.maxRecordings;
    this.#places = new Places(parts.maxRecordings);
    this.#metrics = new SpeechMetrics(() => ({
      running: this.#places.numTaken,
      waiting: this.#places.numWaiting,
    }));
    this.#batcher = new WhisperBatcher({
      ...parts,
      maxRows: parts.maxRecordings,
      metrics: this.#metrics,
    });
  }

  get metrics(): Registry {
    return this.#metrics.registry;
  }

  start(task: Task, emit: (event: TranscribeEvent) => void): () => void {
    requireTask(task, "transcribe");
    const { language } = task;
    const languageToken = language && languageTokenOf(this.#parts.config, language);
    const abort = new AbortController();
    const work = this.#transcribe(task, {
      languageToken: languageToken === "" ? undefined : languageToken,
      emit,
      signal: abort.signal,
    });
    this.#running.add(work);
    work.finally(() => this.#running.delete(work));
    return () => abort.abort();
  }

  async dispose(): Promise<void> {
    await Promise.all(this.#running);
    await this.#batcher.close();
    this.#parts.sampler.dispose();
    this.#parts.speech.dispose();
    await this.#parts.graphs.dispose();
  }

  async #transcribe(task: TranscribeTask, options: TranscribeOptions): Promise<void> {
    const { emit, signal } = options;
    try {
      const index = await this.#places.take(signal);
      try {
        await this.#work(task, index, options);
      } finally {
        this.#places.giveBack(index);
      }
    } catch (error) {
      if (signal.aborted) return;
      const known = HearthError.from(error);
      if (known !== error) {
        log.error("transcription failed", { requestId: task.requestId, error });
      }
      emit({ type: "error", error: known.toWire() });
    }
  }

  async #work(
    task: TranscribeTask,
    index: number,
    { languageToken, emit, signal }: TranscribeOptions,
  ): Promise<void> {
    const startMs = performance.now();
    const { config, spec } = this.#parts;
    const samples = await readSamples(task.audio, spec.sampleRateHz, signal);
    const durationSeconds = samples.length / spec.sampleRateHz;
    const windows = transcribe({ ...this.#parts, batcher: this.#batcher }, {
      samples,
      index,
      languageToken,
      temperature: task.temperature,
      signal,
    });
    let [promptTokens, completionTokens] = [0, 0];
    for await (const window of windows) {
      if (completionTokens === 0) {
        const language = languageNameOf(config, window.languageToken);
        emit({ type: "start", language, durationSeconds });
      }
      promptTokens += window.numPromptTokens;
      completionTokens += window.numTokens;
      for (const segment of window.segments) emit({ type: "segment", segment });
    }
    this.#metrics.observeRecording(durationSeconds, performance.now() - startMs);
    emit({ type: "done", usage: { promptTokens, completionTokens, cachedTokens: 0 } });
  }
}

interface TranscribeOptions {
  readonly languageToken: number | undefined;
  readonly emit: (event: TranscribeEvent) => void;
  readonly signal: AbortSignal;
}

/** All samples of a file. */
async function readSamples(
  file: Uint8Array<ArrayBuffer>,
  sampleRateHz: number,
  signal: AbortSignal,
): Promise<Float32Array> {
  let samples = new Float32Array(sampleRateHz * 60);
  let length = 0;
  for await (const piece of decodeAudio(file, { sampleRateHz, signal })) {
    if (length + piece.length > samples.length) {
      const larger = new Float32Array(Math.max(length + piece.length, samples.length * 1.5));
      larger.set(samples.subarray(0, length));
      samples = larger;
    }
    samples.set(piece, length);
    length += piece.length;
  }
  return samples.subarray(0, length);
}
