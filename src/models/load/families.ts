/**
 * The registry of model families: how the folders of each family are recognised, which graphs run and what opens them.
 * A folder belongs to the first family that matches it.
 *
 * This module imports no loader, so identifying a folder loads none of the packages that loaders need.
 *
 * @module
 */
import type { ModelKind } from "../../base/config.ts";
import { hasGraph, listDtypes, type ModelFolder } from "../../hub/model_folder.ts";
import {
  listAllGraphs,
  listGraphsBeside,
  listGraphsNamed,
  MERGED,
  type WantedGraph,
} from "../folder/graph_choice.ts";
import { findSentenceModelType } from "../embedding/embedding_config.ts";
import { hasVariant } from "../folder/graph_variants.ts";
import { findBareGraph, isBareMatting, isMatting } from "../matting/matting_family.ts";
import { isPaddleOcr, listPaddleGraphs } from "../ocr/paddle_graphs.ts";
import { toModelName } from "../../hub/cache.ts";
import type { LOADERS } from "./loaders.ts";

export interface Family {
  /** The `model_type` of its folders if they have one, otherwise a name chosen here. */
  readonly name: string;
  readonly kind: ModelKind;
  /** Whether a folder belongs to this family. */
  matches(folder: ModelFolder): boolean;
  /** Like `matches`, but for a folder whose kind the user has given; `matches` itself if absent. */
  accepts?(folder: ModelFolder): boolean;
  /** The graphs that run, the main one first. */
  graphs(folder: ModelFolder): readonly WantedGraph[];
  /** Files needed in addition to graphs and configuration. */
  readonly files?: RegExp;
  /** The name of its loader. Only the thread that owns the device imports loaders. */
  readonly loader: keyof typeof LOADERS;
  /** Whether it clones voices from speaker embeddings of an x-vector model (`--speaker-encoder`). */
  readonly takesSpeakerEncoder?: boolean;
}

/** Whether one of the names in the configuration's `architectures` matches. */
export function isBuiltAs({ config }: ModelFolder, pattern: RegExp): boolean {
  const value = config["architectures"];
  return Array.isArray(value) &&
    value.some((name) => typeof name === "string" && pattern.test(name));
}

/** Whether the configuration's `model_type` is one of `types`. */
export function isOfType({ config }: ModelFolder, ...types: readonly string[]): boolean {
  return types.includes(String(config["model_type"] ?? ""));
}

/** Whether the configuration's `task` is this one, regardless of the architecture. */
function isForTask({ config }: ModelFolder, task: string): boolean {
  return config["task"] === task;
}

const VOICES = /^(voices\/|speaker_embeddings\.bin$|default_voice\.wav$)/;

/** Makes a family of speech recognition models, recognised by `model_type`. */
function makeAsrFamily(
  name: string,
  types: readonly string[],
  options: Pick<Family, "graphs" | "files" | "loader">,
): Family {
  return { name, kind: "asr", matches: (folder) => isOfType(folder, ...types), ...options };
}

/**
 * Makes a family of speech synthesis models, recognised by `model_type`. Unless `graphs` is given, all graphs of the
 * folder run, in dtypes that suit sound.
 */
function makeTtsFamily(
  type: Family["loader"],
  options: Partial<Pick<Family, "graphs" | "takesSpeakerEncoder">> = {},
): Family {
  return {
    name: type,
    kind: "tts",
    matches: (folder) => isOfType(folder, type),
    graphs: listSoundGraphs,
    files: VOICES,
    loader: type,
    ...options,
  };
}

function listSoundGraphs(folder: ModelFolder): WantedGraph[] {
  return listAllGraphs(MERGED)(folder).map((graph) => ({ ...graph, suits: "sound" }));
}

/** The decoder's graph, and the graph of token embeddings if it is separate. */
function listTextGraphs(folder: ModelFolder): WantedGraph[] {
  const has = (name: string) => listDtypes(folder, name).length > 0 || hasVariant(folder, name);
  const main = { name: !has("model") && has(MERGED) ? MERGED : "model" };
  const needsEmbeddings = main.name === MERGED && has("embed_tokens");
  return needsEmbeddings ? [main, { name: "embed_tokens" }] : [main];
}

