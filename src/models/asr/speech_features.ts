/**
 * Turns sound into the inputs of graphs, using the feature extractors and processors of transformers.js.
 *
 * @module
 */
import { basename, dirname } from "node:path";
import { StartupError, startupStep } from "../../base/errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { loadTransformers } from "../../device/ort/hook.ts";
import { type PlainTensors, toPlainTensors } from "../plain_tensor.ts";

const DEFAULT_RATE_HZ = 16_000;
const FILES = ["preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"];

/** A feature extractor takes sound alone; a processor also takes a text with a placeholder for the sound. */
type Prepare = (...given: readonly unknown[]) => Promise<Readonly<Record<string, unknown>>>;

interface SpeechFeatures {
  readonly sampleRateHz: number;
  /**
   * @param prompt a text with a placeholder for the sound; only for processors.
   * @returns the graph's inputs; with a prompt, `input_ids` too.
   */
  prepare(samples: Float32Array, prompt?: string): Promise<PlainTensors>;
}

/**
 * Opens the extractor or processor that a folder names.
 *
 * @throws {StartupError} when a file is missing, or transformers.js does not know what the folder names.
 */
export async function openSpeechFeatures(
  folder: ModelFolder,
  { takesText }: { readonly takesText: boolean },
): Promise<SpeechFeatures> {
  const missing = FILES.filter((name) => !folder.files.has(name));
  if (missing.length > 0) {
    throw new StartupError(
      `${folder.path} has no ${missing.join(" and no ")}, which a speech model needs.`,
    );
  }
  const library = await loadTransformers({ modelsFolder: dirname(folder.path) });
  const name = basename(folder.path);
  return await openPart(folder, async () => {
    const extractor = await library.AutoFeatureExtractor.from_pretrained(name);
    const prepare = (takesText
      ? await library.AutoProcessor.from_pretrained(name)
      : extractor) as unknown as Prepare;
    return {
      sampleRateHz: Number(extractor.config.sampling_rate ?? DEFAULT_RATE_HZ),
      prepare: async (samples, prompt) =>
        toPlainTensors(await (takesText ? prepare(prompt, samples) : prepare(samples))),
    };
  });
}

/**
 * Opens a part of a model.
 *
 * @throws {StartupError} naming the folder, its model type and what went wrong.
 */
export function openPart<T>({ path, config }: ModelFolder, open: () => Promise<T>): Promise<T> {
  return startupStep(
    open,
    (reason) => `${path} cannot be loaded as a model of type ${config["model_type"]}: ${reason}`,
  );
}
