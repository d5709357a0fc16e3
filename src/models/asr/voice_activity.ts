/**
 * A voice activity model like Silero's, which computes the speech probability of each short window.
 *
 * It runs on the CPU even if the recogniser runs on a GPU: each window needs the state after the previous window, and
 * reading the state from the GPU takes longer than computing it on the CPU.
 *
 * @module
 */
import { join } from "node:path";
import { yieldToEvents } from "../../base/timing.ts";
import { runStartupStep, StartupError } from "../../base/errors.ts";
import { type GraphSession, Tensor } from "../../device/ort/ort.ts";
import { type Json, makeGraphPath, type ModelFolder, openFolder } from "../../hub/model_folder.ts";
import { openWebGraph, requirePorts } from "../folder/graph_file.ts";
import type { VoiceState } from "../task.ts";
import type { SampleRange } from "./recogniser.ts";
import { findSpeechRegions } from "./speech_regions.ts";

/** The setting that the errors of this module refer to. */
const SETTING = "vadFolder";

/** The graph's sizes at one sample rate. */
interface WindowSizes {
  readonly windowSamples: number;
  /** Number of samples of the previous window that precede each window in the graph's input. */
  readonly contextSamples: number;
}

/** Default window sizes by sample rate in Hz, as in Silero 5. */
const SILERO_SIZES: Readonly<Record<number, WindowSizes>> = {
  16_000: { windowSamples: 512, contextSamples: 64 },
  8_000: { windowSamples: 256, contextSamples: 32 },
};
const SILERO_STATE = [2, 1, 128];
/** Number of windows between yields to messages: about 5 ms of work. */
const WINDOWS_PER_YIELD = 16;

/** A voice activity model. It serves several recordings at a time. */
export class VoiceActivity {
  readonly #session: GraphSession;
  readonly #config: Json;
  readonly #folder: string;

  private constructor(session: GraphSession, { path, config }: ModelFolder) {
    this.#session = session;
    this.#config = config;
    this.#folder = path;
  }

  /** @throws {StartupError} when the folder is missing, or holds no voice activity model. */
  static async load(path: string): Promise<VoiceActivity> {
    const folder = await runStartupStep(() => openFolder(path), (reason) => reason, SETTING);
    const graph = makeGraphPath("model", "fp32");
    if (!folder.files.has(graph)) {
      const found = [...folder.files].filter((file) => file.endsWith(".onnx")).join(", ");
      throw new StartupError(
        `${path} has no ${graph}; ${found === "" ? "it has no graph" : `it has ${found}`}.`,
        { setting: SETTING },
      );
    }
    const session = await runStartupStep(
      () => openWebGraph(path, graph),
      (reason) => `${join(path, graph)} cannot be loaded: ${reason}`,
      SETTING,
    );
    requirePorts(session, {
      inputs: ["input", "state", "sr"],
      outputs: ["output", "stateN"],
      of: `${path} is not a voice activity model: its graph`,
      setting: SETTING,
    });
    return new VoiceActivity(session, folder);
  }

  /** @throws {StartupError} when the model does not run at this sample rate. */
  async requireRate(sampleRateHz: number): Promise<void> {
    const listener = this.listen(sampleRateHz);
    await runStartupStep(
      async () => {
        await listener.push(new Float32Array(sampleRateHz / 10));
        await listener.finish();
      },
      (reason) => `${this.#folder} is not a voice activity model: ${reason}`,
      SETTING,
    );
  }

