/**
 * From a folder of kind `ocr` to a model that reads pictures.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import type { Dtype } from "../config.ts";
import { StartupError } from "../errors.ts";
import { EncoderDecoderGraphs } from "./encoder_decoder_graphs.ts";
import { openFlorence } from "./florence.ts";
import { type Json, type ModelFolder, readOptionalJson } from "./folder.ts";
import { type GenerationDefaults, readGenerationDefaults } from "./generation_defaults.ts";
import { readGenerationRules } from "./generation_rules.ts";
import { isLineOcr } from "./line_ocr_config.ts";
import { loadLineOcr } from "./line_ocr_load.ts";
import { disposeTensors } from "./merged_decoder.ts";
import type { Model } from "./model.ts";
import { OcrModel } from "./ocr.ts";
import type { FamilyOptions, OcrFamily } from "./ocr_family.ts";
import { PictureReader } from "./picture_reader.ts";
import type { LoadProgress } from "./progress.ts";
import { loadTokenizer } from "./tokenizer.ts";
import { openVisionEncoderDecoder } from "./vision_encoder_decoder.ts";

/** How to load. */
export interface OcrLoadOptions {
  readonly backend: Backend;
  readonly dtype?: Dtype | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
  /** Most requests at a time. */
  readonly maxSequences?: number | undefined;
}

/** Most requests at a time where the user does not say. */
const MAX_REQUESTS = 8;
/** Choices that a request may ask for. */
const MAX_CHOICES = 16;
/** Most values of prepared pictures in one run of the encoder: its activations take some hundred times that. */
const MAX_ENCODER_VALUES = 2 ** 22;
const WHITE = 255;

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
  const reader = await PictureReader.load(folder);
  const family = openFamily({ config, tokenizer, reader });
  const graphs = await EncoderDecoderGraphs.load(folder, options);
  options.onProgress({ what: "warming up" });
  const { numPlaces, vocabSize } = await warmUp({ graphs, family, reader });
  const maxDecoderTokens = readPositions(config);
  const maxRequests = options.maxSequences ?? MAX_REQUESTS;
  const defaults = readDefaults(config);
  return new OcrModel({
    backend: options.backend,
    graphs,
    reader,
    family,
    tokenizer,
    defaults,
    rules: readGenerationRules(config, { vocabSize, eosTokenIds: defaults.eosTokenIds }),
    maxDecoderTokens,
    maxTextTokens: Math.max(0, maxDecoderTokens - numPlaces),
    maxEncoderValues: MAX_ENCODER_VALUES,
    maxRequests,
    sampler: options.backend.openSampler({
      vocabSize,
      dtype: graphs.logitsDtype,
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

/** The first run, before anybody waits for it: it compiles the device's programs, and tells sizes. */
async function warmUp(
  { graphs, family, reader }: {
    readonly graphs: EncoderDecoderGraphs;
    readonly family: OcrFamily;
    readonly reader: PictureReader;
  },
): Promise<{ numPlaces: number; vocabSize: number }> {
  const { text, prompt } = family.readPrompt("hello");
  const data = new Uint8Array(64 * 64 * 3).fill(WHITE);
  const { pixels } = await reader.prepare({ width: 64, height: 64, channels: 3, data });
  const hidden = await graphs.encode({ pixels, texts: [text] });
  const numPlaces = hidden.dims[1]! - text.length;
  const first = await graphs.step(await graphs.begin(hidden), [prompt[0]!]);
  const second = await graphs.step(first.state, [prompt[0]!]);
  for (const { logits, state } of [first, second]) {
    logits.dispose();
    disposeTensors(state.self);
  }
  disposeTensors(first.state.cross);
  return { numPlaces, vocabSize: first.logits.dims.at(-1)! };
}