/** Types of chat models with audio input: those for which `vision/sound_processor.ts` prepares sounds. */
const HEARING_TYPES = ["gemma3n", "gemma4"];

/** The graphs of a vision-language model: decoder, image encoder, and audio encoder if it is served. */
function listVisionGraphs(folder: ModelFolder): WantedGraph[] {
  const hears = isOfType(folder, ...HEARING_TYPES) && hasGraph(folder, "audio_encoder");
  const names = hears ? ["vision_encoder", "audio_encoder"] : ["vision_encoder"];
  return [...listTextGraphs(folder), ...names.map((name) => ({ name }))];
}

/** Whether a folder holds a vision-language decoder rather than an encoder-decoder for images. */
function isVisionLanguageModel(folder: ModelFolder): boolean {
  return hasGraph(folder, "vision_encoder") && !hasGraph(folder, "encoder_model");
}

/**
 * Whether a language model was trained to embed or to rerank. Such models keep the architecture of the language model,
 * so they are recognised by the folder's name and by a single graph that takes tokens.
 */
function isDecoderFor(folder: ModelFolder, kind: "embedding" | "rerank"): boolean {
  const name = toModelName(folder.path);
  const isNamed = kind === "rerank" ? /rerank/i.test(name) : /embed/i.test(name);
  return isNamed && isBuiltAs(folder, /ForCausalLM$/) &&
    !hasGraph(folder, "vision_encoder") && !hasGraph(folder, MERGED);
}

const SEQ2SEQ = listGraphsNamed(MERGED, "encoder_model");
const AUDIO_AND_TEXT = listGraphsNamed(MERGED, "embed_tokens", "audio_encoder");
const WITH_CTC_HEADS = [
  "wav2vec2",
  "wav2vec2-bert",
  "wavlm",
  "hubert",
  "unispeech",
  "unispeech-sat",
  "parakeet_ctc",
];
/** A single graph that runs the texts or images of many requests in batches. */
const ONE_GRAPH_IN_BATCHES = (): WantedGraph[] => [{ name: "model", suits: "batches" }];

/** Chooses the graph. If a folder has a single graph, the graph may have any name, such as rembg's `u2net.onnx`. */
function chooseMattingGraphs(folder: ModelFolder): readonly WantedGraph[] {
  const bare = findBareGraph(folder);
  const [graph] = ONE_GRAPH_IN_BATCHES();
  return [bare === undefined ? graph! : { ...graph!, paths: { fp32: bare } }];
}

