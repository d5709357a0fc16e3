/**
 * From a folder of kind `ocr` to a model that reads pictures.
 *
 * @module
 */
import { dirname } from "node:path";
import type { Backend } from "../../backend/backend.ts";
import { deviceClassOf } from "../../backend/device_class.ts";
import type { Dtype } from "../../config.ts";
import { StartupError } from "../../errors.ts";
import { loadTransformers } from "../../onnx/hook.ts";
import { openFlorence } from "./florence.ts";
import {
  chooseDtype,
  graphFile,
  type Json,
  type ModelFolder,
  readOptionalJson,
} from "../../hub/model_folder.ts";
import { type GenerationDefaults, readGenerationDefaults } from "../generation_defaults.ts";
import { readGenerationRules } from "./generation_rules.ts";
import { isLineOcr } from "./line_ocr_config.ts";
import { loadLineOcr } from "./line_ocr_load.ts";
import type { Model } from "../model.ts";
import { OcrModel } from "./ocr.ts";
import { DECODER, openOcrDecoder } from "./ocr_decoder.ts";
import type { FamilyOptions, OcrFamily } from "./ocr_family.ts";
import { PictureEncoder } from "./picture_encoder.ts";
import { probeDecoder, probeEncoder } from "./ocr_probe.ts";
import { PictureDesk } from "./picture_desk.ts";
import type { LoadProgress } from "../progress.ts";
import { loadTokenizer, type TextTokenizer } from "../tokenizer.ts";
import { openVisionEncoderDecoder } from "./vision_encoder_decoder.ts";

/** How to load. */
export interface OcrLoadOptions {
  readonly backend: Backend;
  readonly dtype?: Dtype | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
  /** Most requests at a time. */
  readonly maxSequences?: number | undefined;
  /** Largest picture that is decoded, in pixels; the decoder's own limit if absent. */
  readonly maxImagePixels?: number | undefined;
}

/** Most requests at a time where the user does not say. */
const MAX_REQUESTS = 8;
/** Choices that a request may ask for. */
const MAX_CHOICES = 16;
/** Most values of prepared pictures in one run of the encoder: its activations take some hundred times that. */
const MAX_ENCODER_VALUES = 2 ** 22;

/** By `model_type`. */
const FAMILIES: Readonly<Record<string, (options: FamilyOptions) => OcrFamily>> = {
  "vision-encoder-decoder": openVisionEncoderDecoder,
  florence2: openFlorence,
};

/** @throws {StartupError} when the folder is of no known family, or lacks a part. */
export async function loadOcr(folder: ModelFolder, options: OcrLoadOptions): Promise<Model> {
  if (isLineOcr(folder)) return await loadLineOcr(folder, options);
  const type = String(folder.config["model_type"]);
  const openFamily = FAMILIES[type];
  if (openFamily === undefined) {
    throw new StartupError(
      `${folder.path} is an OCR model of type ${type}; this version of Hearth serves ${
        Object.keys(FAMILIES).join(", ")
      }, and folders whose config.json describes detection and recognition.`,
    );
  }
  options.onProgress({ what: "reading the tokenizer" });
  const tokenizer = await loadTokenizer(folder);
  const config = mergeConfig(
    folder.config,
    await readOptionalJson(folder, "generation_config.json"),
  );
  const transformers = await loadTransformers({ modelsFolder: dirname(folder.path) });
  const preprocessor = await readOptionalJson(folder, "preprocessor_config.json");
  const family = openFamily({ config, tokenizer, preprocessor, transformers });
  const desk = await PictureDesk.open({
    folder: folder.path,
    maxPixels: options.maxImagePixels,
  });
  try {
    return await loadGraphs(folder, { ...options, config, tokenizer, family, desk });
  } catch (error) {
    desk.close();
    throw error;
  }
}

/** What is known before the graphs are. */
interface LoadedSettings extends OcrLoadOptions {
  readonly config: Json;
  readonly tokenizer: TextTokenizer;
  readonly family: OcrFamily;
  readonly desk: PictureDesk;
}

async function loadGraphs(folder: ModelFolder, settings: LoadedSettings): Promise<OcrModel> {
  const { backend, config, family, desk, maxSequences: maxRequests = MAX_REQUESTS } = settings;
  const maxDecoderTokens = readPositions(config);
  const dtype = chooseDtype(folder, {
    graph: DECODER,
    device: deviceClassOf(backend),
    dtype: settings.dtype,
  });
  const encoder = await PictureEncoder.load(folder, { ...settings, dtype });
  settings.onProgress({ what: "warming up" });
  const probe = await probeEncoder(encoder, { family, desk });
  const decoder = await openOcrDecoder(folder, {
    ...settings,
    path: graphFile(DECODER, dtype),
    maxTokens: maxDecoderTokens,
    maxRows: maxRequests,
    numPlaces: probe.hasOneSize ? probe.numPlaces : undefined,
  });
  const vocabSize = await probeDecoder(decoder, { encoder, probe });
  const defaults = readDefaults(config);
  return new OcrModel({
    ...settings,
    encoder,
    decoder,
    dtype,
    defaults,
    rules: readGenerationRules(config, { vocabSize, eosTokenIds: defaults.eosTokenIds }),
    maxDecoderTokens,
    maxTextTokens: Math.max(0, maxDecoderTokens - probe.numPlaces),
    maxPictures: Math.max(1, Math.floor(MAX_ENCODER_VALUES / probe.pixels.size)),
    maxRequests,
    sampler: backend.openSampler({
      vocabSize,
      dtype: decoder.logitsDtype,
      maxRows: Math.max(maxRequests, MAX_CHOICES),
    }),
  });
}

/** Later ones win, as in `generate()` of transformers.js. */
function mergeConfig(config: Json, generationConfig: Json): Json {
  const parts = ["decoder", "generator", "text_config"].map((name) => config[name] as Json);
  return Object.assign({}, config, ...parts, generationConfig);
}

/** Reading is no matter of chance: greedy, unless the folder says otherwise. */
function readDefaults(config: Json): GenerationDefaults {
  const defaults = readGenerationDefaults(config, config);
  if (config["do_sample"] === true) return defaults;
  return { ...defaults, sampling: { ...defaults.sampling, temperature: 0 } };
}

/** Tokens that the decoder has positions for. */
function readPositions(config: Json): number {
  const names = ["max_position_embeddings", "n_positions", "max_target_positions"];
  const found = names.map((name) => config[name]).find((value) => typeof value === "number");
  if (typeof found === "number") return found;
  throw new StartupError(`The folder's config.json gives no ${names.join(" or ")}.`);
}
