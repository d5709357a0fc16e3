/**
 * From a folder to a model that works: its kind, its dtype, its parts.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import { deviceClassOf } from "../backend/device_class.ts";
import { warmUp } from "../engine/warm_up.ts";
import type { Dtype, EngineSettings, ModelKind, ResolvedModel } from "../config.ts";
import { StartupError } from "../errors.ts";
import { log } from "../log.ts";
import type { LoadProgress } from "./progress.ts";
import { loadAsr } from "./asr/asr_load.ts";
import { readAvailableBytes } from "./available_memory.ts";
import { loadDecoder } from "./decoder.ts";
import { EmbeddingModel } from "./embedding/embedding.ts";
import { type ModelFolder, openFolder, readOptionalJson } from "../hub/model_folder.ts";
import { readGenerationDefaults } from "./generation_defaults.ts";
import { kindOf } from "./kind.ts";
import { loadMatting } from "./matting/matting_load.ts";
import { NOTHING, requireMemory, weighFiles } from "./memory.ts";
import type { Model } from "./model.ts";
import { chooseFiles } from "./needed_files.ts";
import { loadOcr } from "./ocr/ocr_load.ts";
import { RerankModel } from "./embedding/rerank.ts";
import { TextModel } from "./text.ts";
import { loadTokenizer } from "./tokenizer.ts";
import { loadTts } from "./tts/tts_load.ts";
import { isVisionLanguageModel, loadVision } from "./vision/vision_load.ts";

/** What to load, on what. */
export interface ModelLoadOptions {
  readonly model: ResolvedModel;
  /** The best one for the device if absent. */
  readonly dtype?: Dtype | undefined;
  /** Told from the folder if absent. */
  readonly kind?: ModelKind | undefined;
  readonly engine: EngineSettings;
  /** Folder of a model that tells speech from silence, for speech models. */
  readonly vadFolder?: string | undefined;
  /** Folder of a model that tells speakers apart, for models that speak. */
  readonly speakerEncoderFolder?: string | undefined;
  readonly backend: Backend;
  readonly onProgress: (progress: LoadProgress) => void;
}

/**
 * Loads a model folder.
 *
 * @throws {StartupError} when the folder or the wish for a dtype or kind cannot be met.
 */
export async function loadModel(options: ModelLoadOptions): Promise<Model> {
  const folder = await openFolder(options.model.folder);
  const kind = options.kind ?? kindOf(folder);
  if (options.vadFolder !== undefined && kind !== "asr") {
    throw new StartupError(
      `--vad is for speech models, and ${options.model.id} is a model of kind ${kind}.`,
    );
  }
  if (options.speakerEncoderFolder !== undefined && kind !== "tts") {
    throw new StartupError(
      `--speaker-encoder is for models that speak, and ${options.model.id} is a model of kind ${kind}.`,
    );
  }
  // Of a decoder that is cut, more is known.
  if (kind !== "text") await requireRoomForFiles(folder, kind, options);
  switch (kind) {
    case "text":
      return await loadText(folder, options);
    case "embedding":
      return await EmbeddingModel.load(folder, { ...options, modelName: options.model.id });
    case "rerank":
      return await RerankModel.load(folder, options);
    case "asr":
      return await loadAsr(folder, {
        ...options,
        maxSequences: options.engine.maxSequences,
      });
    case "matting":
      return await loadMatting(folder, { ...options, ...options.engine });
    case "vision":
      return await loadVision(folder, { ...options, kind });
    case "ocr":
      if (isVisionLanguageModel(folder)) return await loadVision(folder, { ...options, kind });
      return await loadOcr(folder, { ...options, ...options.engine });
    case "tts":
      return await loadTts(folder, { ...options, maxSequences: options.engine.maxSequences });
  }
}

async function requireRoomForFiles(
  folder: ModelFolder,
  kind: ModelKind,
  { backend, dtype }: ModelLoadOptions,
): Promise<void> {
  const device = deviceClassOf(backend);
  const { files } = chooseFiles(folder, { kind, dtype, device });
  const graphs = files.filter((file) => file.startsWith("onnx/"));
  requireMemory(
    { ...NOTHING, weightsBytes: await weighFiles(folder, graphs) },
    { backend, availableBytes: await readAvailableBytes(), otherDtypes: [] },
  );
}

async function loadText(folder: ModelFolder, options: ModelLoadOptions): Promise<Model> {
  warnOfMissingEyes(folder);
  options.onProgress({ what: "reading the tokenizer" });
  const tokenizer = await loadTokenizer(folder);
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  const defaults = readGenerationDefaults(folder.config, generationConfig);
  const { decoder, dtype } = await loadDecoder(folder, options);
  options.onProgress({ what: "warming up" });
  await warmUp(decoder);
  return new TextModel({
    decoder,
    tokenizer,
    defaults,
    dtype,
    prefixCache: options.engine.prefixCache,
  });
}

/** A folder that was downloaded in part looks like a text model, and pictures would be refused without a reason. */
function warnOfMissingEyes({ path, files, config }: ModelFolder): void {
  const hasEncoder = [...files].some((file) => file.startsWith("onnx/vision_encoder"));
  if (!("vision_config" in config) || hasEncoder) return;
  log.warn(
    "a model that sees is served for text alone: its folder has no onnx/vision_encoder*.onnx",
    {
      folder: path,
    },
  );
}