/** All families, in the order in which they are tried. */
export const FAMILIES: readonly Family[] = [
  {
    name: "text-generation",
    kind: "text",
    matches: (folder) => isForTask(folder, "text-generation"),
    graphs: listTextGraphs,
    loader: "text",
  },
  makeAsrFamily("whisper", ["whisper", "lite-whisper"], { graphs: SEQ2SEQ, loader: "whisper" }),
  makeAsrFamily("moonshine", ["moonshine"], { graphs: SEQ2SEQ, loader: "moonshine" }),
  makeAsrFamily("cohere_asr", ["cohere_asr"], { graphs: SEQ2SEQ, loader: "cohere" }),
  makeAsrFamily("granite_speech", ["granite_speech"], {
    graphs: AUDIO_AND_TEXT,
    loader: "granite",
  }),
  makeAsrFamily("voxtral", ["voxtral"], { graphs: AUDIO_AND_TEXT, loader: "voxtral" }),
  {
    name: "wav2vec2 and all others with a CTC head",
    kind: "asr",
    // A known `model_type` matches regardless of its head: the loader's error then says which head is needed.
    matches: (folder) => isBuiltAs(folder, /ForCTC$/) || isOfType(folder, ...WITH_CTC_HEADS),
    graphs: listGraphsNamed("model"),
    loader: "ctc",
  },
  makeAsrFamily("nemo-conformer-tdt", ["nemo-conformer-tdt"], {
    graphs: listGraphsBeside("encoder-model", "decoder_joint-model", "nemo128"),
    files: /^vocab\.txt$/,
    loader: "tdt",
  }),
  makeTtsFamily("chatterbox", {
    // The language model outputs tokens rather than sound, so its dtype is not limited.
    graphs: (folder) =>
      listAllGraphs("language_model")(folder).map((graph) =>
        graph.name === "language_model" ? graph : { ...graph, suits: "sound" }
      ),
  }),
  makeTtsFamily("style_text_to_speech_2"),
  makeTtsFamily("supertonic"),
  makeTtsFamily("vits"),
  makeTtsFamily("speecht5", { takesSpeakerEncoder: true }),
  {
    name: "vision-encoder-decoder",
    kind: "ocr",
    matches: (folder) => isOfType(folder, "vision-encoder-decoder"),
    graphs: SEQ2SEQ,
    loader: "visionEncoderDecoder",
  },
  {
    name: "florence2",
    kind: "ocr",
    matches: (folder) => isOfType(folder, "florence2"),
    graphs: listGraphsNamed(MERGED, "encoder_model", "vision_encoder", "embed_tokens"),
    loader: "florence",
  },
  {
    name: "detection and recognition of lines",
    kind: "ocr",
    matches: (folder) =>
      isForTask(folder, "ocr") && "detection" in folder.config && "recognition" in folder.config,
    graphs: listAllGraphs(),
    loader: "lineOcr",
  },
  {
    name: "PP-OCR as it is published",
    kind: "ocr",
    matches: isPaddleOcr,
    graphs: listPaddleGraphs,
    files: /^([^/]+\/)?[^/]*((dict|keys|char)[^/]*\.txt|\.ya?ml)$/i,
    loader: "paddleOcr",
  },
  {
    name: "vision-language decoders for OCR, such as glm_ocr and lighton_ocr",
    kind: "ocr",
    matches: (folder) =>
      isOfType(folder, "glm_ocr", "lighton_ocr") ||
      (isForTask(folder, "ocr") && isVisionLanguageModel(folder)),
    accepts: isVisionLanguageModel,
    graphs: listVisionGraphs,
    loader: "visionOcr",
  },
  {
    name: "background-removal",
    kind: "matting",
    matches: (folder) =>
      isForTask(folder, "background-removal") || isMatting(folder.config) ||
      isBuiltAs(folder, /ImageMatting/i) || isBareMatting(findBareGraph(folder)),
    accepts: () => true,
    graphs: chooseMattingGraphs,
    loader: "matting",
  },
  {
    name: "embedding",
    kind: "embedding",
    matches: (folder) =>
      findSentenceModelType(folder) === "SentenceTransformer" ||
      // `embedding_gemma2` also takes images and sounds, but only texts are embedded here.
      isOfType(folder, "embedding_gemma2"),
    accepts: () => true,
    graphs: ONE_GRAPH_IN_BATCHES,
    loader: "embedding",
  },
  {
    name: "rerank",
    kind: "rerank",
    matches: (folder) =>
      findSentenceModelType(folder) === "CrossEncoder" ||
      isBuiltAs(folder, /ForSequenceClassification$/) || isDecoderFor(folder, "rerank"),
    accepts: () => true,
    graphs: ONE_GRAPH_IN_BATCHES,
    loader: "rerank",
  },
  {
    name: "vision",
    kind: "vision",
    matches: (folder) => hasGraph(folder, "vision_encoder"),
    accepts: () => true,
    graphs: listVisionGraphs,
    loader: "vision",
  },
  {
    name: "embedding by a decoder",
    kind: "embedding",
    matches: (folder) => isDecoderFor(folder, "embedding"),
    graphs: ONE_GRAPH_IN_BATCHES,
    loader: "embedding",
  },
  {
    name: "text",
    kind: "text",
    matches: (folder) => isBuiltAs(folder, /ForCausalLM$|LMHeadModel$|ForConditionalGeneration$/),
    accepts: () => true,
    graphs: listTextGraphs,
    loader: "text",
  },
  {
    name: "embedding by an encoder",
    kind: "embedding",
    matches: (folder) => isBuiltAs(folder, /Model$|ForMaskedLM$/),
    graphs: ONE_GRAPH_IN_BATCHES,
    loader: "embedding",
  },
];
