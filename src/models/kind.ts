/**
 * Tells what a model folder is for, from its configuration and the graphs it holds.
 *
 * @module
 */
import { basename } from "node:path";
import { MODEL_KINDS, type ModelKind } from "../config.ts";
import { StartupError } from "../errors.ts";
import { hubIdOfSnapshot } from "../hub/cache.ts";
import type { Json, ModelFolder } from "../hub/model_folder.ts";

const ASR_TYPES = new Set([
  "whisper",
  "moonshine",
  "cohere_asr",
  "granite_speech",
  "voxtral",
  "wav2vec2",
  "wav2vec2-bert",
  "hubert",
  "wavlm",
  "unispeech",
  "unispeech-sat",
  "parakeet_ctc",
  "lite-whisper",
]);
const TTS_TYPES = new Set([
  "chatterbox",
  "style_text_to_speech_2",
  "supertonic",
  "vits",
  "speecht5",
]);
const OCR_TYPES = new Set([
  "vision-encoder-decoder",
  "florence2",
  "glm_ocr",
  "lighton_ocr",
]);
const MATTING_TYPES = new Set(["isnet", "modnet", "birefnet", "ben"]);
/** `task` of folders whose architecture is their own. */
const TASKS: Readonly<Record<string, ModelKind>> = {
  "background-removal": "matting",
  "text-generation": "text",
  ocr: "ocr",
};

function architecturesOf(config: Json): string[] {
  const value = config["architectures"];
  return Array.isArray(value) ? value.filter((name) => typeof name === "string") : [];
}

function hasGraph(folder: ModelFolder, name: string): boolean {
  return [...folder.files].some((file) =>
    file.startsWith(`onnx/${name}`) && file.endsWith(".onnx")
  );
}

/** Language models that were made to embed or rerank keep their architecture; only their names tell. */
function kindOfDecoder({ path }: ModelFolder): ModelKind {
  const name = hubIdOfSnapshot(path)?.name ?? basename(path);
  if (/rerank/i.test(name)) return "rerank";
  return /embed/i.test(name) ? "embedding" : "text";
}

/**
 * The kind of a folder.
 *
 * @throws {StartupError} saying what was looked at, when it cannot be told.
 */
export function kindOf(folder: ModelFolder): ModelKind {
  const { config, files } = folder;
  const type = String(config["model_type"] ?? "");
  const architectures = architecturesOf(config);
  const named = (part: RegExp) => architectures.some((name) => part.test(name));

  const task = TASKS[String(config["task"] ?? "")];
  if (task) return task;
  if (ASR_TYPES.has(type) || named(/ForSpeechSeq2Seq|ForCTC$/)) return "asr";
  if (TTS_TYPES.has(type)) return "tts";
  if (OCR_TYPES.has(type)) return "ocr";
  if (MATTING_TYPES.has(type) || named(/ImageMatting|BiRefNet|ISNet|MODNet|BriaRMBG/i)) {
    return "matting";
  }
  if (files.has("modules.json") || files.has("1_Pooling/config.json")) return "embedding";
  if (named(/ForSequenceClassification$/)) return "rerank";
  if (hasGraph(folder, "vision_encoder")) return "vision";
  if (named(/ForCausalLM$/)) return kindOfDecoder(folder);
  if (named(/LMHeadModel$|ForConditionalGeneration$/)) return "text";
  if (named(/Model$|ForMaskedLM$/)) return "embedding";
  throw new StartupError(
    `What ${folder.path} is for cannot be told: config.json has model_type "${type}" and architectures ` +
      `[${architectures.join(", ")}]. Name it with --kind (${MODEL_KINDS.join(", ")}).`,
  );
}
