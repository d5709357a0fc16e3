/**
 * Opens a speech model that generates text without times.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { OpenContext } from "../family.ts";
import { AsrModel } from "./asr.ts";
import { type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";
import type { GeneratingFamily } from "./generating_families.ts";
import { GeneratingRecogniser } from "./generating_recogniser.ts";
import { MAX_RECORDINGS } from "./recogniser.ts";
import { SpeechMetrics } from "./speech_metrics.ts";
import { TransformersSpeech } from "./transformers_speech.ts";

/** @throws {StartupError} when the folder lacks a part, or a graph does not fit the family. */
export async function loadGenerating(
  context: OpenContext,
  family: GeneratingFamily,
): Promise<AsrModel> {
  const { folder, engine, onProgress } = context;
  const speech = await TransformersSpeech.open(context, family.modelClass);
  const endTokens = await readEndTokens(folder);
  onProgress({ what: "warming up" });
  await warmUp(speech, folder, family);
  const maxRecordings = engine.maxSequences ?? MAX_RECORDINGS;
  return new AsrModel({
    maxRecordings,
    openRecogniser: (metrics) =>
      new GeneratingRecogniser({
        ...family,
        dtype: speech.dtype,
        sampleRateHz: speech.sampleRateHz,
        maxRecordings,
        metrics,
        hear: (samples, asked) =>
          speech.generate(samples, {
            ...asked,
            ...family.promptOf(asked.language),
            maxTokens: family.maxTokensOf(samples.length / speech.sampleRateHz),
            endTokens,
          }),
        dispose: () => speech.dispose(),
      }),
  });
}

/** Two tokens for silence check that the graphs fit together, and compile their kernels. */
async function warmUp(
  speech: TransformersSpeech,
  { path }: ModelFolder,
  { promptOf }: GeneratingFamily,
): Promise<void> {
  try {
    await speech.generate(new Float32Array(speech.sampleRateHz), {
      ...promptOf(undefined),
      language: undefined,
      temperature: 0,
      maxTokens: 2,
      endTokens: [],
      metrics: new SpeechMetrics(() => ({ running: 0, waiting: 0 })),
      signal: new AbortController().signal,
    });
  } catch (error) {
    throw new StartupError(
      `${path}: its graphs do not work together: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
}

async function readEndTokens(folder: ModelFolder): Promise<number[]> {
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  return [generationConfig["eos_token_id"] ?? folder.config["eos_token_id"]].flat()
    .filter((id) => typeof id === "number");
}
