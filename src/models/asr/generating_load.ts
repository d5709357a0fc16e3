/**
 * Opens a speech model that generates text without times.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { OpenContext } from "../open_context.ts";
import { type ModelFolder, readOptionalJson, tokensAt } from "../../hub/model_folder.ts";
import { loadTokenizer } from "../tokenizer.ts";
import type { GeneratingFamily } from "./generating_families.ts";
import { openGeneratingRecogniser } from "./generating_recogniser.ts";
import type { Recogniser, RecogniserOptions } from "./recogniser.ts";
import { openSpeechFeatures } from "./speech_features.ts";
import { SpeechGenerator } from "./speech_generator.ts";

/** @throws {StartupError} when the folder lacks a part, or a graph does not fit the family. */
export async function loadGenerating(
  context: OpenContext,
  { family, ...options }: RecogniserOptions & { readonly family: GeneratingFamily },
): Promise<Recogniser> {
  const { folder, graphs, onProgress } = context;
  onProgress({ what: "reading the tokenizer" });
  const { metrics } = options;
  const features = await openSpeechFeatures(folder, { takesText: family.takesText });
  const tokenizer = await loadTokenizer(folder);
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  const endTokens = tokensAt({ ...folder.config, ...generationConfig }, "eos_token_id");
  const decode = tokenizer.decode;
  const parts = await fitting(folder, async () => {
    const hearing = await family.open(context, { ...options, ...family, features });
    await tryOut(new SpeechGenerator({ hearing, endTokens, decode }), features.sampleRateHz);
    return { hearing, endTokens, decode };
  });
  // No request asked for what was heard until now.
  metrics.registry.resetMetrics();
  const generator = new SpeechGenerator(parts);
  metrics.adopt(generator.metrics.registry);
  return openGeneratingRecogniser({
    ...family,
    dtype: graphs.main.dtype,
    sampleRateHz: features.sampleRateHz,
    hear: (samples, asked) =>
      generator.generate(samples, {
        ...asked,
        maxTokens: family.maxTokensOf(samples.length / features.sampleRateHz),
      }),
    dispose: () => generator.dispose(),
  });
}

/** Two tokens for a second of silence: the graphs fit together. */
async function tryOut(generator: SpeechGenerator, sampleRateHz: number): Promise<void> {
  await generator.generate(new Float32Array(sampleRateHz), {
    language: undefined,
    temperature: 0,
    maxTokens: 2,
    signal: new AbortController().signal,
  });
}

/** @throws {StartupError} naming the folder, when its graphs do not fit together. */
async function fitting<T>({ path }: ModelFolder, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError(
      `${path}: its graphs do not work together: ${(error as Error).message}`,
      { cause: error },
    );
  }
}
