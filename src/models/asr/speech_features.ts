/**
 * Sound to the inputs of graphs, by transformers.js's feature extractors and processors.
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

/** A feature extractor takes sound; a processor a text too, with a placeholder for it. */
type Prepare = (...given: readonly unknown[]) => Promise<Readonly<Record<string, unknown>>>;

interface SpeechFeatures {
  readonly sampleRateHz: number;
  /** @param prompt with a placeholder for the sound; for processors alone. @returns `input_ids` too then. */
  prepare(samples: Float32Array, prompt?: string): Promise<PlainTensors>;
}

/**
 * Opens what a folder names.
 *
 * @throws {StartupError} when the folder lacks a file, or names what transformers.js does not know.
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

/** Opens a part. @throws {StartupError} naming the folder and its type, with what went wrong. */
export function openPart<T>({ path, config }: ModelFolder, open: () => Promise<T>): Promise<T> {
  return startupStep(
    open,
    (reason) => `${path} cannot be loaded as a model of type ${config["model_type"]}: ${reason}`,
  );
}
