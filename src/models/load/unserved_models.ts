/**
 * Recognises models that are not served, so that none of them is taken for a model of another kind.
 *
 * @module
 */
import { isRecord } from "../../base/json.ts";
import type { ModelKind } from "../../base/config.ts";
import { toModelName } from "../../hub/cache.ts";
import { hasGraph, listOtherParts, locate, type ModelFolder } from "../../hub/model_folder.ts";
import { sentenceModelType } from "../embedding/embedding_config.ts";
import { isBuiltAs, isOfType } from "./family.ts";

interface Unserved {
  /** What the model is, for a message: "a translation model". */
  readonly is: string;
  readonly types: readonly string[];
}

const UNSERVED: readonly Unserved[] = [
  {
    is:
      "a streaming speech recogniser, whose encoder keeps a cache of its own (of Voxtral, Mini 3B is served)",
    types: ["voxtral_realtime"],
  },
  {
    is:
      "a language model that hears, of a type whose audio encoder is not served (those of Gemma 3n and Gemma 4 are)",
    types: ["ultravox", "qwen2_audio", "qwen2_5_omni", "qwen3_omni_moe"],
  },
  {
    is: "a codec of sound, which turns sound into codes and back",
    types: ["snac", "mimi", "dac", "encodec", "xcodec", "xcodec2", "vocos"],
  },
  {
    is: "a translation model (an encoder-decoder)",
    types: ["marian", "m2m_100", "nllb-moe", "fsmt", "seamless_m4t", "seamless_m4t_v2"],
  },
  {
    is: "a segmentation model, which outlines what a user points at",
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
  { is: "a language model that writes by diffusion", types: ["Dream", "llada", "llada_moe"] },
  { is: "a model that chooses actions", types: ["decision_transformer"] },
  { is: "a model of time series", types: ["patchtst", "patchtsmixer", "timesfm", "chronos"] },
  {
    is:
      "a vision-language model of a type that is not served (docs/images.md lists those that are)",
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

/** What architectures are for, by the endings of their names. */
const TASKS: readonly (readonly [RegExp, string])[] = [
  [/ForTokenClassification$/, "labels the tokens of a text (names of persons and places)"],
  [/ForQuestionAnswering$/, "marks the answer to a question in a text"],
  [/ForMultipleChoice$/, "chooses among answers"],
  [/ForImageClassification$/, "labels images"],
  [/ForAudioClassification$|ForSequenceClassification$/, "labels what it is given"],
  [/For(Zero-?Shot)?ObjectDetection$/, "finds objects in images"],
  [/For(Semantic|Instance|Universal|Image)Segmentation$/, "segments images"],
  [/ForDepthEstimation$/, "estimates depths in images"],
  [/ForImageSuperResolution$|ForSuperResolution$/, "enlarges images"],
  [/ForXVector$/, "tells speakers apart"],
  [/ForRetrieval$/, "compares pages with questions by many vectors (ColPali)"],
  [/ForRewardModel$|RewardModel$/, "rates answers for training"],
  [/ForPreTraining$/, "is a model for further training, without a head for a task"],
  [/ForSpeechToText$/, "recognises speech, of a type of which voices are served alone"],
  [/ForSpeechToSpeech$/, "changes the voice of a recording"],
  [/ForAudioFrameClassification$/, "tells who speaks when"],
  [/ForTextToWaveform$|MusicgenForConditionalGeneration$/, "makes sounds"],
];

/** Names of models that are trained to rank, whatever their labels are called. */
const RERANKER = /rerank|cross-?encoder|marco|ranker|monobert|monot5/i;

/**
 * What a folder holds if no family serves it: the end of a sentence that begins with the folder's name, "is a
 * translation model".
 *
 * @param kind the kind of the family that matches the folder, if one does.
 * @returns `undefined` if the model may be served.
 */
export function describeUnserved(folder: ModelFolder, kind?: ModelKind): string | undefined {
  const parts = listOtherParts(folder.identity?.["genai_config.json"]);
  if (parts.length > 0 && !hasGraph(folder, "")) {
    return `is a model with more than a decoder (${
      parts.join(", ")
    }) in onnxruntime-genai's layout; ` +
      "in that layout Hearth serves language models with a single graph, other models in that of transformers.js";
  }
  const listed = UNSERVED.find(({ types }) => isOfType(folder, ...types));
  if (listed !== undefined) return `is ${listed.is}`;
  const saved = sentenceModelType(folder);
  if (saved === "SparseEncoder") {
    return "is a sparse encoder (SPLADE), which weighs the words of a vocabulary";
  }
  if (saved === "MultiVectorEncoder") {
    return "is a late-interaction model (ColBERT), which makes a vector of each token";
  }
  if (kind === "rerank") return describeClassifier(folder);
  if (kind === "embedding" && saved === undefined && isMediaEncoder(folder)) {
    return "is an encoder of images or sounds";
  }
  // A reranker has the same head as a classifier, and a matting model the same as a segmentation model.
  const mayDiffer = kind !== undefined && kind !== "matting" && saved === undefined;
  const task = mayDiffer ? describeTask(folder) : undefined;
  if (task !== undefined) return task;
  if (kind === "text" && hasGraph(folder, "audio_encoder")) {
    return "reads speech, by an encoder of a type that is not served";
  }
  const isOther = kind !== "text" && kind !== "embedding" || saved === "SentenceTransformer" ||
    isBuiltAs(folder, /EncoderModel$/);
  const hasEncoder = folder.config["is_encoder_decoder"] === true ||
    hasGraph(folder, "encoder_model");
  return isOther || !hasEncoder
    ? undefined
    : "is an encoder-decoder for texts (as T5, BART and NLLB are)";
}

/** Whether a folder configures preprocessing of media, and has no tokenizer. */
function isMediaEncoder(folder: ModelFolder): boolean {
  return locate(folder, "preprocessor_config.json") !== undefined &&
    locate(folder, "tokenizer.json") === undefined;
}

/** What a folder's architecture is for, in the words of {@linkcode describeUnserved}, if no family serves it. */
export function describeTask(folder: ModelFolder): string | undefined {
  return TASKS.find(([pattern]) => isBuiltAs(folder, pattern))?.[1];
}

/** Describes text classifiers. They do not rank, unless they have one label or the name of a reranker. */
function describeClassifier(folder: ModelFolder): string | undefined {
  const isTold = sentenceModelType(folder) === "CrossEncoder" ||
    RERANKER.test(toModelName(folder.path)) || !isBuiltAs(folder, /ForSequenceClassification$/);
  const labels = listLabels(folder);
  if (isTold || labels.length === 1) return undefined;
  const shown = [...labels.slice(0, MAX_LABELS), ...labels.length > MAX_LABELS ? ["…"] : []];
  return `is a classifier of ${labels.length} labels (${shown.join(", ")})`;
}

/** Most labels that a message lists. */
const MAX_LABELS = 5;

/** Names of the labels. If two labels have no names, transformers does not write them into the file. */
function listLabels({ config }: ModelFolder): string[] {
  const labels = config["id2label"];
  return isRecord(labels) ? Object.values(labels).map(String) : ["LABEL_0", "LABEL_1"];
}
