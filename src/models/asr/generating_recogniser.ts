/**
 * Recognisers for models that generate text without timestamps (Moonshine, Cohere, Granite, Voxtral). Each chunk of
 * sound becomes one segment. Each chunk is a request to the engine, which runs the chunks of all recordings in shared
 * steps.
 *
 * @module
 */
import { type Decoder, GREEDY } from "../../decoder/decoder.ts";
import { generateTokens } from "../../engine/generate.ts";
import { EngineLoop } from "../../engine/loop.ts";
import type { GenerationRequest } from "../../engine/sequence.ts";
import { StartupError } from "../../base/errors.ts";
import { type ModelFolder, readOptionalJson, readTokenIds } from "../../hub/model_folder.ts";
import type { OpenContext } from "../model.ts";
import { loadTokenizer, type TextTokenizer } from "../text/tokenizer.ts";
import {
  computeCompressionRatio,
  type Recogniser,
  type RecogniserOptions,
  type Recording,
  type SampleRange,
  type SpokenLanguages,
  toLanguageName,
  type TranscribedWindow,
  UNSPACED_LANGUAGES,
} from "./recogniser.ts";

/** The properties in which families of models differ. */
export interface GeneratingFamily {
  /** @throws {StartupError} when a file is missing from the folder, or a graph does not fit the family. */
  open(context: OpenContext, options: SpeechDecoderOptions): Promise<SpeechDecoder>;
  readonly languages: SpokenLanguages;
  /** The language for requests without one; if absent, the model detects it from the audio. */
  readonly defaultLanguage?: string | undefined;
  /** Length of the longest chunk that is transcribed at once. */
  readonly maxChunkSeconds: number;
  /** Computes the most tokens to generate for a chunk of this many seconds. */
  readonly getMaxTokens: (seconds: number) => number;
}

/**
 * Describes the model in a folder.
 *
 * @throws {StartupError} when the folder lacks something that the family needs.
 */
type DescribeFamily = (
  folder: ModelFolder,
  tokenizer: TextTokenizer,
) => GeneratingFamily | Promise<GeneratingFamily>;

/** The request for transcribing a chunk of sound. */
interface SpeechRequest extends Pick<GenerationRequest, "promptTokens" | "encoderInput" | "media"> {
  /** Frees the request's memory on the device. */
  release?(): Promise<void>;
}

/** A decoder of speech, which owns its encoder. */
export interface SpeechDecoder {
  readonly sampleRateHz: number;
  readonly decoder: Decoder;
  /** @param language the API's code; if absent, the model detects the language. */
  makeRequest(samples: Float32Array, language: string | undefined): Promise<SpeechRequest>;
  /** Frees decoder and encoder. */
  dispose(): Promise<void>;
}

/** Options for opening the decoder of a family. */
export interface SpeechDecoderOptions extends RecogniserOptions {
  /** Length of the longest chunk that is transcribed at once. */
  readonly maxChunkSeconds: number;
}

/** @throws {StartupError} when a file is missing from the folder, or a graph does not fit the family. */
export async function loadGenerating(
  context: OpenContext,
  { describe, ...options }: RecogniserOptions & { readonly describe: DescribeFamily },
): Promise<Recogniser> {
  const { folder, graphs, onProgress } = context;
  onProgress({ what: "reading the tokenizer" });
  const tokenizer = await loadTokenizer(folder);
  const family = await describe(folder, tokenizer);
  const generationConfig = await readOptionalJson(folder, "generation_config.json");
  const endTokens = readTokenIds({ ...folder.config, ...generationConfig }, "eos_token_id");
  const { decode } = tokenizer;
  const parts = await openFitting(folder, async () => {
    const { maxChunkSeconds } = family;
    const speechDecoder = await family.open(context, { ...options, maxChunkSeconds });
    const { sampleRateHz } = speechDecoder;
    // The prefix cache is off, as prompts are equal but their sounds differ.
    const engine = new EngineLoop(speechDecoder.decoder, { prefixCache: false });
    const parts = { ...family, sampleRateHz, speechDecoder, engine, endTokens, decode };
    // Generating two tokens for a second of silence verifies that the graphs fit together.
    const { signal } = new AbortController();
    const silence = new Float32Array(sampleRateHz);
    await recognise(silence, { language: undefined, temperature: 0, maxTokens: 2, signal }, parts);
    return parts;
  });
  const { metrics } = options;
  metrics.adopt(parts.engine.metrics.registry);
  // Warming up is not counted: no request asked for it.
  metrics.registry.resetMetrics();
  return {
    languages: family.languages,
    dtype: graphs.main.dtype,
    sampleRateHz: parts.sampleRateHz,
    maxSpeechSeconds: family.maxChunkSeconds,
    whyNoTranslation: "its architecture only transcribes",
    whyNoWordTimes: "its architecture generates text without times",
    transcribe: (recording) => transcribe(recording, parts),
    dispose: async () => {
      await parts.engine.close();
      await parts.speechDecoder.dispose();
    },
  };
}