  /**
   * Starts listening to a recording, or continues from a state.
   *
   * @throws {StartupError} when the model does not support the sample rate.
   */
  listen(sampleRateHz: number, state?: VoiceState): VoiceListener {
    const options = { sampleRateHz, ...this.#findSizes(sampleRateHz) };
    return new VoiceListener(this.#session, options, state);
  }

  /** Returns the number of samples in a window. @throws {StartupError} when the sample rate is not supported. */
  getWindowSamples(sampleRateHz: number): number {
    return this.#findSizes(sampleRateHz).windowSamples;
  }

  async dispose(): Promise<void> {
    await this.#session.release();
  }

  #findSizes(sampleRateHz: number): WindowSizes & { readonly stateShape: readonly number[] } {
    const readSize = (name: string) => (this.#config[name] as Json | undefined)?.[sampleRateHz];
    const windowSamples = readSize("window_samples") ?? SILERO_SIZES[sampleRateHz]?.windowSamples;
    const contextSamples = readSize("context_samples") ??
      SILERO_SIZES[sampleRateHz]?.contextSamples;
    const rates = this.#config["sampling_rates"] ?? Object.keys(SILERO_SIZES).map(Number);
    const stateShape = this.#config["state_shape"] ?? SILERO_STATE;
    if (
      isSize(windowSamples) && isSize(contextSamples) && Array.isArray(rates) &&
      rates.includes(sampleRateHz) && Array.isArray(stateShape) && stateShape.every(isSize)
    ) {
      return { windowSamples, contextSamples, stateShape };
    }
    throw new StartupError(
      `${this.#folder} does not support ${sampleRateHz} Hz, the sample rate of the speech model. Its config.json ` +
        `gives the sampling_rates ${
          JSON.stringify(rates)
        }, with window_samples and context_samples for each.`,
      { setting: SETTING },
    );
  }
}

interface ListenerOptions extends WindowSizes {
  readonly sampleRateHz: number;
  readonly stateShape: readonly number[];
}

/** Listens to one recording. */
export class VoiceListener {
  readonly #session: GraphSession;
  readonly #options: ListenerOptions;
  readonly #rate: Tensor;
  readonly #likelihoods: number[] = [];
  /** The context of the next window, followed by its samples so far. */
  readonly #window: Float32Array;
  #state: Tensor;
  #filled: number;
  #numSamples = 0;

  constructor(session: GraphSession, options: ListenerOptions, state?: VoiceState) {
    const { contextSamples, windowSamples, stateShape, sampleRateHz } = options;
    this.#session = session;
    this.#options = options;
    this.#rate = new Tensor("int64", BigInt64Array.of(BigInt(sampleRateHz)), []);
    this.#window = new Float32Array(contextSamples + windowSamples);
    this.#filled = state?.filled ?? contextSamples;
    if (state !== undefined) this.#window.set(state.window);
    const numElements = stateShape.reduce((product, size) => product * size, 1);
    const memory = state?.memory.slice() ?? new Float32Array(numElements);
    this.#state = new Tensor("float32", memory, stateShape);
  }

  /** The speech probabilities of all complete windows. */
  get wholeLikelihoods(): readonly number[] {
    return this.#likelihoods;
  }

  /** A copy of the state, from which another listener can continue. */
  get state(): VoiceState {
    const memory = Float32Array.from(this.#state.data as Float32Array);
    return { memory, window: this.#window.slice(), filled: this.#filled };
  }

  /** Adds samples and runs the windows that they complete. */
  async push(samples: Float32Array): Promise<void> {
    this.#numSamples += samples.length;
    for (let at = 0; at < samples.length;) {
      const part = samples.subarray(at, at + this.#window.length - this.#filled);
      this.#window.set(part, this.#filled);
      this.#filled += part.length;
      at += part.length;
      if (this.#filled === this.#window.length) await this.#run();
    }
  }

  /**
   * Ends the recording.
   *
   * @returns the speech probability of each window, 0 to 1; the last window is padded with silence.
   */
  async finish(): Promise<readonly number[]> {
    if (this.#filled > this.#options.contextSamples) {
      this.#window.fill(0, this.#filled);
      await this.#run();
    }
    return this.#likelihoods;
  }

  /** Ends the recording and finds its speech regions, each of at most this many seconds. */
  async findSpeech(maxSpeechSeconds: number): Promise<SampleRange[]> {
    const { sampleRateHz, windowSamples } = this.#options;
    return findSpeechRegions(await this.finish(), {
      sampleRateHz,
      windowSamples,
      numSamples: this.#numSamples,
      maxSpeechSeconds,
    });
  }

  async #run(): Promise<void> {
    const { contextSamples } = this.#options;
    const { output, stateN } = await this.#session.run({
      input: new Tensor("float32", this.#window, [1, this.#window.length]),
      state: this.#state,
      sr: this.#rate,
    });
    this.#state = stateN!;
    this.#likelihoods.push(Number(output!.data[0]));
    this.#window.copyWithin(0, this.#window.length - contextSamples);
    this.#filled = contextSamples;
    if (this.#likelihoods.length % WINDOWS_PER_YIELD === 0) await yieldToEvents();
  }
}

function isSize(value: unknown): value is number {
  return Number.isInteger(value) && value as number > 0;
}
