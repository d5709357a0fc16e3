/**
 * Chatterbox: a language model generates speech tokens for a text in the voice of a recording, and a decoder converts
 * them to sound.
 *
 * @module
 */
import { join } from "node:path";
import { invalidMedia, runStartupStep } from "../../base/errors.ts";
import { readOptionalJson, readTokenIds } from "../../hub/model_folder.ts";
import type { OpenContext } from "../model.ts";
import { readReference } from "./voices.ts";
import { type EmbeddingRows, SpeechTokenGenerator } from "./speech_token_generator.ts";
import { type ClonedVoice, loadTtsTokenizer, type Synthesizer, TtsGraph } from "./synthesizer.ts";
import type { Voice } from "../task.ts";

const DEFAULT_RATE_HZ = 24_000;
const MAX_TOKENS = 1_000;
const LANGUAGE = "en";
/** The recording of the default voice. */
const DEFAULT_VOICE = "default_voice.wav";
/** The end token, unless the configuration gives another one. */
const END_OF_SPEECH = 6_562;
/** Speech tokens of silence, appended before decoding so that the sound ends cleanly. */
const SILENCE = [4_299, 4_299, 4_299];

/** A voice: the outputs of the speech encoder for a recording, f32. */
interface ChatterboxVoice extends Voice {
  /** Rows of embeddings that precede the text in the prompt. */
  readonly prefix: EmbeddingRows;
  /** The recording's speech tokens, which precede the generated ones in the decoder's input. */
  readonly tokens: readonly number[];
  readonly embeddings: EmbeddingRows;
  readonly features: EmbeddingRows;
}

/** @throws {StartupError} when a file is missing from the folder, or its default voice is not a recording. */
export async function loadChatterbox(context: OpenContext): Promise<Synthesizer> {
  const { folder } = context;
  const tokenizer = await loadTtsTokenizer(folder);
  const generation = await readOptionalJson(folder, "generation_config.json");
  const sound = await readOptionalJson(folder, "preprocessor_config.json");
  const sampleRateHz = Number(sound["sampling_rate"] ?? DEFAULT_RATE_HZ);
  const endTokens = readTokenIds({ ...folder.config, ...generation }, "eos_token_id");
  const encoder = await TtsGraph.open(context, { name: "speech_encoder", known: /^audio_values$/ });
  const generator = await SpeechTokenGenerator.open(context, {
    endTokens: endTokens.length > 0 ? endTokens : [END_OF_SPEECH],
    repetitionPenalty: Number(generation["repetition_penalty"] ?? 1),
  });
  const decoder = await TtsGraph.open(context, {
    name: "conditional_decoder",
    known: /^(speech_tokens|speaker_features|speaker_embeddings)$/,
  });
  const voices = folder.files.has(DEFAULT_VOICE)
    ? [await loadDefaultVoice(join(folder.path, DEFAULT_VOICE), { encoder, sampleRateHz })]
    : [];
  return {
    sampleRateHz,
    voices,
    cloner: { sampleRateHz, clone: (samples) => cloneVoice("recording", samples, encoder) },
    maxTokens: MAX_TOKENS,
    hasSpeed: false,
    tokenize: (text) => tokenizer.encode(text),
    synthesize: async (tokens, { voice, noiseOffset, signal }) => {
      const { prefix, tokens: before, embeddings, features } = voice as ChatterboxVoice;
      const generated = await generator.generate(tokens, { prefix, signal });
      const all = [...before, ...generated, ...SILENCE];
      return await decoder.read({
        speech_tokens: { values: all, dims: [1, all.length] },
        speaker_embeddings: embeddings,
        speaker_features: features,
      }, { output: "waveform", offset: noiseOffset });
    },
    dispose: async () => {
      await encoder.release();
      await generator.dispose();
      await decoder.release();
    },
  };
}

function loadDefaultVoice(
  file: string,
  { encoder, sampleRateHz }: { readonly encoder: TtsGraph; readonly sampleRateHz: number },
): Promise<Voice> {
  return runStartupStep(async () => {
    const samples = await readReference(await Deno.readFile(file), { sampleRateHz, isCut: true });
    return (await cloneVoice("default", samples, encoder)).voice;
  }, (reason) => `${file} cannot be used as a voice: ${reason}`);
}

async function cloneVoice(
  id: string,
  samples: Float32Array,
  encoder: TtsGraph,
): Promise<ClonedVoice> {
  const outputs = await encoder.run({
    audio_values: { values: samples, dims: [1, samples.length] },
  });
  // Reads an output and frees it.
  const take = async (name: string): Promise<EmbeddingRows> => {
    const dims = [...outputs[name]?.dims ?? []];
    return { values: await encoder.take(outputs, name), dims };
  };
  const prefix = await take("audio_features");
  const { values: tokens } = await take("audio_tokens");
  const embeddings = await take("speaker_embeddings");
  const features = await take("speaker_features");
  const numbers = [prefix.values, embeddings.values, features.values];
  if (!numbers.every((values) => values.every(Number.isFinite))) {
    throw invalidMedia("The recording's voice cannot be determined.");
  }
  const voice: ChatterboxVoice = {
    id,
    language: LANGUAGE,
    prefix,
    tokens: [...tokens],
    embeddings,
    features,
  };
  return { voice, numBytes: numbers.reduce((sum, { byteLength }) => sum + byteLength, 0) };
}