/** Runs `open`. @throws {StartupError} naming the folder, when its graphs do not work together. */
async function openFitting<T>({ path }: ModelFolder, open: () => Promise<T>): Promise<T> {
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

interface Parts extends GeneratingFamily {
  readonly speechDecoder: SpeechDecoder;
  readonly engine: EngineLoop;
  readonly endTokens: readonly number[];
  /** Decodes tokens, leaving out special tokens. */
  readonly decode: (tokens: number[]) => string;
  readonly sampleRateHz: number;
}

/**
 * Transcribes a chunk of sound.
 *
 * @throws the signal's reason; the device's error.
 */
async function recognise(
  samples: Float32Array,
  { language, temperature, maxTokens, signal }:
    & Pick<Recording, "language" | "temperature" | "signal">
    & { readonly maxTokens: number },
  { speechDecoder, engine, endTokens, decode }: Parts,
) {
  const { release, ...request } = await speechDecoder.makeRequest(samples, language);
  try {
    const { tokens, sumLogprobs, numChosen } = await generateTokens(engine, {
      ...request,
      sample: { ...GREEDY, temperature, seed: crypto.getRandomValues(new Uint32Array(1))[0]! },
      maxTokens,
      topLogprobs: 0,
      endTokens,
      signal,
    });
    return {
      text: tokens.length === 0 ? "" : decode(tokens).trim(),
      tokens,
      numPromptTokens: request.promptTokens.length,
      meanLogprob: sumLogprobs / Math.max(1, numChosen),
    };
  } finally {
    await release?.();
  }
}

async function* transcribe(
  recording: Recording,
  parts: Parts,
): AsyncGenerator<TranscribedWindow, void> {
  const { defaultLanguage, sampleRateHz, maxChunkSeconds } = parts;
  const { language = defaultLanguage, temperature, signal } = recording;
  const space = UNSPACED_LANGUAGES.includes(language ?? "") ? "" : " ";
  const maxSamples = Math.floor(maxChunkSeconds * sampleRateHz);
  let numSegments = 0;
  for await (
    const { start, end, samples } of splitChunks(recording, { sampleRateHz, maxSamples })
  ) {
    signal.throwIfAborted();
    const maxTokens = parts.getMaxTokens(samples.length / sampleRateHz);
    const heard = await recognise(samples, { language, temperature, maxTokens, signal }, parts);
    signal.throwIfAborted();
    const { text, tokens, numPromptTokens, meanLogprob } = heard;
    const startSeconds = start / sampleRateHz;
    const segment = {
      id: numSegments,
      seekFrame: Math.round(startSeconds * 100),
      startSeconds,
      endSeconds: end / sampleRateHz,
      text: `${space}${text}`,
      tokens,
      temperature,
      meanLogprob,
      compressionRatio: computeCompressionRatio(text),
      noSpeechProbability: 0,
    };
    if (text !== "") numSegments++;
    yield {
      language: toLanguageName(language),
      numPromptTokens,
      numTokens: tokens.length + 1,
      segments: text === "" ? [] : [segment],
    };
  }
}

/** Divides a recording into chunks: its speech regions or the whole recording, cut at quiet points if too long. */
async function* splitChunks(
  { read, numSamples, speech }: Recording,
  options: QuietCutOptions,
): AsyncGenerator<SampleRange & { readonly samples: Float32Array }> {
  for (const range of speech ?? [{ start: 0, end: numSamples }]) {
    for (let start = range.start; start < range.end;) {
      const next = await read(start, Math.min(start + options.maxSamples, range.end));
      const isRest = start + next.length === range.end;
      const length = isRest ? next.length : findQuietCut(next, options);
      yield { start, end: start + length, samples: next.subarray(0, length) };
      start += length;
    }
  }
}

interface QuietCutOptions {
  readonly sampleRateHz: number;
  /** Maximum number of samples of a chunk. */
  readonly maxSamples: number;
}

/** A chunk is cut at a quiet point at most this long before the latest possible cut. */
const SEARCH_SECONDS = 5;
const QUIET_SECONDS = 0.1;

/**
 * Finds the length of the next chunk, which ends in the quietest tenth of a second before the latest possible cut.
 * Pure.
 *
 * @param samples the next samples, as many as a chunk may have, or all if fewer are left.
 */
export function findQuietCut(
  samples: Float32Array,
  { sampleRateHz, maxSamples }: QuietCutOptions,
): number {
  if (samples.length < maxSamples) return samples.length;
  const window = Math.round(QUIET_SECONDS * sampleRateHz);
  const searched = Math.min(SEARCH_SECONDS * sampleRateHz, maxSamples / 2);
  let [quietest, least] = [maxSamples, Infinity];
  // Of equally quiet points the latest is taken, so that chunks are long.
  for (let start = maxSamples - window; start >= maxSamples - searched; start -= window) {
    let energy = 0;
    for (let i = start; i < start + window; i++) energy += samples[i]! ** 2;
    if (energy < least) [quietest, least] = [start + Math.floor(window / 2), energy];
  }
  return quietest;
}
