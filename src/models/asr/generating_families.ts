/**
 * Families of speech models that generate text token by token. There are two layouts: an encoder whose output the
 * decoder attends to (Moonshine, Cohere), and an encoder whose output replaces tokens in a language model's prompt
 * (Granite, Voxtral).
 *
 * @module
 */
import { ALL_LANGUAGES } from "../../media/languages.ts";
import { StartupError } from "../../base/errors.ts";
import { type ModelFolder, readNumber, readOptionalJson } from "../../hub/model_folder.ts";
import type { OpenContext } from "../model.ts";
import type { TextTokenizer } from "../text/tokenizer.ts";
import { findLanguages, openPart, openSpeechFeatures } from "./recogniser.ts";
import type { EmbeddingSource } from "../../decoder/decoder.ts";
import type {
  GeneratingFamily,
  SpeechDecoder,
  SpeechDecoderOptions,
} from "./generating_recogniser.ts";
import { warmUp } from "../../engine/generate.ts";
import { openGraph, type PlainTensors, toFeeds } from "../folder/graph_file.ts";
import { loadDecoder, loadEncoderDecoder } from "../folder/decoder_load.ts";
import { findMediaToken, MediaEncoder } from "../media_encoder.ts";
import { findContextLength, readVocabSize } from "../folder/config_fields.ts";
import { yieldToEvents } from "../../base/timing.ts";
import type { Tensor } from "../../device/ort/ort.ts";

/** Moonshine's own limit, which ends repetitive text. */
const MOONSHINE_TOKENS_PER_SECOND = 6.5;
const MOONSHINE_POSITIONS = 194;
const MOONSHINE_START = 1;
const COHERE_CHUNK_SECONDS = 35;
const COHERE_POSITIONS = 1024;
/** A limit above the rate of any speech, which ends repetitive text. */
const TOKENS_PER_SECOND = 10;
/** Length of the longest chunk for Granite and Voxtral. It is also the length of Voxtral's encoder input. */
const CHUNK_SECONDS = 30;
/** The prompt that Granite was trained to answer with a transcript. */
const GRANITE_QUESTION = "<|audio|>can you transcribe the speech into a written format?";
const GRANITE_LANGUAGES = ["en", "fr", "de", "es", "pt", "ja"];
const VOXTRAL_LANGUAGES = ["en", "es", "fr", "pt", "hi", "de", "nl", "it"];

/** Describes Moonshine's models, each of which knows one language. @see https://arxiv.org/abs/2410.15608 */
export function describeMoonshine(folder: ModelFolder): GeneratingFamily {
  const positions = readNumber(folder.config, "max_position_embeddings") ?? MOONSHINE_POSITIONS;
  const languages = findLanguages(folder);
  const start = readNumber(folder.config, "decoder_start_token_id") ?? MOONSHINE_START;
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
 * Describes Cohere's model, whose prompt names the language: English if the request gives none.
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
    throw new StartupError(`${folder.path}: its tokenizer has no language tokens, such as <|en|>.`);
  }
  const writePrompt = (language = defaultLanguage) =>
    writeCoherePrompt(language).map((token) => {
      const id = tokenToId(token);
      if (id !== undefined) return id;
      throw new StartupError(`${folder.path}: its tokenizer has no ${token}.`);
    });
  const { length } = writePrompt();
  const preprocessor = await readOptionalJson(folder, "preprocessor_config.json");
  const positions = readNumber(folder.config, "max_position_embeddings") ?? COHERE_POSITIONS;
  return {
    open: (context, options) => openSeq2Seq(context, { ...options, positions, writePrompt }),
    languages,
    defaultLanguage,
    maxChunkSeconds: readNumber(preprocessor, "max_audio_clip_s") ?? COHERE_CHUNK_SECONDS,
    getMaxTokens: () => positions - length,
  };
}

/**
 * Writes a prompt for text with punctuation and capitals, with numbers as they are spoken, without timestamps and
 * without speaker labels.
 */
