/**
 * The registry of model families. A folder is of the first that matches it.
 *
 * Loaders are imported when a model is opened: whoever only asks what a folder is does without them.
 *
 * @module
 */
import { MODEL_KINDS, type ModelKind } from "../config.ts";
import { StartupError } from "../errors.ts";
import type { ModelFolder } from "../hub/model_folder.ts";
import { type Family, hasGraph, isBuiltAs, isForTask, isOfType } from "./family.ts";
import {
  asr,
  generating,
  isDecoderFor,
  isVisionLanguageModel,
  openEmbedding,
  openText,
  openVision,
  textGraphs,
  tts,
  visionGraphs,
} from "./family_forms.ts";
import { allGraphs, graphsNamed, type WantedGraph } from "./graph_choice.ts";

const MERGED = "decoder_model_merged";
const SEQ2SEQ = graphsNamed(MERGED, "encoder_model");
const AUDIO_AND_TEXT = graphsNamed(MERGED, "embed_tokens", "audio_encoder");
/** Texts and images of many requests run together. */
const ONE_GRAPH_IN_BATCHES = (): WantedGraph[] => [{ name: "model", suits: "batches" }];

/** Every family that is served, in the order in which folders are asked. */
export const FAMILIES: readonly Family[] = [
  {
    name: "text-generation",
    kind: "text",
    matches: (folder) => isForTask(folder, "text-generation"),
    graphs: textGraphs,
    open: openText,
  },
  asr("whisper", ["whisper", "lite-whisper"], {
    graphs: SEQ2SEQ,
    load: async () => (await import("./asr/whisper_load.ts")).loadWhisper,
  }),
  asr("moonshine", ["moonshine"], {
    graphs: SEQ2SEQ,
    load: () => generating(({ describeMoonshine }) => describeMoonshine),
  }),
  asr("cohere_asr", ["cohere_asr"], {
    graphs: SEQ2SEQ,
    load: () => generating(({ describeCohere }) => describeCohere),
  }),
  asr("granite_speech", ["granite_speech"], {
    graphs: AUDIO_AND_TEXT,
    load: () => generating(({ describeGranite }) => describeGranite),
  }),
  asr("voxtral", ["voxtral"], {
    graphs: AUDIO_AND_TEXT,
    load: () => generating(({ describeVoxtral }) => describeVoxtral),
  }),
  ...[
    "wav2vec2",
    "wav2vec2-bert",
    "wavlm",
    "hubert",
    "unispeech",
    "unispeech-sat",
    "parakeet_ctc",
  ].map((type) =>
    asr(type, [type], {
      graphs: graphsNamed("model"),
      load: async () => (await import("./asr/ctc_load.ts")).loadCtc,
    })
  ),
  tts("chatterbox", {
    // What a language model writes is no sound yet.
    graphs: (folder) =>
      allGraphs("language_model")(folder).map((graph) =>
        graph.name === "language_model" ? graph : { ...graph, suits: "sound" }
      ),
    load: async () => (await import("./tts/tts_chatterbox.ts")).ChatterboxSynthesizer.load,
  }),
  tts("style_text_to_speech_2", {
    load: async () => (await import("./tts/tts_kokoro.ts")).KokoroSynthesizer.load,
  }),
  tts("supertonic", {
    load: async () => (await import("./tts/tts_supertonic.ts")).SupertonicSynthesizer.load,
  }),
  tts("vits", { load: async () => (await import("./tts/tts_vits.ts")).VitsSynthesizer.load }),
  tts("speecht5", {
    hasSpeakerEncoder: true,
    load: async () => (await import("./tts/tts_speecht5.ts")).SpeechT5Synthesizer.load,
  }),
  {
    name: "vision-encoder-decoder",
    kind: "ocr",
    matches: (folder) => isOfType(folder, "vision-encoder-decoder"),
    graphs: SEQ2SEQ,
    open: async (context) =>
      (await import("./ocr/ocr_load.ts")).loadOcr(
        context,
        (await import("./ocr/vision_encoder_decoder.ts")).openVisionEncoderDecoder,
      ),
  },
  {
    name: "florence2",
    kind: "ocr",
    matches: (folder) => isOfType(folder, "florence2"),
    graphs: graphsNamed(MERGED, "encoder_model", "vision_encoder", "embed_tokens"),
    open: async (context) =>
      (await import("./ocr/ocr_load.ts")).loadOcr(
        context,
        (await import("./ocr/florence.ts")).openFlorence,
      ),
  },
  {
    name: "detection and recognition of lines",
    kind: "ocr",
    matches: (folder) =>
      isForTask(folder, "ocr") && "detection" in folder.config && "recognition" in folder.config,
    graphs: allGraphs(),
    open: async (context) => (await import("./ocr/line_ocr_load.ts")).loadLineOcr(context),
  },
  {
    name: "decoders that see, such as glm_ocr and lighton_ocr",
    kind: "ocr",
    matches: (folder) =>
      isOfType(folder, "glm_ocr", "lighton_ocr") ||
      (isForTask(folder, "ocr") && isVisionLanguageModel(folder)),
    accepts: isVisionLanguageModel,
    graphs: visionGraphs,
    open: (context) => openVision("ocr", context),
  },
  {
    name: "background-removal",
    kind: "matting",
    matches: (folder) =>
      isForTask(folder, "background-removal") ||
      isOfType(folder, "isnet", "modnet", "birefnet", "ben") ||
      isBuiltAs(folder, /ImageMatting|BiRefNet|ISNet|MODNet|BriaRMBG/i),
    accepts: () => true,
    graphs: ONE_GRAPH_IN_BATCHES,
    open: async (context) => (await import("./matting/matting_load.ts")).loadMatting(context),
  },
  {
    name: "embedding",
    kind: "embedding",
    matches: ({ files }) => files.has("modules.json") || files.has("1_Pooling/config.json"),
    accepts: () => true,
    graphs: ONE_GRAPH_IN_BATCHES,
    open: openEmbedding,
  },
  {
    name: "rerank",
    kind: "rerank",
    matches: (folder) =>
      isBuiltAs(folder, /ForSequenceClassification$/) || isDecoderFor(folder, "rerank"),
    accepts: () => true,
    graphs: ONE_GRAPH_IN_BATCHES,
    open: async (context) => (await import("./embedding/rerank.ts")).RerankModel.load(context),
  },
  {
    name: "vision",
    kind: "vision",
    matches: (folder) => hasGraph(folder, "vision_encoder"),
    accepts: () => true,
    graphs: visionGraphs,
    open: (context) => openVision("vision", context),
  },
  {
    name: "embedding by a decoder",
    kind: "embedding",
    matches: (folder) => isDecoderFor(folder, "embedding"),
    graphs: ONE_GRAPH_IN_BATCHES,
    open: openEmbedding,
  },
  {
    name: "text",
    kind: "text",
    matches: (folder) => isBuiltAs(folder, /ForCausalLM$|LMHeadModel$|ForConditionalGeneration$/),
    accepts: () => true,
    graphs: textGraphs,
    open: openText,
  },
  {
    name: "embedding by an encoder",
    kind: "embedding",
    matches: (folder) => isBuiltAs(folder, /Model$|ForMaskedLM$/),
    graphs: ONE_GRAPH_IN_BATCHES,
    open: openEmbedding,
  },
];

/**
 * The family of a folder.
 *
 * @param kind told from the folder if absent.
 * @throws {StartupError} saying what was looked at, when it is of none.
 */
export function familyOf(folder: ModelFolder, kind?: ModelKind): Family {
  const ofKind = FAMILIES.filter((family) => kind === undefined || family.kind === kind);
  const found = ofKind.find((family) => family.matches(folder)) ??
    (kind && ofKind.find((family) => family.accepts?.(folder)));
  if (found !== undefined) return found;
  const { path, config } = folder;
  const type = String(config["model_type"] ?? "");
  if (kind !== undefined) {
    throw new StartupError(
      `${path} is a model of kind ${kind} and of type ${type}; this version of Hearth serves ${
        ofKind.map(({ name }) => name).join(", ")
      }.`,
    );
  }
  const architectures = [config["architectures"] ?? []].flat().join(", ");
  throw new StartupError(
    `What ${path} is for cannot be told: config.json has model_type "${type}" and architectures ` +
      `[${architectures}]. Name it with --kind (${MODEL_KINDS.join(", ")}).`,
  );
}
