/**
 * Prepares sounds for the audio encoders of chat models: Gemma 3n's and Gemma 4's.
 *
 * @module
 */
import { isRecord } from "../../base/json.ts";
import { countUsmFrames, readUsmSpec, UsmFeatures } from "../../../kernels/log_mel/usm_features.ts";
import { HearthError, StartupError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { yieldToEvents } from "../../base/timing.ts";
import {
  type Json,
  type ModelFolder,
  readNumber,
  readOptionalJson,
} from "../../hub/model_folder.ts";
import { AudioReader } from "../../media/audio.ts";
import type { PreparedMedium } from "../images/vision_processor.ts";

/** The preprocessing of sounds in a model family. */
interface SoundFamily {
  /** Placeholder of a sound in the rendered chat template. */
  readonly placeholder: string;
  readonly sampleRateHz: number;
  /** Minimum number of samples of a sound. */
  readonly minSamples: number;
  /** Maximum number of samples of a sound. */
  readonly maxSamples: number;
  /** Computes the features of a sound. */
  prepare(samples: Float32Array): Promise<PreparedMedium>;
}

/** The files that describe a family's preprocessing. */
interface SoundFiles {
  readonly processor: Json;
  readonly tokenizer: Json;
  /** The settings of the feature extractor. */
  readonly extractor: Json;
}

/** Families by `model_type`. */
const FAMILIES: Readonly<Record<string, (files: SoundFiles) => SoundFamily>> = {
  gemma3n: (files) =>
    openGemma(files, {
      isSemicausal: false,
      tokens: ["<start_of_audio>", "<audio_soft_token>", "<end_of_audio>"],
      // The prompt always has the maximum number of tokens, whatever the length of the sound.
      countTokens: (_, most) => most,
      mostTokens: 188,
      framesPerToken: 16,
    }),
  gemma4: (files) =>
    openGemma(files, {
      isSemicausal: true,
      tokens: ["<|audio>", "<|audio|>", "<audio|>"],
      // Each of two convolutions halves the number of frames.
      countTokens: (numFrames, most) => Math.min(Math.ceil(Math.ceil(numFrames / 2) / 2), most),
      mostTokens: 750,
      framesPerToken: 4,
    }),
};

/** Maximum number of samples that the feature extractors take: 30 s. */
const MAX_SAMPLES = 480_000;
/** Number of frames computed before the thread yields: a few milliseconds of work. */
const MAX_BUSY_FRAMES = 100;

function openGemma(
  { processor, tokenizer, extractor }: SoundFiles,
  { isSemicausal, tokens, countTokens, mostTokens, framesPerToken }: {
    readonly isSemicausal: boolean;
    /** The tokens for the beginning, each row and the end, unless the tokenizer's configuration names others. */
    readonly tokens: readonly [string, string, string];
    readonly countTokens: (numFrames: number, most: number) => number;
    /** Maximum number of tokens of a sound, unless the processor has an `audio_seq_length`. */
    readonly mostTokens: number;
    readonly framesPerToken: number;
  },
): SoundFamily {
  const spec = readUsmSpec(extractor, { isSemicausal });
  const features = new UsmFeatures(spec);
  const [begin, each, end] = ["boa_token", "audio_token", "eoa_token"].map((name, i) => {
    const token = tokenizer[name];
    return typeof token === "string" ? token : tokens[i]!;
  }) as [string, string, string];
  const most = readNumber(processor, "audio_seq_length") ?? mostTokens;
  return {
    placeholder: each,
    sampleRateHz: spec.sampleRateHz,
    minSamples: spec.frameSamples + 1,
    maxSamples: Math.min(MAX_SAMPLES, most * framesPerToken * spec.hopSamples),
    prepare: async (samples) => {
      const input = await features.compute(samples, {
        yieldEvery: MAX_BUSY_FRAMES,
        yieldToOthers: yieldToEvents,
      });
      const numFrames = input.mask.length;
      const numTokens = countTokens(countUsmFrames(spec, samples.length), most);
      return {
        text: `\n\n${begin}${each.repeat(numTokens)}${end}\n\n`,
        tensors: {
          input_features: {
            type: "float32",
            data: input.features,
            dims: [1, numFrames, spec.mels],
          },
          input_features_mask: { type: "bool", data: input.mask, dims: [1, numFrames] },
        },
      };
    },
  };
}

export class SoundProcessor {
  readonly #family: SoundFamily;
  readonly #ffmpeg: string | undefined;

  private constructor(family: SoundFamily, ffmpeg: string | undefined) {
    this.#family = family;
    this.#ffmpeg = ffmpeg;
  }

  /**
   * Reads a folder's settings for sounds.
   *
   * @throws {StartupError} when there are none, or they are not supported.
   */
  static async open(
    folder: ModelFolder,
    { ffmpeg }: { readonly ffmpeg?: string | undefined } = {},
  ): Promise<SoundProcessor> {
    const processor = await readOptionalJson(folder, "processor_config.json");
    const preprocessor = await readOptionalJson(folder, "preprocessor_config.json");
    const tokenizer = await readOptionalJson(folder, "tokenizer_config.json");
    const extractor = [processor["feature_extractor"], preprocessor["feature_extractor"]]
      .find(isRecord) ?? ("feature_extractor_type" in preprocessor ? preprocessor : undefined);
    if (extractor === undefined) {
      throw new StartupError(
        "neither processor_config.json nor preprocessor_config.json has a feature_extractor",
      );
    }
    const type = String(folder.config["model_type"]);
    return new SoundProcessor(FAMILIES[type]!({ processor, tokenizer, extractor }), ffmpeg);
  }

  get placeholder(): string {
    return this.#family.placeholder;
  }

  /** Preprocesses a second of silence. */
  async prepareSilence(): Promise<PreparedMedium> {
    return await this.#family.prepare(new Float32Array(this.#family.sampleRateHz));
  }

  /**
   * Decodes a recording and computes its features.
   *
   * @throws {HearthError} `invalid_media` when the recording cannot be read, or is too long or too short for the model.
   * @throws the signal's reason.
   */
  async prepare(bytes: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<PreparedMedium> {
    const { sampleRateHz, minSamples, maxSamples, prepare } = this.#family;
    const decoding = { sampleRateHz, signal, ffmpeg: this.#ffmpeg };
    await using reader = new AudioReader(bytes, decoding);
    const samples = await reader.read(0, maxSamples + 1);
    if (samples.length > maxSamples) {
      throw new HearthError(
        "invalid_media",
        `The sound lasts longer than ${maxSamples / sampleRateHz} s, ` +
          "the limit of this model: send it in parts.",
      );
    }
    if (reader.truncated !== undefined) {
      log.warn("a sound file is truncated: the model gets only the part that is there", {
        message: reader.truncated,
      });
    }
    if (samples.length < minSamples) {
      const [seen, wanted] = [samples.length, minSamples].map((count) =>
        (count / sampleRateHz).toFixed(3)
      );
      throw new HearthError(
        "invalid_media",
        `The sound lasts ${seen} s, but this model takes only sounds of at least ${wanted} s.`,
      );
    }
    return await prepare(samples);
  }
}
