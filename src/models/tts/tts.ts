/**
 * Speech synthesis: texts in, audio files out, streamed.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype } from "../../config.ts";
import { HearthError } from "../../errors.ts";
import { limitPeaks } from "../../media/limit_peaks.ts";
import { joinBytes } from "../../join_bytes.ts";
import type { SoundWriter } from "../../media/sound/sound_writer.ts";
import { stretchTime } from "../../media/time_stretch.ts";
import { createSoundWriter } from "../../media/write_sound.ts";
import { noiseOffset, normalNoise } from "../../onnx/rewrite/noise_table.ts";
import type { OpenContext } from "../family.ts";
import { type Model, requireTask } from "../model.ts";
import { Semaphore } from "../semaphore.ts";
import type { LoadSynthesizer, Synthesizer, Voice } from "./synthesizer.ts";
import { RecordedVoices } from "./recorded_voices.ts";
import type { SpeakEvent, SpeakTask, Task } from "../task.ts";
import { TtsMetrics } from "./tts_metrics.ts";
import { type Line, type ScriptOptions, writeScript } from "./tts_script.ts";
import { nextTurn } from "../../next_turn.ts";
import { ActiveRequests } from "../active_requests.ts";

/** Default of the most texts at a time; they take turns, line by line. */
const MAX_TEXTS = 8;
/** Lines in progress: one on the device, one before or after it. */
const MAX_LINES = 2;
/** Seconds of noise that replace a recording when a model without voices warms up. */
const WARM_UP_SECONDS = 2;

const NO_CLONER =
  "it has voices of its own, as all families but Chatterbox, and SpeechT5 with a speaker encoder";

type Emit = (event: SpeakEvent) => Promise<void>;

export class TtsModel implements Model {
  readonly kind = "tts";
  readonly dtype: Dtype;
  readonly contextLength = undefined;
  readonly maxSequences: number;
  readonly #synthesizer: Synthesizer;
  readonly #metrics = new TtsMetrics();
  readonly #semaphore: Semaphore;
  readonly #recordedVoices: RecordedVoices | undefined;
  readonly #requests = new ActiveRequests();

