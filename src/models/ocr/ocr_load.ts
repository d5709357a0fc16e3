/**
 * Opens an image-to-text model of one of the families TrOCR and Donut (`vision-encoder-decoder`) or Florence-2.
 *
 * @module
 */
import { dirname } from "node:path";
import { encodePng } from "../../media/image/png.ts";
import { loadTransformers, type Transformers } from "../../device/ort/hook.ts";
import { Tensor } from "../../device/ort/ort.ts";
import { type Json, readNumber, readOptionalJson, requireNumber } from "../../hub/model_folder.ts";
import { type GenerationDefaults, readGenerationDefaults } from "../text/chat_generation.ts";
import { readGenerationRules } from "./generation_rules.ts";
import type { Model, OpenContext } from "../model.ts";
import {
  ImageMetrics,
  type OcrFamily,
  OcrModel,
  type OcrModelParts,
  type OcrPrompt,
} from "./ocr.ts";
import { loadEncoderDecoder } from "../folder/decoder_load.ts";
import { warmUp } from "../../engine/generate.ts";
import { ImageEncoder, type ImageInput } from "./image_encoder.ts";
import { ImagePreprocessor } from "../images/image_preprocessor.ts";
import { loadTokenizer, type TextTokenizer } from "../text/tokenizer.ts";
import { HearthError } from "../../base/errors.ts";

/** Configuration keys for the number of decoder positions. */
const POSITIONS = ["max_position_embeddings", "n_positions", "max_target_positions"];
/** Default for the maximum number of requests at a time. */
const MAX_REQUESTS = 8;
/** Memory in bytes for the keys and values of images, unless one image needs more. */
const IMAGE_BYTES = 2 ** 29;
/** Maximum number of pixel values in one run of the encoder; its activations have about a hundred times as many. */
const MAX_ENCODER_VALUES = 2 ** 22;

