/**
 * A speaker-embedding model (x-vector): turns a recording into a vector that describes the voice. Its inputs and
 * outputs are those of transformers.js's `WavLMForXVector`.
 *
 * @module
 */
import { toDeviceClass } from "../../device/device_class.ts";
import { StartupError, startupStep } from "../../base/errors.ts";
import { openFolder, readOptionalJson } from "../../hub/model_folder.ts";
import { invalidAudio } from "../../media/audio/sound.ts";
import type { OpenContext } from "../folder/open_context.ts";
import { chooseGraphs } from "../folder/graph_choice.ts";
import { requirePorts } from "../folder/graph_file.ts";
import type { VoiceCloner } from "./synthesizer.ts";
import { TtsGraph } from "./tts_graph.ts";
import type { VectorVoice } from "./voices.ts";

const DEFAULT_RATE_HZ = 16_000;
const OUTPUT = "embeddings";
/** Added to the variance, as in the feature extractor of these models. */
const EPSILON = 1e-7;

interface SpeakerEncoderOptions extends Pick<OpenContext, "backend" | "onProgress"> {
  /** Width of the speaker embedding that the synthesis model takes. */
  readonly width: number;
  /** The language that recordings are assumed to have, as a BCP 47 tag. */
  readonly language: string;
}

export interface SpeakerEncoder extends VoiceCloner {
  dispose(): Promise<void>;
}

/** @throws {StartupError} when the folder holds no such model, or a model of another width. */
export function openSpeakerEncoder(
  path: string,
  options: SpeakerEncoderOptions,
): Promise<SpeakerEncoder> {
  return startupStep(() => open(path, options), (reason) => reason, "speakerEncoderFolder");
}

async function open(
  path: string,
  { backend, width, language, onProgress }: SpeakerEncoderOptions,
): Promise<SpeakerEncoder> {
  const folder = await openFolder(path);
  const device = toDeviceClass(backend);
  const graphs = chooseGraphs(folder, [{ name: "model", suits: "sound" }], { device });
  const settings = await readOptionalJson(folder, "preprocessor_config.json");
  const graph = await TtsGraph.open({ folder, graphs, backend, onProgress }, {
    name: "model",
    known: /^(input_values|attention_mask)$/,
  });
  requirePorts(graph, {
    outputs: [OUTPUT],
    of: "the folder has no speaker-embedding model: its graph",
  });
  const embed = async (samples: Float32Array) => {
    const values = settings["do_normalize"] === true ? normalise(samples) : samples;
    const dims = [1, values.length];
    return await graph.read({
      input_values: { values, dims },
      attention_mask: { values: new Int32Array(values.length).fill(1), dims },
    }, { output: OUTPUT });
  };
  const sampleRateHz = Number(settings["sampling_rate"] ?? DEFAULT_RATE_HZ);
  // Running a second of a tone checks the output and compiles the kernels.
  const tone = Float32Array.from({ length: sampleRateHz }, (_, i) => 0.1 * Math.sin(i / 20));
  const { length } = await embed(tone);
  if (length !== width) {
    throw new StartupError(
      `the model gives ${length} numbers for a speaker; the synthesis model takes ${width}.`,
    );
  }
  return {
    sampleRateHz,
    clone: async (samples) => {
      const style = toUnitLength(await embed(samples));
      const voice: VectorVoice = { id: "recording", language, style };
      return { voice, numBytes: style.byteLength };
    },
    dispose: () => graph.release(),
  };
}

/** Scales samples to mean 0 and variance 1. */
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