  /** Owns the synthesizer from here on. */
  constructor(
    synthesizer: Synthesizer,
    { dtype, maxSequences = MAX_TEXTS }: {
      readonly dtype: Dtype;
      readonly maxSequences?: number | undefined;
    },
  ) {
    this.#synthesizer = synthesizer;
    this.dtype = dtype;
    this.maxSequences = maxSequences;
    this.#semaphore = new Semaphore(Math.min(MAX_LINES, maxSequences));
    this.#metrics.requests = () => ({
      // Including the time between two lines, and while a slow reader catches up.
      running: this.#requests.size - this.#semaphore.numWaiting,
      waiting: this.#semaphore.numWaiting,
    });
    const { cloner } = synthesizer;
    this.#recordedVoices = cloner &&
      new RecordedVoices(cloner, () => this.#metrics.observeClonedVoice());
  }

  /** @throws {StartupError} when the folder lacks a part. */
  static async load(context: OpenContext, load: LoadSynthesizer): Promise<TtsModel> {
    const { graphs, engine: { maxSequences }, backend, onProgress } = context;
    const model = new TtsModel(await load(context), { dtype: graphs.main.dtype, maxSequences });
    // Native code has nothing to compile.
    if (backend.runtime !== "native") {
      onProgress({ what: "warming up" });
      await model.#warmUp();
    }
    return model;
  }

  get metrics(): Registry {
    return this.#metrics.registry;
  }

  get voices(): readonly Voice[] {
    return this.#synthesizer.voices.map(({ id, language }) => ({ id, language }));
  }

  get noRecordings(): string | undefined {
    if (this.#recordedVoices !== undefined) return undefined;
    return this.#synthesizer.clonerWanted ?? NO_CLONER;
  }

  /** Synthesizes a word and discards it, so that the device compiles its kernels. */
  async #warmUp(): Promise<void> {
    const voice = this.#synthesizer.voices[0] ?? await this.#anyVoice();
    if (voice === undefined) return;
    const { signal } = new AbortController();
    for await (const { tokens } of writeScript("One two.", this.#speaker(voice, signal))) {
      await this.#synthesizer.synthesize(tokens, { voice, speed: 1, noiseOffset: 0, signal });
    }
  }

  start(task: Task, emit: Emit): () => void {
    requireTask(task, "speak");
    const findVoice = this.#voiceFinder(task);
    emit({ type: "admitted" });
    const { requestId } = task;
    return this.#requests.start({
      requestId,
      what: "speech",
      emit,
      answer: (signal) => this.#work(task, { findVoice, emit, signal }),
    });
  }

  async dispose(): Promise<void> {
    await this.#requests.settle();
    await this.#synthesizer.dispose();
  }

  #speaker(voice: Voice, signal: AbortSignal): ScriptOptions {
    return { synthesizer: this.#synthesizer, voice, signal };
  }

  async #anyVoice(): Promise<Voice | undefined> {
    const { cloner } = this.#synthesizer;
    if (cloner === undefined) return undefined;
    const noise = normalNoise(0, WARM_UP_SECONDS * cloner.sampleRateHz);
    return (await cloner.clone(noise.map((sample) => 0.1 * sample))).voice;
  }

  /** @throws {HearthError} when there is no such voice, before any work is done. */
  #voiceFinder({ voice: id, recording }: SpeakTask): () => Promise<Voice> {
    if (recording !== undefined) {
      const recorded = this.#recordedVoices;
      if (recorded !== undefined) return () => recorded.voiceOf(recording);
      throw new HearthError(
        "unsupported_by_model",
        `${recording.param}: the model cannot clone the voice of a recording: ${this.noRecordings}.`,
        { param: recording.param },
      );
    }
    const { voices } = this.#synthesizer;
    const voice = id === undefined ? voices[0] : voices.find((each) => each.id === id);
    if (voice !== undefined) return () => Promise.resolve(voice);
    const message = id === undefined
      ? "the model has no voice of its own; send a recording of somebody beside the text."
      : `the model has no voice ${JSON.stringify(id)}.`;
    throw new HearthError("invalid_value", `voice: ${message}`, { param: "voice" });
  }

  async #work(
    task: SpeakTask,
    { findVoice, emit, signal }: SpeakOptions,
  ): Promise<void> {
    const startMs = performance.now();
    const { sampleRateHz } = this.#synthesizer;
    const voice = await findVoice();
    signal.throwIfAborted();
    const lines = writeScript(task.text, this.#speaker(voice, signal));
    let next = await lines.next();
    if (next.done) {
      throw new HearthError(
        "invalid_value",
        `${task.param}: the model can speak nothing of the text.`,
        { param: task.param },
      );
    }
    const writer = await createSoundWriter(task.format, sampleRateHz);
    let [textTokens, audioSeconds] = [0, 0];
    try {
      for (let number = 0; !next.done; number++) {
        const line: Line = next.value;
        await nextTurn();
        // The slot is held for one line only, so that a slow reader does not delay others.
        const slot = await this.#semaphore.acquire(signal);
        const samples = await this.#speakLine(line, { task, voice, number, signal })
          .finally(() => this.#semaphore.release(slot));
        // Looks ahead one line, to know whether this is the last.
        next = await lines.next();
        const pause = next.done ? 0 : Math.round(line.pauseSeconds / task.speed * sampleRateHz);
        const bytes = encode(writer, { samples, pause, isLast: next.done === true });
        textTokens += line.tokens.length;
        audioSeconds += (samples.length + pause) / sampleRateHz;
        signal.throwIfAborted();
        if (number === 0) this.#metrics.observeFirst(performance.now() - startMs);
        await emit({ type: "audio", bytes, isLast: next.done === true });
        signal.throwIfAborted();
      }
      emit({ type: "done", textTokens, audioSeconds });
    } finally {
      writer.dispose();
    }
  }

  async #speakLine(
    { tokens }: Line,
    { task, voice, number, signal }: {
      readonly task: SpeakTask;
      readonly voice: Voice;
      /** Of the line in its text. */
      readonly number: number;
      readonly signal: AbortSignal;
    },
  ): Promise<Float32Array<ArrayBuffer>> {
    const { hasSpeed, sampleRateHz } = this.#synthesizer;
    const { speed, seed } = task;
    const startMs = performance.now();
    const spoken = await this.#synthesizer.synthesize(tokens, {
      voice,
      speed: hasSpeed ? speed : 1,
      noiseOffset: noiseOffset(seed, number),
      signal,
    });
    const samples = hasSpeed ? spoken : stretchTime(spoken, { speed, sampleRateHz });
    limitPeaks(samples);
    this.#metrics.observePiece({
      numTokens: tokens.length,
      audioSeconds: samples.length / sampleRateHz,
      durationMs: performance.now() - startMs,
    });
    return samples;
  }
}

interface SpeakOptions {
  readonly findVoice: () => Promise<Voice>;
  readonly emit: Emit;
  readonly signal: AbortSignal;
}

/** Encodes a line and the silence after it. */
function encode(
  writer: SoundWriter,
  { samples, pause, isLast }: {
    readonly samples: Float32Array;
    readonly pause: number;
    readonly isLast: boolean;
  },
): Uint8Array<ArrayBuffer> {
  const parts = [writer.write(samples)];
  if (pause > 0) parts.push(writer.write(new Float32Array(pause)));
  if (isLast) parts.push(writer.finish());
  return joinBytes(parts);
}
