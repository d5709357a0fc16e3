/**
 * Identifies the family of a folder. Models that are not served are recognised too, so that none of them is mistaken
 * for a model of another kind.
 *
 * @module
 */
import { isRecord } from "../../base/json.ts";
import { MODEL_KINDS, type ModelKind } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { toModelName } from "../../hub/cache.ts";
import { hasGraph, listOtherParts, locate, type ModelFolder } from "../../hub/model_folder.ts";
import { findSentenceModelType } from "../embedding/embedding_config.ts";
import { listModels } from "../folder/graph_variants.ts";
import { FAMILIES, type Family, isBuiltAs, isOfType } from "./families.ts";

/**
 * Identifies the family of a folder.
 *
 * @param kind detected from the folder if absent.
 * @throws {StartupError} when no family matches, or the model is of a kind that is not served; the message says what
 * was found.
 */
export function identifyFamily(folder: ModelFolder, kind?: ModelKind): Family {
  const ofKind = FAMILIES.filter((family) => kind === undefined || family.kind === kind);
  const matching = ofKind.find((family) => family.matches(folder));
  const { path, files, config } = folder;
  const models = listModels(folder);
  if (models.length > 1) {
    throw new StartupError(
      `${path} holds several models, ${
        models.join(", ")
      }: download it, then name the folder of one of them.`,
    );
  }
  const unserved = describeUnserved(folder, kind === undefined ? matching?.kind : undefined);
  if (unserved !== undefined) {
    throw new StartupError(`${path} ${unserved}: Hearth serves no such model.`);
  }
  const found = matching ?? (kind && ofKind.find((family) => family.accepts?.(folder)));
  if (found !== undefined) return found;
  const type = String(config["model_type"] ?? "");
  if (kind !== undefined) {
    throw new StartupError(
      `${path} has model_type "${type}". Of kind ${kind}, this version of Hearth serves the types ${
        ofKind.map(({ name }) => name).join(", ")
      }.`,
    );
  }
  if (!files.has("config.json")) {
    throw new StartupError(
      `${path} has no config.json. Wanted: a model in the layout of transformers.js (on the hub, names end in -ONNX); ` +
        'two PP-OCR graphs, one with "det" and one with "rec" in its name; or a background-removal graph, ' +
        "either with a name that rembg uses (u2net.onnx) or with --kind matting.",
    );
  }
  const task = describeTask(folder);
  if (task !== undefined) throw new StartupError(`${path} ${task}: Hearth serves no such model.`);
  const architectures = [config["architectures"] ?? []].flat().join(", ");
  throw new StartupError(
    `The kind of ${path} is unknown: config.json has model_type "${type}" and architectures ` +
      `[${architectures}]. Set its kind: ${MODEL_KINDS.join(", ")}.`,
    { setting: "kind" },
  );
}

interface Unserved {
  /** The kind of model, in the words of messages: "a translation model". */
  readonly is: string;
  readonly types: readonly string[];
}

const CODEC = "an audio codec, which turns sound into codes and back";

