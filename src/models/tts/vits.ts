/**
 * VITS, as in the Massively Multilingual Speech project (MMS): one graph turns characters into sound.
 *
 * @module
 */
import type { Json } from "../../hub/model_folder.ts";
import type { OpenContext } from "../model.ts";
import { loadTtsTokenizer, type Synthesizer, textFeeds, TtsGraph } from "./synthesizer.ts";

/** Every second token is a blank. */
const MAX_TOKENS = 1_000;
const DEFAULT_RATE_HZ = 16_000;

/** @throws {StartupError} when a file is missing from the folder. */
export async function loadVits(context: OpenContext): Promise<Synthesizer> {
  const { folder } = context;
  const tokenizer = await loadTtsTokenizer(folder);
  const graph = await TtsGraph.open(context, {
    name: "model",
    known: /^(input_ids|attention_mask)$/,
  });
  return {
    sampleRateHz: Number(folder.config["sampling_rate"] ?? DEFAULT_RATE_HZ),
    voices: [{ id: "default", language: readLanguage(tokenizer.config) }],
    maxTokens: MAX_TOKENS,
    hasSpeed: false,
    tokenize: (text) => tokenizer.encode(text),
    synthesize: (tokens, { noiseOffset }) =>
      graph.read(textFeeds(tokens), { output: "waveform", offset: noiseOffset }),
    dispose: () => graph.release(),
  };
}

/** MMS folder names have three-letter language codes. */
function readLanguage(tokenizerConfig: Json): string {
  try {
    return new Intl.Locale(String(tokenizerConfig["language"] ?? "en")).language;
  } catch {
    return "en";
  }
}