/** @throws {StartupError} when a file is missing from the folder. */
export async function loadOcr(
  context: OpenContext,
  name: keyof typeof FAMILIES,
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
  const family = FAMILIES[name]({ config, tokenizer, preprocessor, transformers });
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
    // A second size shows whether the number of positions depends on the size of the image.
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

/** Opens the decoder and runs encoder and decoder once. */
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
  // If the encoder reads a text too, the text's positions follow the image's.
  const maxPositions = encoder.readsText ? Math.max(numPositions, maxTokens) : numPositions;
  const hasOneSize = input.pixels.dims.join() === otherInput.pixels.dims.join();
  const { embedding } = encoder;
  const decoder = await loadEncoderDecoder<ImageInput>({
    ...context,
    vocabSize: Number(config["vocab_size"]),
    contextLength: maxTokens,
    numPositions: hasOneSize ? maxPositions : undefined,
    maxSequences: Math.min(maxRequests, countFittingSequences(config, maxPositions)),
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

/**
 * Computes the number of images whose keys and values, a pair for each position and layer, fit into memory together.
 */
function countFittingSequences(config: Json, numPositions: number): number {
  const perPosition = 2 * Float32Array.BYTES_PER_ELEMENT * (readNumber(config, "d_model") ?? 1024) *
    (readNumber(config, "decoder_layers") ?? 12);
  return Math.max(1, Math.floor(IMAGE_BYTES / (perPosition * numPositions)));
}

/** Merges configurations like `generate()` of transformers.js: later ones override earlier ones. */
function mergeConfig(config: Json, generationConfig: Json): Json {
  const parts = ["decoder", "generator", "text_config"].map((name) => config[name] as Json);
  return Object.assign({}, config, ...parts, generationConfig);
}

/** Reads the generation defaults. OCR is greedy unless the folder asks for sampling. */
function readDefaults(config: Json): GenerationDefaults {
  const defaults = readGenerationDefaults(config, config);
  if (config["do_sample"] === true) return defaults;
  return { ...defaults, sampling: { ...defaults.sampling, temperature: 0 } };
}

/** Prepares a white image for the first runs, which compile kernels and show sizes that no configuration gives. */
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

interface OcrFamilyOptions {
  /** The folder's merged configuration, see {@linkcode mergeConfig}. */
  readonly config: Json;
  readonly tokenizer: TextTokenizer;
  /** The folder's `preprocessor_config.json`. */
  readonly preprocessor: Json;
  readonly transformers: Transformers;
}

/**
 * Reads the decoder start token.
 *
 * @throws {StartupError} when the configuration has none.
 */
function readStartToken(config: Json): number {
  return requireNumber(config, "decoder_start_token_id", "bos_token_id");
}

/** Lists start, end and padding tokens. The other special tokens are tags, which are part of the answer. */
function listHiddenTokens({ config }: OcrFamilyOptions): ReadonlySet<number> {
  const names = ["bos_token_id", "eos_token_id", "pad_token_id"];
  return new Set(names.flatMap((name) => config[name] ?? []) as number[]);
}

const TAG = /^<s_[^>]*>/;
/** The separator of list items in all Donut models. */
const DONUT_SEPARATOR = "<sep/>";
/** The tags of models that answer questions. */
const QUESTION = {
  task: "<s_docvqa>",
  begin: "<s_question>",
  end: "</s_question>",
  answer: "<s_answer>",
  answerEnd: "</s_answer>",
} as const;

/**
 * Opens TrOCR, Donut and similar models: an encoder for the image, and a decoder that begins with a start token or a
 * task.
 *
 * TrOCR takes no instructions, so a request's text is ignored. Donut takes tasks that are spelled as tags
 * (`<s_cord-v2>`). A text that begins with a tag is the task. Any other text is a question, if the model was trained on
 * questions. The answers contain tags.
 *
 * @throws {StartupError} when the configuration has no decoder start token.
 */
function openVisionEncoderDecoder(options: OcrFamilyOptions): OcrFamily {
  const { config, tokenizer } = options;
  const startToken = readStartToken(config);
  const hasTags = TAG.test(tokenizer.tokenTexts.of(startToken).token) ||
    tokenizer.tokenToId(DONUT_SEPARATOR) !== undefined;
  const answersQuestions = tokenizer.tokenToId(QUESTION.begin) !== undefined;
  const ask = (question: string): OcrPrompt => {
    if (question === "") {
      throw new HearthError(
        "invalid_value",
        "messages: this model answers questions about an image; want a text part with a question, saw none.",
        { param: "messages" },
      );
    }
    const { task, begin, end, answer, answerEnd } = QUESTION;
    return {
      text: [],
      prompt: tokenizer.encode(`${task}${begin}${question}${end}${answer}`),
      endToken: tokenizer.tokenToId(answerEnd),
    };
  };
  return {
    hidden: hasTags ? listHiddenTokens(options) : tokenizer.findHiddenTokens([]),
    readPrompt: (text) => {
      const tag = TAG.exec(text)?.[0];
      if (tag !== undefined && tokenizer.tokenToId(tag) !== undefined) {
        return { text: [], prompt: tokenizer.encode(text) };
      }
      return answersQuestions ? ask(text) : { text: [], prompt: [startToken] };
    },
  };
}

const DEFAULT_TASK = "<OCR>";
/** Kinds of answers with locations that transformers.js can parse. */
const WITH_LOCATIONS = new Set(["description_with_bboxes", "bboxes", "phrase_grounding", "ocr"]);

/**
 * Opens Florence-2. Tasks are spelled `<OCR>`, `<CAPTION>`, `<OCR_WITH_REGION>` and so on; some are followed by a text.
 * A request without text means `<OCR>`. Tasks with locations are answered in JSON, with coordinates in pixels of the
 * image.
 *
 * @throws {StartupError} when the configuration has no decoder start token.
 */
function openFlorence(options: OcrFamilyOptions): OcrFamily {
  const { config, tokenizer, preprocessor, transformers } = options;
  const startToken = readStartToken(config);
  const processor = new transformers.Florence2Processor(
    {},
    // Only the configuration is used here, as images are preprocessed elsewhere.
    { image_processor: { config: preprocessor } },
    null,
  );
  const tasksWithLocations = [...processor.tasks_answer_post_processing_type]
    .flatMap(([task, kind]) => WITH_LOCATIONS.has(kind) ? [task] : []);
  return {
    hidden: listHiddenTokens(options),
    readPrompt: (text) => {
      const asked = text === "" ? DEFAULT_TASK : text;
      const task = tasksWithLocations.find((each) => asked.startsWith(each));
      return {
        text: tokenizer.encodeWhole(processor.construct_prompts(asked)[0]!),
        prompt: [startToken],
        finish: task === undefined ? undefined : (answer, { width, height }) => {
          const placed = processor.post_process_generation(answer, task, [width, height]);
          return JSON.stringify(placed[task]);
        },
      };
    },
  };
}

const FAMILIES = { visionEncoderDecoder: openVisionEncoderDecoder, florence: openFlorence };
