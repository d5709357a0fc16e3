/**
 * A speaker-embedding model (x-vector): from a recording to a vector for the voice, with the inputs and outputs of
 * transformers.js's `WavLMForXVector`.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import { deviceClassOf } from "../../backend/device_class.ts";
import { StartupError } from "../../errors.ts";
import { invalidAudio } from "../../media/audio/sound.ts";
import { openFolder, readOptionalJson } from "../../hub/model_folder.ts";
import type { LoadProgress } from "../progress.ts";
import type { ClonedVoice, VoiceCloner } from "./synthesizer.ts";
import { chooseGraphs } from "../graph_choice.ts";
import { requirePorts } from "../graph_ports.ts";
import { TtsGraph } from "./tts_graph.ts";
import type { VectorVoice } from "./tts_voices.ts";

const DEFAULT_RATE_HZ = 16_000;
const OUTPUT = "embeddings";
/** Added to the variance, as in these models' feature extractor. */
const EPSILON = 1e-7;

/** How to load. */
export interface SpeakerEncoderOptions {
  readonly backend: Backend;
  /** Width of the synthesis model's speaker embedding. */
  readonly width: number;
  /** Assumed language of recordings, as in BCP 47. */
  readonly language: string;
  readonly onProgress: (progress: LoadProgress) => void;
}

export class SpeakerEncoder implements VoiceCloner {
  readonly sampleRateHz: number;
  readonly #graph: TtsGraph;
  readonly #isNormalised: boolean;
  readonly #language: string;

  private constructor(
    graph: TtsGraph,
    { sampleRateHz, isNormalised, language }: {
      readonly sampleRateHz: number;
      readonly isNormalised: boolean;
      readonly language: string;
    },
  ) {
    this.#graph = graph;
    this.sampleRateHz = sampleRateHz;
    this.#isNormalised = isNormalised;
    this.#language = language;
  }

  /** @throws {StartupError} when the folder holds no such model, or one of another width. */
  static async load(path: string, options: SpeakerEncoderOptions): Promise<SpeakerEncoder> {
    const { backend, width, language, onProgress } = options;
    try {
      const folder = await openFolder(path);
      const graphs = chooseGraphs(folder, [{ name: "model", suits: "sound" }], {
        device: deviceClassOf(backend),
      });
      const settings = await readOptionalJson(folder, "preprocessor_config.json");
      const graph = await TtsGraph.open({ folder, graphs, backend, onProgress }, {
        name: "model",
        known: /^(input_values|attention_mask)$/,
      });
      const encoder = new SpeakerEncoder(graph, {
        sampleRateHz: Number(settings["sampling_rate"] ?? DEFAULT_RATE_HZ),
        isNormalised: settings["do_normalize"] === true,
        language,
      });
      await encoder.#requireWidth(width).catch(async (error) => {
        await graph.release();
        throw error;
      });
      return encoder;
    } catch (error) {
      throw new StartupError((error as Error).message, {
        cause: error,
        setting: "speakerEncoderFolder",
      });
    }
  }

  async clone(samples: Float32Array<ArrayBuffer>): Promise<ClonedVoice> {
    const style = toUnitLength(await this.#embed(samples));
    const voice: VectorVoice = { id: "recording", language: this.#language, style };
    return { voice, numBytes: style.byteLength };
  }

  async dispose(): Promise<void> {
    await this.#graph.release();
  }

  async #embed(samples: Float32Array): Promise<Float32Array<ArrayBuffer>> {
    const values = this.#isNormalised ? normalise(samples) : samples;
    const dims = [1, values.length];
    return await this.#graph.read({
      input_values: { values, dims },
      attention_mask: { values: new Int32Array(values.length).fill(1), dims },
    }, { output: OUTPUT });
  }

  /** Runs a second of a tone, which checks the output and compiles the kernels. */
  async #requireWidth(width: number): Promise<void> {
    requirePorts(this.#graph, {
      outputs: [OUTPUT],
      of: "the folder has no speaker-embedding model: its graph",
    });
    const tone = Float32Array.from(
      { length: this.sampleRateHz },
      (_, i) => 0.1 * Math.sin(i / 20),
    );
    const { length } = await this.#embed(tone);
    if (length === width) return;
    throw new StartupError(
      `the model gives ${length} numbers for a speaker; the synthesis model takes ${width}.`,
    );
  }
}

/** Mean 0 and variance 1. */
function normalise(samples: Float32Array): Float32Array<ArrayBuffer> {
  const mean = samples.reduce((sum, sample) => sum + sample, 0) / samples.length;
  const variance = samples.reduce((sum, sample) => sum + (sample - mean) ** 2, 0) / samples.length;
  const factor = 1 / Math.sqrt(variance + EPSILON);
  return Float32Array.from(samples, (sample) => (sample - mean) * factor);
}

/** @throws {HearthError} `invalid_media` for a zero vector. */
function toUnitLength(vector: Float32Array): Float32Array<ArrayBuffer> {
  const length = Math.hypot(...vector);
  if (length > 0 && Number.isFinite(length)) return vector.map((value) => value / length);
  throw invalidAudio("The recording's voice cannot be determined.");
}
