/**
 * From folders of models that write text token by token and give no times to models that transcribe.
 *
 * @module
 */
import { LANGUAGES } from "../api/languages.ts";
import { StartupError } from "../errors.ts";
import { type AsrLoadOptions, AsrModel } from "./asr.ts";
import { type Json, type ModelFolder, readJson, readOptionalJson } from "./folder.ts";
import { GeneratingRecogniser } from "./generating_recogniser.ts";
import { MAX_RECORDINGS } from "./recogniser.ts";
import { findLanguages } from "./spoken_languages.ts";
import { TransformersSpeech } from "./transformers_speech.ts";

/** Graphs of an encoder-decoder; the decoder's dtype is the model's. */
const SEQ2SEQ_GRAPHS = ["decoder_model_merged", "encoder_model"] as const;
/** What Moonshine's authors allow, so that a text that repeats itself ends. */
const MOONSHINE_TOKENS_PER_SECOND = 6.5;
const MOONSHINE_POSITIONS = 194;
const COHERE_PIECE_SECONDS = 35;
const COHERE_POSITIONS = 1024;

/** @see https://arxiv.org/abs/2410.15608 */
export async function loadMoonshine(
  folder: ModelFolder,
  options: AsrLoadOptions,
): Promise<AsrModel> {
  const positions = numberOf(folder.config, "max_position_embeddings") ?? MOONSHINE_POSITIONS;
  return await loadGenerating(folder, {
    ...options,
    languages: findLanguages(folder),
    // The start takes one position.
    maxPieceSeconds: Math.floor((positions - 1) / MOONSHINE_TOKENS_PER_SECOND),
    maxTokensOf: (seconds) => Math.ceil(seconds * MOONSHINE_TOKENS_PER_SECOND),
    promptOf: () => undefined,
  });
}

/** @see https://huggingface.co/CohereLabs/cohere-transcribe-03-2026 */
export async function loadCohere(folder: ModelFolder, options: AsrLoadOptions): Promise<AsrModel> {
  const tokenizer = await readJson(folder.path, "tokenizer.json");
  const ids = new Map(
    ((tokenizer["added_tokens"] ?? []) as { content: string; id: number }[])
      .map(({ content, id }) => [content, id]),
  );
  const vocab = (tokenizer["model"] as Json | undefined)?.["vocab"];
  const idOf = (token: string) =>
    ids.get(token) ?? (vocab as Record<string, number> | undefined)?.[token];
  const known = Object.keys(LANGUAGES).filter((code) => idOf(`<|${code}|>`) !== undefined);
  // Where a request names no language, English is meant: the model does not tell languages apart.
  const languages = known.includes("en") ? ["en", ...known.filter((each) => each !== "en")] : known;
  const promptOf = (code: string) =>
    [
      "▁",
      "<|startofcontext|>",
      "<|startoftranscript|>",
      "<|emo:undefined|>",
      `<|${code}|>`,
      `<|${code}|>`,
      "<|pnc|>",
      "<|noitn|>",
      "<|notimestamp|>",
      "<|nodiarize|>",
    ].map((token) => {
      const id = idOf(token);
      if (id !== undefined) return id;
      throw new StartupError(`${folder.path}: its tokenizer has no ${token}.`);
    });
  if (languages.length === 0) {
    throw new StartupError(`${folder.path}: its tokenizer has no language, such as <|en|>.`);
  }
  promptOf(languages[0]!);
  const preprocessor = await readOptionalJson(folder, "preprocessor_config.json");
  const positions = numberOf(folder.config, "max_position_embeddings") ?? COHERE_POSITIONS;
  return await loadGenerating(folder, {
    ...options,
    languages,
    maxPieceSeconds: numberOf(preprocessor, "max_audio_clip_s") ?? COHERE_PIECE_SECONDS,
    maxTokensOf: () => positions - 10,
    promptOf: (code) => promptOf(code ?? languages[0]!),
  });
}

interface GeneratingLoadOptions extends AsrLoadOptions {
  readonly languages: readonly string[];
  readonly maxPieceSeconds: number;
  readonly maxTokensOf: (seconds: number) => number;
  readonly promptOf: (language: string | undefined) => readonly number[] | undefined;
}

async function loadGenerating(
  folder: ModelFolder,
  options: GeneratingLoadOptions,
): Promise<AsrModel> {
  const { languages, maxPieceSeconds, maxTokensOf, promptOf } = options;
  const speech = await TransformersSpeech.open(folder, {
    ...options,
    modelClass: "AutoModelForSpeechSeq2Seq",
    graphs: SEQ2SEQ_GRAPHS,
  });
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  const endTokens = [generationConfig["eos_token_id"] ?? folder.config["eos_token_id"]].flat()
    .filter((id) => typeof id === "number");
  const maxRecordings = options.maxSequences ?? MAX_RECORDINGS;
  return new AsrModel({
    maxRecordings,
    openRecogniser: (metrics) =>
      new GeneratingRecogniser({
        dtype: speech.dtype,
        sampleRateHz: speech.sampleRateHz,
        languages,
        maxRecordings,
        maxPieceSeconds,
        metrics,
        hear: (samples, asked) =>
          speech.generate(samples, {
            ...asked,
            maxTokens: maxTokensOf(samples.length / speech.sampleRateHz),
            prompt: promptOf(asked.language),
            endTokens,
          }),
        dispose: () => speech.dispose(),
      }),
  });
}

function numberOf(json: Json, name: string): number | undefined {
  const value = json[name];
  return typeof value === "number" ? value : undefined;
}
