/**
 * From a folder to a model that writes text.
 *
 * @module
 */
import { warmUp } from "../engine/warm_up.ts";
import { type ModelFolder, readOptionalJson } from "../hub/model_folder.ts";
import { log } from "../log.ts";
import { loadDecoder } from "./decoder.ts";
import type { OpenContext } from "./family.ts";
import { readGenerationDefaults } from "./generation_defaults.ts";
import type { Model } from "./model.ts";
import { TextGenerationModel } from "./text.ts";
import { loadTokenizer } from "./tokenizer.ts";

/** @throws {StartupError} when the folder lacks a part. */
export async function loadText(context: OpenContext): Promise<Model> {
  const { folder, engine, onProgress } = context;
  warnOfMissingEyes(folder);
  onProgress({ what: "reading the tokenizer" });
  const tokenizer = await loadTokenizer(folder);
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  const defaults = readGenerationDefaults(folder.config, generationConfig);
  const { decoder, dtype } = await loadDecoder(context);
  onProgress({ what: "warming up" });
  await warmUp(decoder);
  return new TextGenerationModel({
    decoder,
    tokenizer,
    defaults,
    dtype,
    prefixCache: engine.prefixCache,
  });
}

/** A folder that was downloaded in part looks like a text model, and images would be refused without a reason. */
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
