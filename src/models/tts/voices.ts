/**
 * The voices of a synthesizer: vectors in its folder, stored in `voices/<name>.bin` (little-endian float32), and voices
 * cloned from recordings.
 *
 * @module
 */
import { join } from "node:path";
import { HearthError, invalidMedia, runStartupStep, StartupError } from "../../base/errors.ts";
import { type ModelFolder, openFolder, readOptionalJson } from "../../hub/model_folder.ts";
import type { Voice, VoiceRecording } from "../task.ts";
import { ByteBudgetCache, nameMedia, SharedJobs } from "../threads/active_requests.ts";
import { type ClonedVoice, TtsGraph, type VoiceCloner } from "./synthesizer.ts";
import { toDeviceClass } from "../../device/backend.ts";
import type { OpenContext } from "../model.ts";
import { chooseGraphs } from "../folder/graph_choice.ts";
import { requirePorts } from "../folder/graph_file.ts";

/** A voice described by one or more vectors. */
export interface VectorVoice extends Voice {
  /** f32 `[rows, width]`. */
  readonly style: Float32Array;
}

const VOICE_FILE = /^voices\/([\w.-]+)\.bin$/;

/**
 * Reads a folder's voices, sorted by name.
 *
 * @param options.width number of values in a row.
 * @param options.getLanguage returns the language of a voice by its name; `undefined` skips the voice.
 * @throws {StartupError} when a file does not hold whole rows, or there is no voice.
 */
export async function readVoices(
  folder: ModelFolder,
  { width, getLanguage }: {
    readonly width: number;
    readonly getLanguage: (id: string) => string | undefined;
  },
): Promise<VectorVoice[]> {
  const voices: VectorVoice[] = [];
  for (const file of [...folder.files].sort()) {
    const id = VOICE_FILE.exec(file)?.[1];
    const language = id === undefined ? undefined : getLanguage(id);
    if (id === undefined || language === undefined) continue;
    const bytes = await Deno.readFile(join(folder.path, file));
    if (bytes.length === 0 || bytes.length % (4 * width) !== 0) {
      throw new StartupError(
        `${folder.path}/${file}: want rows of ${width} numbers of 4 bytes, saw ${bytes.length} bytes.`,
      );
    }
    voices.push({ id, language, style: new Float32Array(bytes.buffer) });
  }
  if (voices.length > 0) return voices;
  throw new StartupError(
    `${folder.path} has no voice in a supported language. Wanted: files voices/<name>.bin.`,
  );
}

/**
 * Finds the voice with this id, or the first voice if `id` is absent.
 *
 * @throws {HearthError} `invalid_value` when there is no such voice.
 */
export function findVoice(voices: readonly Voice[], id: string | undefined): Voice {
  const voice = id === undefined ? voices[0] : voices.find((each) => each.id === id);
  if (voice !== undefined) return voice;
  const message = id === undefined
    ? "the model has no voice of its own; send the text and a recording of the voice to clone."
    : `the model has no voice ${JSON.stringify(id)}.`;
  throw new HearthError("invalid_value", `voice: ${message}`, { param: "voice" });
}

/** Maximum number of bytes of cached voices. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;
const { signal: NEVER } = new AbortController();

/** Clones the voices of recordings, and caches them. */
export class RecordedVoices {
  readonly #cloner: VoiceCloner;
  readonly #onMade: () => void;
  /** Voices by checksum of the recording's file. */
  readonly #kept = new ByteBudgetCache<Voice>(MAX_KEPT_BYTES);
  readonly #jobs = new SharedJobs<ClonedVoice>();

  /** @param onMade called each time a voice is cloned. */
  constructor(cloner: VoiceCloner, onMade: () => void) {
    this.#cloner = cloner;
    this.#onMade = onMade;
  }

  /** Clones a voice. @throws {HearthError} `invalid_media`, with the recording's path, when it cannot be cloned. */
  async encodeVoice({ audio, param }: VoiceRecording): Promise<Voice> {
    const key = new Uint8Array(await crypto.subtle.digest("SHA-256", audio)).toHex();
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    try {
      // Concurrent requests with the same recording share the work. It is never cancelled, as no graph may be freed
      // while it runs.
      const { voice, numBytes } = await this.#jobs.join(key, () => this.#clone(audio), NEVER);
      this.#kept.set(key, voice, numBytes);
      return voice;
    } catch (error) {
      throw nameMedia(error, param);
    }
  }