const UNSERVED: readonly Unserved[] = [
  {
    is:
      "a streaming speech recogniser, whose encoder keeps its own cache (of the Voxtral models, Mini 3B is served)",
    types: ["voxtral_realtime"],
  },
  {
    is:
      "a streaming speech recogniser, whose encoder keeps states of its own (Moonshine is served)",
    types: ["moonshine_streaming"],
  },
  {
    is:
      "a speech recogniser of a type that is not served (of NeMo's recognisers, Parakeet TDT is served)",
    types: [
      ...["nemo-conformer-rnnt", "nemo-conformer-aed", "nemo-conformer-ctc", "parakeet_rnnt"],
      ...[
        "parakeet_tdt",
        "canary",
        "sense_voice",
        "sensevoice",
        "paraformer",
        "fun_asr",
        "zipformer",
      ],
    ],
  },
  {
    is:
      "a language model with audio input whose audio encoder is not served (Gemma 3n's and Gemma 4's are served)",
    types: ["ultravox", "qwen2_audio", "qwen2_5_omni", "qwen3_omni_moe"],
  },
  {
    is: CODEC,
    types: ["snac", "mimi", "dac", "encodec", "xcodec", "xcodec2", "vocos"],
  },
  {
    is: "a translation model (an encoder-decoder)",
    types: ["marian", "m2m_100", "nllb-moe", "fsmt", "seamless_m4t", "seamless_m4t_v2"],
  },
  {
    is: "a segmentation model, which outlines the object that a user points at",
    types: ["sam", "sam_hq", "sam2", "sam2_video", "sam3", "sam3_tracker", "edgetam", "slimsam"],
  },
  { is: "a model that makes music or sounds", types: ["musicgen", "musicgen_melody", "bark"] },
  {
    is: "a model that compares images with texts",
    types: [
      ...["clip", "chinese_clip", "siglip", "siglip2", "jina_clip", "clipseg", "align", "blip"],
      ...["clip_vision_model", "clip_text_model", "siglip_vision_model", "siglip_text_model"],
      "metaclip_2",
    ],
  },
  { is: "a model that compares sounds with texts", types: ["clap"] },
  { is: "a model that tells speakers apart", types: ["wespeaker-resnet", "pyannote"] },
  {
    is: "a speech model of a type that is not served",
    types: ["csm", "dia", "parler_tts", "higgs_audio", "fish_qwen3_omni"],
  },
  { is: "a diffusion language model", types: ["Dream", "llada", "llada_moe"] },
  { is: "a model that finds names in a text by labels that are given with it", types: ["gliner"] },
  {
    is: "a model that finds objects in images",
    types: ["yolo", "yolov5", "yolov8", "yolov9", "yolov10", "yolo11", "yolov11", "yolo26"],
  },
  { is: "a model that chooses actions", types: ["decision_transformer"] },
  { is: "a model of time series", types: ["patchtst", "patchtsmixer", "timesfm", "chronos"] },
  {
    is:
      "a vision-language model of a type that is not served (docs/images.md lists the served types)",
    types: [
      ...["moondream1", "moondream3", "paligemma", "kosmos-2", "kosmos-2.5", "phi3_v", "phi4mm"],
      ...["phi4_multimodal", "multi_modality", "janus", "blip-2", "instructblip", "git", "fuyu"],
      ...["idefics", "idefics2", "mllama", "llama4", "llava_next", "llava_onevision", "vipllava"],
      ...["video_llava", "internvl", "internvl_chat", "molmo", "molmo2", "minicpmv", "minicpmo"],
      ...["ovis", "ovis2", "aya_vision", "cohere2_vision", "aria", "emu3", "chameleon", "glm4v"],
      ...["got_ocr2", "ernie4_5_vl_moe", "deepseek_vl", "deepseek_vl_v2", "deepseekocr"],
      ...["kimi_vl", "dots_ocr", "paddleocr_vl", "pix2struct", "perception_lm", "cogvlm2"],
    ],
  },
  {
    is: "an image encoder",
    types: [
      ...["dinov2", "dinov2_with_registers", "dinov3_vit", "dinov3_convnext", "vit", "vit_mae"],
      ...["deit", "beit", "swin", "convnext", "convnextv2", "hiera", "ijepa", "efficientnet"],
    ],
  },
];

/** The tasks of architectures, by the ends of their names. */
const TASKS: readonly (readonly [RegExp, string])[] = [
  [/ForTokenClassification$/, "labels the tokens of a text (names of persons and places)"],
  [/ForQuestionAnswering$/, "marks the answer to a question in a text"],
  [/ForMultipleChoice$/, "chooses among answers"],
  [/ForImageClassification$/, "labels images"],
  [/ForAudioClassification$|ForSequenceClassification$/, "classifies texts or recordings"],
  [/For(Zero-?Shot)?ObjectDetection$/, "finds objects in images"],
  [/For(Semantic|Instance|Universal|Image)?Segmentation$/, "segments images"],
  [/ForDepthEstimation$/, "estimates depths in images"],
  [/ForImageSuperResolution$|ForSuperResolution$/, "enlarges images"],
  [/ForXVector$/, "tells speakers apart"],
  [/ForRetrieval$/, "compares pages with questions by many vectors (ColPali)"],
  [/ForRewardModel$|RewardModel$/, "rates answers for training"],
  [/ForPreTraining$/, "is a base model for further training, without a task head"],
  [
    /ForSpeechToText$/,
    "recognises speech, but only the speech synthesizers of its type are served",
  ],
  [/ForSpeechToSpeech$/, "changes the voice of a recording"],
  [/ForAudioFrameClassification$/, "tells who speaks when"],
  [/ForTextToWaveform$|MusicgenForConditionalGeneration$/, "makes sounds"],
];

