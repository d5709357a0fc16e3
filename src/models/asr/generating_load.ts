/**
 * Opens a speech model that generates text without times.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { OpenContext } from "../family.ts";
import { type ModelFolder, readOptionalJson, tokensAt } from "../../hub/model_folder.ts";
import type { GeneratingFamily } from "./generating_families.ts";
import { openGeneratingRecogniser } from "./generating_recogniser.ts";
import type { Recogniser, RecogniserOptions } from "./recogniser.ts";
import { SpeechMetrics } from "./speech_metrics.ts";
import { TransformersSpeech } from "./transformers_speech.ts";

/** @throws {StartupError} when the folder lacks a part, or a graph does not fit the family. */
export async function loadGenerating(
  context: OpenContext,
  { metrics, family }: RecogniserOptions & { readonly family: GeneratingFamily },
): Promise<Recogniser> {
  const { folder, onProgress } = context;
  const speech = await TransformersSpeech.open(context, family.modelClass);
  const endTokens = await readEndTokens(folder);
  onProgress({ what: "warming up" });
  await warmUp(speech, folder, family);
  const { dtype, sampleRateHz } = speech;
  return openGeneratingRecogniser({
    ...family,
    dtype,
    sampleRateHz,
    metrics,
    hear: (samples, asked) =>
      speech.generate(samples, {
        ...asked,
        ...family.promptOf(asked.language),
        maxTokens: family.maxTokensOf(samples.length / sampleRateHz),
        endTokens,
      }),
    dispose: () => speech.dispose(),
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
      metrics: new SpeechMetrics(),
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
  return tokensAt({ ...folder.config, ...generationConfig }, "eos_token_id");
}