function writeCoherePrompt(language: string): string[] {
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
 * Describes Granite's model, which is prompted for a transcript. The prompt does not name the language.
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

/** Describes Voxtral, whose prompt may name the language. @see https://arxiv.org/abs/2507.13264 on transcription */
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

/** A chunk of sound as the encoder's input. */
interface SoundInput {
  readonly tensors: PlainTensors;
}

const ENCODER = "encoder_model";
const HIDDEN = "last_hidden_state";

/**
 * Opens an encoder and a decoder that attends to its output.
 *
 * @throws {StartupError} when a file is missing from the folder, or a graph does not fit.
 */
async function openSeq2Seq(
  context: OpenContext,
  { positions, writePrompt, maxChunkSeconds, maxRecordings, metrics }: SpeechDecoderOptions & {
    /** Maximum number of positions in the decoder. */
    readonly positions: number;
    /** Writes the tokens that the decoder begins with. */
    readonly writePrompt: (language: string | undefined) => readonly number[];
  },
): Promise<SpeechDecoder> {
  const { folder } = context;
  const features = await openSpeechFeatures(folder, { takesText: false });
  const { sampleRateHz } = features;
  const encoder = await openPart(folder, () => openGraph(ENCODER, context));
  const encode = ({ tensors }: SoundInput) =>
    metrics.measureEncoding(async () => {
      const feeds = toFeeds(encoder, { getTensor: (input) => tensors[input], of: ENCODER });
      return (await encoder.run(feeds, { [HIDDEN]: null }))[HIDDEN]!;
    });
  const silence = async (seconds: number) => ({
    tensors: await features.prepare(new Float32Array(seconds * sampleRateHz)),
  });
  const encodePositions = async (seconds: number) => {
    const hidden = await encode(await silence(seconds));
    hidden.dispose();
    return hidden.dims[1]!;
  };
  const makeRequest = async (samples: Float32Array, language: string | undefined) => ({
    promptTokens: Int32Array.from(writePrompt(language)),
    encoderInput: { tensors: await features.prepare(samples) },
  });
  const [one, two] = [await encodePositions(1), await encodePositions(2)];
  const decoder = await loadEncoderDecoder<SoundInput>({
    ...context,
    vocabSize: readVocabSize(folder),
    contextLength: positions,
    // Because of rounding, one second may have one position more than another.
    numPositions: one + Math.ceil(maxChunkSeconds) * (two - one + 1),
    maxSequences: maxRecordings,
    encoder: { maxInputs: 1, encode: ([input]) => encode(input!) },
  });
  context.onProgress({ what: "warming up" });
  await warmUp(decoder, await silence(1));
  return {
    sampleRateHz,
    decoder,
    makeRequest,
    dispose: async () => {
      await decoder.dispose();
      await encoder.release();
    },
  };
}

const AUDIO_ENCODER = "audio_encoder";
/**
 * Maximum number of tokens of prompt, sound and transcript together; a language model's own context is far larger than
 * needed.
 */
const PROMPTED_CONTEXT = 1024;

/**
 * Opens a language model and an encoder whose output replaces tokens in its prompt.
 *
 * @throws {StartupError} when a file is missing from the folder, or a graph does not fit.
 */
async function openPrompted(
  context: OpenContext,
  { writePrompt, metrics, maxRecordings }: SpeechDecoderOptions & {
    /** Writes a text with a placeholder for the sound. */
    readonly writePrompt: (language: string | undefined) => string;
  },
): Promise<SpeechDecoder> {
  const { backend, folder, engine } = context;
  const features = await openSpeechFeatures(folder, { takesText: true });
  const { config } = folder;
  const audioToken = findMediaToken(config, "audio");
  if (audioToken === undefined) {
    throw new StartupError(
      `${folder.path}/config.json gives no audio_token_index or audio_token_id.`,
    );
  }
  const known = findContextLength(folder) ?? PROMPTED_CONTEXT;
  const { decoder, embeddings } = await loadDecoder({
    ...context,
    engine: { ...engine, maxSequences: maxRecordings },
    contextLength: Math.min(known, PROMPTED_CONTEXT),
  });
  const session = await openPart(folder, () => openGraph(AUDIO_ENCODER, context));
  const encoder = await MediaEncoder.open({ backend, session, embeddings, medium: "audio" });
  let numHeard = 0;
  const makeRequest = async (samples: Float32Array, language: string | undefined) => {
    const tensors = await features.prepare(samples, writePrompt(language));
    const ids = tensors["input_ids"]!.data as BigInt64Array<ArrayBuffer>;
    const promptTokens = Int32Array.from(ids, Number);
    const start = promptTokens.indexOf(audioToken);
    const end = promptTokens.lastIndexOf(audioToken) + 1;
    const sound = makeSoundRows(() =>
      metrics.measureEncoding(() => encoder.encode(tensors, end - start))
    );
    return {
      promptTokens,
      media: [{ start, end, key: `${numHeard++}`, source: sound }],
      release: sound.release,
    };
  };
  context.onProgress({ what: "warming up" });
  await warmUp(decoder);
  return {
    sampleRateHz: features.sampleRateHz,
    decoder,
    makeRequest,
    dispose: async () => {
      await decoder.dispose();
      await encoder.dispose();
    },
  };
}

/**
 * Makes the source of a sound's rows in the prompt. The sound is encoded when a step first needs the rows. They are
 * kept until the request ends, as a prompt may take several steps.
 */
function makeSoundRows(
  encode: () => Promise<Tensor>,
): EmbeddingSource & { release(): Promise<void> } {
  let encoded: Promise<Tensor> | undefined;
  return {
    rows: () => encoded ??= encode(),
    release: async () => {
      const rows = await encoded?.catch(() => undefined);
      // A step that waited for the rows copies them before they are freed.
      await yieldToEvents();
      rows?.dispose();
    },
  };
}
