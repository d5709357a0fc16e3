/**
 * The registry of model families. A folder belongs to the first family that matches it.
 *
 * Nothing here imports a loader, so identifying a folder loads none of their packages.
 *
 * @module
 */
import { MODEL_KINDS, type ModelKind } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { hasGraph, type ModelFolder } from "../../hub/model_folder.ts";
import {
  asr,
  type Family,
  isBuiltAs,
  isDecoderFor,
  isForTask,
  isOfType,
  isVisionLanguageModel,
  textGraphs,
  tts,
  visionGraphs,
} from "./family.ts";
import {
  allGraphs,
  graphsBeside,
  graphsNamed,
  MERGED,
  type WantedGraph,
} from "../folder/graph_choice.ts";
import { sentenceModelType } from "../embedding/embedding_config.ts";
import { listModels } from "../folder/graph_variants.ts";
import { findBareGraph, isBareMatting, isMatting } from "../matting/matting_family.ts";
import { isPaddleOcr, paddleGraphs } from "../ocr/paddle_graphs.ts";
import { describeTask, describeUnserved } from "./unserved_models.ts";

const SEQ2SEQ = graphsNamed(MERGED, "encoder_model");
const AUDIO_AND_TEXT = graphsNamed(MERGED, "embed_tokens", "audio_encoder");
const WITH_CTC_HEADS = [
  "wav2vec2",
  "wav2vec2-bert",
  "wavlm",
  "hubert",
  "unispeech",
  "unispeech-sat",
  "parakeet_ctc",
];
/** A single graph in which texts or images of many requests run together. */
const ONE_GRAPH_IN_BATCHES = (): WantedGraph[] => [{ name: "model", suits: "batches" }];

/** A folder with a single graph may give it any name, such as rembg's `u2net.onnx`. */
function mattingGraphs(folder: ModelFolder): readonly WantedGraph[] {
  const bare = findBareGraph(folder);
  const [graph] = ONE_GRAPH_IN_BATCHES();
  return [bare === undefined ? graph! : { ...graph!, paths: { fp32: bare } }];
}

/** All families, in the order in which they are tried. */
const FAMILIES: readonly Family[] = [
  {
    name: "text-generation",
    kind: "text",
    matches: (folder) => isForTask(folder, "text-generation"),
    graphs: textGraphs,
    loader: "text",
  },
  asr("whisper", ["whisper", "lite-whisper"], { graphs: SEQ2SEQ, loader: "whisper" }),
  asr("moonshine", ["moonshine"], { graphs: SEQ2SEQ, loader: "moonshine" }),
  asr("cohere_asr", ["cohere_asr"], { graphs: SEQ2SEQ, loader: "cohere" }),
  asr("granite_speech", ["granite_speech"], { graphs: AUDIO_AND_TEXT, loader: "granite" }),
  asr("voxtral", ["voxtral"], { graphs: AUDIO_AND_TEXT, loader: "voxtral" }),
  {
    name: "wav2vec2 and all others with a CTC head",
    kind: "asr",
    // A known `model_type` matches with any head: the loader then says which head is needed.
    matches: (folder) => isBuiltAs(folder, /ForCTC$/) || isOfType(folder, ...WITH_CTC_HEADS),
    graphs: graphsNamed("model"),
    loader: "ctc",
  },
  asr("nemo-conformer-tdt", ["nemo-conformer-tdt"], {
    graphs: graphsBeside("encoder-model", "decoder_joint-model", "nemo128"),
    files: /^vocab\.txt$/,
    loader: "tdt",
  }),
  tts("chatterbox", {
    // The output of the language model is not sound yet, so its dtype is free.
    graphs: (folder) =>
      allGraphs("language_model")(folder).map((graph) =>
        graph.name === "language_model" ? graph : { ...graph, suits: "sound" }
      ),
  }),
  tts("style_text_to_speech_2"),
  tts("supertonic"),
  tts("vits"),
  tts("speecht5", { takesSpeakerEncoder: true }),
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
    graphs: graphsNamed(MERGED, "encoder_model", "vision_encoder", "embed_tokens"),
    loader: "florence",
  },
  {
    name: "detection and recognition of lines",
    kind: "ocr",
    matches: (folder) =>
      isForTask(folder, "ocr") && "detection" in folder.config && "recognition" in folder.config,
    graphs: allGraphs(),
    loader: "lineOcr",
  },
  {
    name: "PP-OCR as it is published",
    kind: "ocr",
    matches: isPaddleOcr,
    graphs: paddleGraphs,
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
    graphs: visionGraphs,
    loader: "visionOcr",
  },
  {
    name: "background-removal",
    kind: "matting",
    matches: (folder) =>
      isForTask(folder, "background-removal") || isMatting(folder.config) ||
      isBuiltAs(folder, /ImageMatting/i) || isBareMatting(findBareGraph(folder)),
    accepts: () => true,
    graphs: mattingGraphs,
    loader: "matting",
  },
  {
    name: "embedding",
    kind: "embedding",
    matches: (folder) =>
      sentenceModelType(folder) === "SentenceTransformer" ||
      // Also takes images and sounds; only texts are embedded.
      isOfType(folder, "embedding_gemma2"),
    accepts: () => true,
    graphs: ONE_GRAPH_IN_BATCHES,
    loader: "embedding",
  },
  {
    name: "rerank",
    kind: "rerank",
    matches: (folder) =>
      sentenceModelType(folder) === "CrossEncoder" ||
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
    graphs: visionGraphs,
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
    graphs: textGraphs,
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

/**
 * Identifies the family of a folder.
 *
 * @param kind detected from the folder if absent.
 * @throws {StartupError} saying what was checked, when none matches.
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
      }: download it, and name the folder of one.`,
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
      `${path} is a model of kind ${kind} and of type ${type}; this version of Hearth serves ${
        ofKind.map(({ name }) => name).join(", ")
      }.`,
    );
  }
  if (!files.has("config.json")) {
    throw new StartupError(
      `${path} has no config.json. Wanted: a model in the layout of transformers.js (on the hub, names end in -ONNX); ` +
        "graphs of PP-OCR, one with det and one with rec in its name; or a background-removal graph, " +
        "with a name that rembg uses (u2net.onnx) or with --kind matting.",
    );
  }
  const task = describeTask(folder);
  if (task !== undefined) throw new StartupError(`${path} ${task}: Hearth serves no such model.`);
  const architectures = [config["architectures"] ?? []].flat().join(", ");
  throw new StartupError(
    `The kind of ${path} is unknown: config.json has model_type "${type}" and architectures ` +
      `[${architectures}]. Wanted is its kind: ${MODEL_KINDS.join(", ")}.`,
    { setting: "kind" },
  );
}