  async #clone(audio: Uint8Array<ArrayBuffer>): Promise<ClonedVoice> {
    const samples = await readReference(audio, this.#cloner);
    const made = await this.#cloner.clone(samples);
    this.#onMade();
    return made;
  }
}

/** Shorter recordings are not enough to clone a voice. */
const MIN_SECONDS = 1;
/** Longer recordings do not improve the voice, and memory grows with the square of the length. */
const MAX_SECONDS = 30;
/** A recording whose samples stay below this share of full scale is silent. */
const SILENT_PEAK = 1e-3;

/**
 * Decodes a recording of any supported format to one channel.
 *
 * @returns f32, owned by the caller.
 * @throws {HearthError} `invalid_media` when the file is not audio, or the recording is too short, too long or silent.
 */
export async function readReference(
  file: Uint8Array<ArrayBuffer>,
  { sampleRateHz, isCut = false }: {
    readonly sampleRateHz: number;
    /** Whether to use the beginning of a recording that is too long. */
    readonly isCut?: boolean;
  },
): Promise<Float32Array<ArrayBuffer>> {
  // Imported on demand, as most models do not clone voices and start sooner without it.
  const { decodeAudio } = await import("../../media/audio.ts");
  const samples = new Float32Array(MAX_SECONDS * sampleRateHz);
  let length = 0;
  for await (const segment of decodeAudio(file, { sampleRateHz })) {
    const room = samples.length - length;
    samples.set(segment.subarray(0, room), length);
    length += Math.min(segment.length, room);
    if (segment.length <= room) continue;
    if (isCut) break;
    throw makeLengthError(`more than ${MAX_SECONDS} s`);
  }
  if (length < MIN_SECONDS * sampleRateHz) {
    throw makeLengthError(`${(length / sampleRateHz).toFixed(2)} s`);
  }
  const recorded = samples.slice(0, length);
  requireSound(recorded);
  return recorded;
}

function makeLengthError(seen: string): Error {
  return invalidMedia(
    `The recording lasts ${seen}; send ${MIN_SECONDS} to ${MAX_SECONDS} s of one person speaking.`,
  );
}

function requireSound(samples: Float32Array): void {
  if (samples.some((sample) => Math.abs(sample) >= SILENT_PEAK)) return;
  throw invalidMedia("The recording is silent; send one person speaking.");
}

const DEFAULT_RATE_HZ = 16_000;
const OUTPUT = "embeddings";
/** Number added to the variance, as in the feature extractor of x-vector models. */
const EPSILON = 1e-7;

interface SpeakerEncoderOptions extends Pick<OpenContext, "backend" | "onProgress"> {
  /** Width of the speaker embedding that the synthesizer takes. */
  readonly width: number;
  /** The language that recordings are assumed to have, as a BCP 47 tag. */
  readonly language: string;
}

/** An x-vector model, which computes a speaker embedding from a recording. */
export interface SpeakerEncoder extends VoiceCloner {
  dispose(): Promise<void>;
}

/**
 * @throws {StartupError} when the folder does not hold an x-vector model, or the model's embeddings have another width.
 */
export function openSpeakerEncoder(
  path: string,
  options: SpeakerEncoderOptions,
): Promise<SpeakerEncoder> {
  return runStartupStep(() => open(path, options), (reason) => reason, "speakerEncoderFolder");
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
    of: "the folder does not hold a speaker-embedding model: its graph",
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
  // A first run on a second of a tone checks the output and compiles the kernels.
  const tone = Float32Array.from({ length: sampleRateHz }, (_, i) => 0.1 * Math.sin(i / 20));
  const { length } = await embed(tone);
  if (length !== width) {
    throw new StartupError(
      `the model returns ${length} numbers for a speaker; the synthesizer takes ${width}.`,
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
  throw invalidMedia("The recording's voice cannot be determined.");
}