/** Names of models trained to rank, whatever labels their configuration has. */
const RERANKER = /rerank|cross-?encoder|marco|ranker|monobert|monot5/i;
/** Names of the only label of a reranker. */
const RANK_LABEL = /^LABEL_0$|score|relevan|rank|similar|match|yes|true/i;
/** Names of models that rate answers. */
const REWARDING = /reward|\bRM\b/i;

/**
 * Describes a folder that no family serves. The result continues a sentence that begins with the folder's path: "is a
 * translation model".
 *
 * @param kind the kind of the family that matches the folder, if there is one.
 * @returns `undefined` if the model may be served.
 */
function describeUnserved(folder: ModelFolder, kind?: ModelKind): string | undefined {
  const parts = listOtherParts(folder.identity?.["genai_config.json"]);
  if (parts.length > 0 && !hasGraph(folder, "")) {
    return `has more than a decoder (${
      parts.join(", ")
    }) in onnxruntime-genai's layout, which is ` +
      "supported only for language models with a single graph; other models need the layout of transformers.js";
  }
  const listed = UNSERVED.find(({ types }) => isOfType(folder, ...types));
  if (listed !== undefined) return `is ${listed.is}`;
  if (isBareCodec(folder)) return `is ${CODEC}`;
  const saved = findSentenceModelType(folder);
  if (saved === "SparseEncoder") {
    return "is a sparse encoder (SPLADE), which gives each word of a vocabulary a weight";
  }
  if (saved === "MultiVectorEncoder") {
    return "is a late-interaction model (ColBERT), which gives one vector per token";
  }
  if (kind === "rerank") return describeClassifier(folder);
  if (kind === "embedding" && saved === undefined && isMediaEncoder(folder)) {
    return "is an encoder of images or sounds";
  }
  // Rerankers share their head with classifiers, and matting models with segmentation models.
  const mayDiffer = kind !== undefined && kind !== "matting" && saved === undefined;
  const task = mayDiffer ? describeTask(folder) : undefined;
  if (task !== undefined) return task;
  if (kind === "text" && hasGraph(folder, "audio_encoder")) {
    return "takes speech through an audio encoder that is not served";
  }
  const isOther = kind !== "text" && kind !== "embedding" || saved === "SentenceTransformer" ||
    isBuiltAs(folder, /EncoderModel$/);
  const hasEncoder = folder.config["is_encoder_decoder"] === true ||
    hasGraph(folder, "encoder_model");
  return isOther || !hasEncoder
    ? undefined
    : "is an encoder-decoder for texts, like T5, BART and NLLB";
}

/** Whether a folder holds a codec whose configuration has no type, like SNAC's. */
function isBareCodec(folder: ModelFolder): boolean {
  const { config } = folder;
  return config["model_type"] === undefined && config["architectures"] === undefined &&
    "codebook_size" in config && hasGraph(folder, "encoder_model");
}

/** Whether a folder configures the preprocessing of media and has no tokenizer. */
function isMediaEncoder(folder: ModelFolder): boolean {
  return locate(folder, "preprocessor_config.json") !== undefined &&
    locate(folder, "tokenizer.json") === undefined;
}

/** Describes the task of an architecture that no family serves, as {@linkcode describeUnserved} does. */
function describeTask(folder: ModelFolder): string | undefined {
  return TASKS.find(([pattern]) => isBuiltAs(folder, pattern))?.[1];
}

/** Describes a text classifier; `undefined` if it ranks: its only label says so, or it has a reranker's name. */
function describeClassifier(folder: ModelFolder): string | undefined {
  const name = toModelName(folder.path);
  const isReranker = findSentenceModelType(folder) === "CrossEncoder" || RERANKER.test(name) ||
    !isBuiltAs(folder, /ForSequenceClassification$/);
  if (isReranker) return undefined;
  const labels = listLabels(folder);
  if (labels.length === 1) {
    if (REWARDING.test(name)) return "rates answers for training";
    return RANK_LABEL.test(labels[0]!) ? undefined : `is a classifier of one label (${labels[0]})`;
  }
  const shown = [...labels.slice(0, MAX_LABELS), ...labels.length > MAX_LABELS ? ["…"] : []];
  return `is a classifier of ${labels.length} labels (${shown.join(", ")})`;
}

/** Maximum number of labels that a message lists. */
const MAX_LABELS = 5;

/** The names of the labels. For two labels without names, transformers writes nothing into the file. */
function listLabels({ config }: ModelFolder): string[] {
  const labels = config["id2label"];
  return isRecord(labels) ? Object.values(labels).map(String) : ["LABEL_0", "LABEL_1"];
}
