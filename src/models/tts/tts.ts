/**
 * Speech synthesis models: texts in, streamed audio files out.
 *
 * @module
 */
import type { Dtype } from "../../base/config.ts";
import { HearthError, type Refusal } from "../../base/errors.ts";
import { joinBytes } from "../../base/bytes.ts";
import { limitPeaks } from "../../media/sound_format.ts";
import { stretchTime } from "../../media/sound_rate.ts";
import { createSoundWriter } from "../../media/write_sound.ts";
import { RequestMetrics } from "../../base/metric_set.ts";
import { yieldToEvents } from "../../base/timing.ts";
import { copyNormalNoise, noiseOffset } from "../../graph/rewrite/seeded_noise.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import { type Model, type OpenContext, requireTask } from "../model.ts";
import { Semaphore } from "../threads/semaphore.ts";
import type { SpeakEvent, SpeakTask, Task, Voice } from "../task.ts";
import { findVoice, RecordedVoices } from "./voices.ts";
import type { LoadSynthesizer, Synthesizer } from "./synthesizer.ts";
import type { Line } from "./script.ts";

/** Default for the maximum number of texts at a time. Their lines alternate. */
const MAX_TEXTS = 8;
/** Maximum number of lines in progress: one on the device, and another one being prepared or finished. */
const MAX_LINES = 2;
/** Length of the noise used as a recording when a model without voices warms up. */
const WARM_UP_SECONDS = 2;

const NO_CLONER: Refusal = {
  message: "only Chatterbox can, and SpeechT5 with a speaker encoder",
};

/** Imported on demand: importing text normalization would take a tenth of the time until the model is ready. */
const importScript = () => import("./script.ts");

type Emit = (event: SpeakEvent) => Promise<void>;

interface RunningRequest {
  readonly task: SpeakTask;
  readonly findVoice: () => Promise<Voice>;
  readonly emit: Emit;
  readonly signal: AbortSignal;
}

export class TtsModel implements Model {
  readonly kind = "tts";
  readonly dtype: Dtype;
  readonly contextLength = undefined;
  readonly maxSequences: number;
  readonly #synthesizer: Synthesizer;
  readonly #metrics = new TtsMetrics();
  readonly metrics = this.#metrics.registry;
  readonly #semaphore: Semaphore;
  readonly #recordedVoices: RecordedVoices | undefined;
  readonly #requests = new ActiveRequests();

