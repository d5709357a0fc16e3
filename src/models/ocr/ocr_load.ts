/**
 * Opens an image-to-text model.
 *
 * @module
 */
import { dirname } from "node:path";
import { encodePng } from "../../media/image/png.ts";
import { loadTransformers } from "../../device/ort/hook.ts";
import { Tensor } from "../../device/ort/ort.ts";
import { type Json, numberAt, readOptionalJson, requireNumber } from "../../hub/model_folder.ts";
import { type GenerationDefaults, readGenerationDefaults } from "../text/chat_generation.ts";
import { readGenerationRules } from "./generation_rules.ts";
import type { Model, OpenContext } from "../model.ts";
import { ImageMetrics, OcrModel, type OcrModelParts } from "./ocr.ts";
import { loadEncoderDecoder } from "../folder/decoder_load.ts";
import { warmUp } from "../../engine/generate.ts";
import type { OcrFamily, OcrFamilyOptions } from "./ocr_families.ts";
import { ImageEncoder, type ImageInput } from "./image_encoder.ts";
import { ImagePreprocessor } from "../images/image_preprocessor.ts";
import { loadTokenizer } from "../text/tokenizer.ts";

/** Configuration keys for the number of decoder positions. */
const POSITIONS = ["max_position_embeddings", "n_positions", "max_target_positions"];
/** Default for the most requests at a time. */
const MAX_REQUESTS = 8;
/** Memory for the keys and values of images, unless one image needs more. */
const IMAGE_BYTES = 2 ** 29;
/** Most pixel values in one run of the encoder; its activations have about a hundred times as many. */
const MAX_ENCODER_VALUES = 2 ** 22;

/** @throws {StartupError} when a file is missing from the folder. */
export async function loadOcr(
  context: OpenContext,
  openFamily: (options: OcrFamilyOptions) => OcrFamily,
): Promise<Model> {
  const { folder, graphs, engine, onProgress } = context;
  onProgress({ what: "reading the tokenizer" });
  const tokenizer = await loadTokenizer(folder);
  const config = mergeConfig(
    folder.config,
    await readOptionalJson(folder, "generation_config.json"),
  );
  const transformers = await loadTransformers({ modelsFolder: dirname(folder.path) });
  const preprocessor = await readOptionalJson(folder, "preprocessor_config.json");
  const family = openFamily({ config, tokenizer, preprocessor, transformers });
  const imagePreprocessor = await ImagePreprocessor.open({
    processor: { load: "loadImageProcessor", folder: folder.path },
    maxPixels: engine.maxImagePixels,
  });
  using opened = new DisposableStack();
  opened.defer(() => imagePreprocessor.close());
  const maxTokens = requireNumber(config, ...POSITIONS);
  const encoder = await ImageEncoder.load(context);
  onProgress({ what: "warming up" });
  const metrics = new ImageMetrics();
  const maxRequests = engine.maxSequences ?? MAX_REQUESTS;
  const { text } = family.readPrompt("hello");
  const { decoder, numPositions } = await openDecoder(context, {
    input: { pixels: await prepareBlank(imagePreprocessor, 64, 64), text },
    // Shows whether the number of positions depends on the image's size.
    otherInput: { pixels: await prepareBlank(imagePreprocessor, 96, 64), text },
    ...{ config, encoder, maxTokens, metrics, maxRequests },
  });
  const { vocabSize } = decoder.limits;
  const defaults = readDefaults(config);
  opened.move();
  return new OcrModel({
    ...{ tokenizer, family, imagePreprocessor, encoder, decoder, metrics, defaults, maxRequests },
    dtype: graphs.main.dtype,
    rules: readGenerationRules(config, { vocabSize, eosTokenIds: defaults.eosTokenIds }),
    maxTextTokens: Math.max(0, maxTokens - numPositions),
  });
}

/** Opens the decoder, and runs encoder and decoder once. */
async function openDecoder(
  context: OpenContext,
  { config, encoder, maxTokens, metrics, maxRequests, input, otherInput }: {
    readonly config: Json;
    readonly encoder: ImageEncoder;
    readonly maxTokens: number;
    readonly metrics: ImageMetrics;
    readonly maxRequests: number;
    readonly input: ImageInput;
    /** Input for an image of another size. */
    readonly otherInput: ImageInput;
  },
): Promise<Pick<OcrModelParts, "decoder"> & { readonly numPositions: number }> {
  const hidden = await encoder.encode([input]);
  const numPositions = hidden.dims[1]! - input.text.length;
  hidden.dispose();
  // An encoded text follows the image, so positions for it are added.
  const maxPositions = encoder.readsText ? Math.max(numPositions, maxTokens) : numPositions;
  const hasOneSize = input.pixels.dims.join() === otherInput.pixels.dims.join();
  const { embedding } = encoder;
  const decoder = await loadEncoderDecoder<ImageInput>({
    ...context,
    vocabSize: Number(config["vocab_size"]),
    contextLength: maxTokens,
    numPositions: hasOneSize ? maxPositions : undefined,
    maxSequences: Math.min(maxRequests, fittingSequences(config, maxPositions)),
    encoder: {
      maxInputs: Math.max(1, Math.floor(MAX_ENCODER_VALUES / input.pixels.size)),
      isAlike: (one, other) => encoder.isAlike(one, other),
      encode: async (inputs) => {
        const observe = metrics.encoderSeconds.startTimer();
        const hidden = await encoder.encode(inputs);
        observe();
        metrics.images.inc(inputs.length);
        return hidden;
      },
    },
    openEmbedding: embedding && (() => Promise.resolve(embedding)),
  });
  await warmUp(decoder, input);
  return { decoder, numPositions };
}

/** The number of images whose keys and values, one pair for each position and layer, fit into memory together. */
function fittingSequences(config: Json, numPositions: number): number {
  const perPosition = 2 * Float32Array.BYTES_PER_ELEMENT * (numberAt(config, "d_model") ?? 1024) *
    (numberAt(config, "decoder_layers") ?? 12);
  return Math.max(1, Math.floor(IMAGE_BYTES / (perPosition * numPositions)));
}

/** Merges configurations as `generate()` of transformers.js does: later ones override earlier ones. */
function mergeConfig(config: Json, generationConfig: Json): Json {
  const parts = ["decoder", "generator", "text_config"].map((name) => config[name] as Json);
  return Object.assign({}, config, ...parts, generationConfig);
}

/** Default sampling: OCR is greedy unless the folder says otherwise. */
function readDefaults(config: Json): GenerationDefaults {
  const defaults = readGenerationDefaults(config, config);
  if (config["do_sample"] === true) return defaults;
  return { ...defaults, sampling: { ...defaults.sampling, temperature: 0 } };
}

/** A white image for the first runs: they compile the device's programs, and show sizes that no configuration gives. */
async function prepareBlank(
  imagePreprocessor: ImagePreprocessor,
  width: number,
  height: number,
): Promise<Tensor> {
  const white = new Uint8Array(width * height * 3).fill(255);
  const bytes = encodePng({ width, height, channels: 3, data: white });
  const { signal } = new AbortController();
  const { data, dims } = await imagePreprocessor.call("normalize", { bytes }, { signal });
  return new Tensor("float32", data, dims);
}
