/**
 * Families of speech models that generate text token by token: Moonshine, Cohere's, Granite's and Voxtral.
 *
 * @module
 */
import { ALL_LANGUAGES } from "../../media/languages.ts";
import { StartupError } from "../../base/errors.ts";
import { type ModelFolder, numberAt, readOptionalJson } from "../../hub/model_folder.ts";
import type { OpenContext } from "../model.ts";
import type { TextTokenizer } from "../text/tokenizer.ts";
import { findLanguages, type SpokenLanguages } from "./recogniser.ts";
import {
  openPrompted,
  openSeq2Seq,
  type SpeechDecoder,
  type SpeechDecoderOptions,
} from "./speech_decoders.ts";

export interface GeneratingFamily {
  /** @throws {StartupError} when a file is missing from the folder, or a graph does not fit the family. */
  open(context: OpenContext, options: SpeechDecoderOptions): Promise<SpeechDecoder>;
  readonly languages: SpokenLanguages;
  /** The language of requests that name none; detected from the audio if absent. */
  readonly defaultLanguage?: string | undefined;
  /** Longest chunk transcribed at once. */
  readonly maxChunkSeconds: number;
  /** Most tokens generated for a chunk of this many seconds. */
  readonly getMaxTokens: (seconds: number) => number;
}

/**
 * Describes the model in a folder.
 *
 * @throws {StartupError} when something that the family needs is missing.
 */
export type DescribeFamily = (
  folder: ModelFolder,
  tokenizer: TextTokenizer,
) => GeneratingFamily | Promise<GeneratingFamily>;

/** Moonshine's own limit, so that repetitive text ends. */
const MOONSHINE_TOKENS_PER_SECOND = 6.5;
const MOONSHINE_POSITIONS = 194;
const MOONSHINE_START = 1;
const COHERE_PIECE_SECONDS = 35;
const COHERE_POSITIONS = 1024;
/** More than anybody speaks, so that repetitive text ends. */
const TOKENS_PER_SECOND = 10;
/** The length of Voxtral's encoder input. */
const CHUNK_SECONDS = 30;
/** The prompt that Granite was trained to answer with a transcript. */
const GRANITE_QUESTION = "<|audio|>can you transcribe the speech into a written format?";
const GRANITE_LANGUAGES = ["en", "fr", "de", "es", "pt", "ja"];
const VOXTRAL_LANGUAGES = ["en", "es", "fr", "pt", "hi", "de", "nl", "it"];

/** @see https://arxiv.org/abs/2410.15608 */
export function describeMoonshine(folder: ModelFolder): GeneratingFamily {
  const positions = numberAt(folder.config, "max_position_embeddings") ?? MOONSHINE_POSITIONS;
  const languages = findLanguages(folder);
  const start = numberAt(folder.config, "decoder_start_token_id") ?? MOONSHINE_START;
  return {
    open: (context, options) =>
      openSeq2Seq(context, { ...options, positions, writePrompt: () => [start] }),
    languages,
    defaultLanguage: languages[0],
    // The start token takes one position.
    maxChunkSeconds: Math.floor((positions - 1) / MOONSHINE_TOKENS_PER_SECOND),
    getMaxTokens: (seconds) => Math.ceil(seconds * MOONSHINE_TOKENS_PER_SECOND),
  };
}

/**
 * Cohere's decoder is told the language; English if a request names none.
 *
 * @see https://huggingface.co/CohereLabs/cohere-transcribe-03-2026
 */
export async function describeCohere(
  folder: ModelFolder,
  { tokenToId }: TextTokenizer,
): Promise<GeneratingFamily> {
  const languages = Object.keys(ALL_LANGUAGES).filter((code) =>
    tokenToId(`<|${code}|>`) !== undefined
  );
  const defaultLanguage = languages.includes("en") ? "en" : languages[0];
  if (defaultLanguage === undefined) {
    throw new StartupError(`${folder.path}: its tokenizer has no language, such as <|en|>.`);
  }
  const writePrompt = (language = defaultLanguage) =>
    coherePrompt(language).map((token) => {
      const id = tokenToId(token);
      if (id !== undefined) return id;
      throw new StartupError(`${folder.path}: its tokenizer has no ${token}.`);
    });
  const { length } = writePrompt();
  const preprocessor = await readOptionalJson(folder, "preprocessor_config.json");
  const positions = numberAt(folder.config, "max_position_embeddings") ?? COHERE_POSITIONS;
  return {
    open: (context, options) => openSeq2Seq(context, { ...options, positions, writePrompt }),
    languages,
    defaultLanguage,
    maxChunkSeconds: numberAt(preprocessor, "max_audio_clip_s") ?? COHERE_PIECE_SECONDS,
    getMaxTokens: () => positions - length,
  };
}

/**
 * A prompt for text with punctuation and capitals, with numbers as they are spoken, without timestamps and speakers.
 */
function coherePrompt(language: string): string[] {
  return [
    "▁",
    "<|startofcontext|>",
    "<|startoftranscript|>",
    "<|emo:undefined|>",
    `<|${language}|>`,
    `<|${language}|>`,
    "<|pnc|>",
    "<|noitn|>",
    "<|notimestamp|>",
    "<|nodiarize|>",
  ];
}

/**
 * A language model prompted for a transcript. It is not told the language.
 *
 * @see https://huggingface.co/ibm-granite/granite-4.0-1b-speech
 */
export function describeGranite(
  { path }: ModelFolder,
  { template }: TextTokenizer,
): GeneratingFamily {
  if (template === undefined) {
    throw new StartupError(`${path} has no chat template, which is needed to prompt the model.`);
  }
  const prompt = template.render([{ role: "user", content: GRANITE_QUESTION }]);
  return {
    open: (context, options) => openPrompted(context, { ...options, writePrompt: () => prompt }),
    languages: GRANITE_LANGUAGES,
    maxChunkSeconds: CHUNK_SECONDS,
    getMaxTokens: (seconds) => Math.ceil(seconds * TOKENS_PER_SECOND),
  };
}

/** @see https://arxiv.org/abs/2507.13264 on transcription */
export function describeVoxtral(): GeneratingFamily {
  const writePrompt = (language: string | undefined) =>
    `<s>[INST][AUDIO][/INST]${language === undefined ? "" : `lang:${language}`}[TRANSCRIBE]`;
  return {
    open: (context, options) => openPrompted(context, { ...options, writePrompt }),
    languages: VOXTRAL_LANGUAGES,
    maxChunkSeconds: CHUNK_SECONDS,
    getMaxTokens: (seconds) => Math.ceil(seconds * TOKENS_PER_SECOND),
  };
}