  /** @param synthesizer owned by the new object. */
  private constructor(synthesizer: Synthesizer, { graphs, engine }: OpenContext) {
    this.#synthesizer = synthesizer;
    this.dtype = graphs.main.dtype;
    this.maxSequences = engine.maxSequences ?? MAX_TEXTS;
    this.#semaphore = new Semaphore(Math.min(MAX_LINES, this.maxSequences));
    this.#metrics.requests = () => ({
      // Includes texts between two lines, and texts whose client reads slowly.
      running: this.#requests.size - this.#semaphore.numWaiting,
      waiting: this.#semaphore.numWaiting,
    });
    const { cloner } = synthesizer;
    this.#recordedVoices = cloner &&
      new RecordedVoices(cloner, () => this.#metrics.clonedVoices.inc());
  }

  /** @throws {StartupError} when a file is missing from the folder. */
  static async load(context: OpenContext, load: LoadSynthesizer): Promise<TtsModel> {
    const { backend, onProgress } = context;
    const model = new TtsModel(await load(context), context);
    // Native code has nothing to compile.
    if (backend.runtime !== "native") {
      onProgress({ what: "warming up" });
      await model.#warmUp();
    }
    return model;
  }

  get voices(): readonly Voice[] {
    return this.#synthesizer.voices.map(({ id, language }) => ({ id, language }));
  }

  get noRecordings(): Refusal | undefined {
    if (this.#recordedVoices !== undefined) return undefined;
    return this.#synthesizer.clonerWanted ?? NO_CLONER;
  }

  start(task: Task, emit: Emit): () => void {
    requireTask(task, "speak");
    const findVoice = this.#makeVoiceFinder(task);
    emit({ type: "admitted" });
    return this.#requests.start({
      requestId: task.requestId,
      what: "speech",
      emit,
      answer: (signal) => this.#speak({ task, findVoice, emit, signal }),
    });
  }

  /** Loads the modules that convert text to tokens. */
  async prepare(): Promise<void> {
    const [voice] = this.#synthesizer.voices;
    if (voice !== undefined) await Array.fromAsync(await this.#writeWarmUp(voice));
  }

  async dispose(): Promise<void> {
    await this.#requests.settle();
    await this.#synthesizer.dispose();
  }

  async #writeWarmUp(voice: Voice): Promise<AsyncGenerator<Line>> {
    const { writeScript } = await importScript();
    const { signal } = new AbortController();
    return writeScript("One two.", { synthesizer: this.#synthesizer, voice, signal });
  }

  /** Synthesizes a word and discards it, so that the device compiles its kernels. */
  async #warmUp(): Promise<void> {
    const synthesizer = this.#synthesizer;
    const { voices, cloner } = synthesizer;
    const voice = voices[0] ?? (await cloner?.clone(makeSoftNoise(cloner.sampleRateHz)))?.voice;
    if (voice === undefined) return;
    const { signal } = new AbortController();
    for await (const { tokens } of await this.#writeWarmUp(voice)) {
      await synthesizer.synthesize(tokens, { voice, speed: 1, noiseOffset: 0, signal });
    }
  }

  /** Makes the function that finds the task's voice. @throws {HearthError} when there is no such voice. */
  #makeVoiceFinder({ voice: id, recording }: SpeakTask): () => Promise<Voice> {
    if (recording !== undefined) {
      const recorded = this.#recordedVoices;
      if (recorded !== undefined) return () => recorded.encodeVoice(recording);
      throw new HearthError(
        "unsupported_by_model",
        `${recording.param}: this model cannot clone the voice of a recording: ${this.noRecordings?.message}.`,
        { param: recording.param },
      );
    }
    const voice = findVoice(this.#synthesizer.voices, id);
    return () => Promise.resolve(voice);
  }

  async #speak({ task, findVoice, emit, signal }: RunningRequest): Promise<void> {
    const observeFirst = this.#metrics.firstSeconds.startTimer();
    const synthesizer = this.#synthesizer;
    const { sampleRateHz } = synthesizer;
    const voice = await findVoice();
    const { writeScript } = await importScript();
    signal.throwIfAborted();
    const lines = writeScript(task.text, { synthesizer, voice, signal });
    let next = await lines.next();
    if (next.done) {
      throw new HearthError(
        "invalid_value",
        `${task.param}: want words in a language that the model speaks, saw ${
          JSON.stringify(task.text.slice(0, 40))
        }. Signs, emoji and unknown scripts are not spoken.`,
        { param: task.param },
      );
    }
    const writer = await createSoundWriter(task.format, sampleRateHz);
    let [textTokens, audioSeconds] = [0, 0];
    try {
      for (let number = 0; !next.done; number++) {
        const line: Line = next.value;
        await yieldToEvents();
        // The slot is held for only one line, so that a slow client does not delay other texts.
        const slot = await this.#semaphore.acquire(signal);
        const samples = await this.#speakLine(line, { task, voice, number, signal })
          .finally(() => this.#semaphore.release(slot));
        // Looks ahead one line to find out whether this is the last one.
        next = await lines.next();
        const isLast = next.done === true;
        const pause = isLast ? 0 : Math.round(line.pauseSeconds / task.speed * sampleRateHz);
        const parts = [writer.write(samples)];
        if (pause > 0) parts.push(writer.write(new Float32Array(pause)));
        if (isLast) parts.push(writer.finish());
        textTokens += line.tokens.length;
        audioSeconds += (samples.length + pause) / sampleRateHz;
        signal.throwIfAborted();
        if (number === 0) observeFirst();
        await emit({ type: "audio", bytes: joinBytes(parts), isLast });
        signal.throwIfAborted();
      }
      emit({ type: "done", textTokens, audioSeconds });
    } finally {
      writer.dispose();
    }
  }

  /** @param options.number index of the line in its text. */
  async #speakLine(
    { tokens }: Line,
    { task, voice, number, signal }: Pick<RunningRequest, "task" | "signal"> & {
      readonly voice: Voice;
      readonly number: number;
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
    const audioSeconds = samples.length / sampleRateHz;
    const seconds = (performance.now() - startMs) / 1000;
    this.#metrics.tokens.inc(tokens.length);
    this.#metrics.audioSeconds.inc(audioSeconds);
    if (audioSeconds > 0) this.#metrics.realTimeFactor.observe(seconds / audioSeconds);
    return samples;
  }
}

/** Makes soft noise in place of a recording. */
function makeSoftNoise(sampleRateHz: number): Float32Array<ArrayBuffer> {
  return copyNormalNoise(0, WARM_UP_SECONDS * sampleRateHz).map((sample) => 0.1 * sample);
}

/** Buckets of the real-time factor: seconds of work per second of sound. */
const FACTOR_BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 5];

class TtsMetrics extends RequestMetrics {
  readonly audioSeconds = this.counter(
    "hearth_audio_seconds_total",
    "Seconds of sound generated.",
  );
  readonly tokens = this.counter("hearth_prompt_tokens_total", "Text tokens that were spoken.");
  readonly clonedVoices = this.counter(
    "hearth_cloned_voices_total",
    "Voices cloned from recordings; cached voices do not count.",
  );
  readonly firstSeconds = this.histogram(
    "hearth_first_audio_seconds",
    "Time from a request's arrival to its first sound.",
  );
  readonly realTimeFactor = this.histogram(
    "hearth_real_time_factor",
    "Seconds of work per second of sound, for each segment of text.",
    FACTOR_BUCKETS,
  );

  constructor() {
    super("Texts");
  }
}
