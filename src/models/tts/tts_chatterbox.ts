/**
 * Chatterbox: a language model generates speech tokens for a text in the voice of a recording, and a decoder turns them
 * into sound.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../../errors.ts";
import { invalidAudio } from "../../media/audio/sound.ts";
import type { Tensors } from "../../onnx/runtime/ort.ts";
import { readOptionalJson, tokensAt } from "../../hub/model_folder.ts";
import type { OpenContext } from "../family.ts";
import { readReference } from "./reference_recording.ts";
import { SpeechTokenGenerator, type VoicePrefix } from "./speech_token_generator.ts";
import type { ClonedVoice, Synthesizer, Utterance, Voice, VoiceCloner } from "./synthesizer.ts";
import { TtsGraph } from "./tts_graph.ts";
import { loadTtsTokenizer, type TtsTokenizer } from "./tts_tokenizer.ts";

const DEFAULT_RATE_HZ = 24_000;
const MAX_TOKENS = 1_000;
const LANGUAGE = "en";
/** The default voice's recording. */
const DEFAULT_VOICE = "default_voice.wav";
/** Default end token. */
const END_OF_SPEECH = 6_562;
/** Silence tokens, with which the decoder ends cleanly. */
const REST = [4_299, 4_299, 4_299];

/** The speech encoder's outputs for a recording, f32. */
interface ChatterboxVoice extends Voice {
  /** The rows before a text. */
  readonly prefix: VoicePrefix;
  /** The recording's tokens, put before the generated ones. */
  readonly tokens: readonly number[];
  readonly embeddings: VoicePrefix;
  readonly features: VoicePrefix;
}

interface ChatterboxParts {
  readonly tokenizer: TtsTokenizer;
  readonly encoder: TtsGraph;
  readonly writer: SpeechTokenGenerator;
  readonly decoder: TtsGraph;
  readonly sampleRateHz: number;
}

export class ChatterboxSynthesizer implements Synthesizer, VoiceCloner {
  readonly maxTokens = MAX_TOKENS;
  readonly hasSpeed = false;
  readonly #parts: ChatterboxParts;
  #voices: readonly Voice[] = [];

  private constructor(parts: ChatterboxParts) {
    this.#parts = parts;
  }

  /** @throws {StartupError} when the folder lacks a part, or its default voice is not a recording. */
  static async load(context: OpenContext): Promise<ChatterboxSynthesizer> {
    const { folder } = context;
    const tokenizer = await loadTtsTokenizer(folder);
    const generation = await readOptionalJson(folder, "generation_config.json");
    const sound = await readOptionalJson(folder, "preprocessor_config.json");
    const open = (name: string, known: RegExp) => TtsGraph.open(context, { name, known });
    const endTokens = tokensAt({ ...folder.config, ...generation }, "eos_token_id");
    const synthesizer = new ChatterboxSynthesizer({
      tokenizer,
      encoder: await open("speech_encoder", /^audio_values$/),
      writer: await SpeechTokenGenerator.open(context, {
        endTokens: endTokens.length > 0 ? endTokens : [END_OF_SPEECH],
        repetitionPenalty: Number(generation["repetition_penalty"] ?? 1),
      }),
      decoder: await open(
        "conditional_decoder",
        /^(speech_tokens|speaker_features|speaker_embeddings)$/,
      ),
      sampleRateHz: Number(sound["sampling_rate"] ?? DEFAULT_RATE_HZ),
    });
    if (folder.files.has(DEFAULT_VOICE)) await synthesizer.#learnDefault(folder.path);
    return synthesizer;
  }

  get sampleRateHz(): number {
    return this.#parts.sampleRateHz;
  }

  get voices(): readonly Voice[] {
    return this.#voices;
  }

  get cloner(): VoiceCloner {
    return this;
  }

  async clone(samples: Float32Array<ArrayBuffer>): Promise<ClonedVoice> {
    return await this.#clone("recording", samples);
  }

  tokenize(text: string): Promise<readonly number[]> {
    return Promise.resolve(this.#parts.tokenizer.encode(text));
  }

  async synthesize(
    tokens: readonly number[],
    { voice, noiseOffset, signal }: Utterance,
  ): Promise<Float32Array<ArrayBuffer>> {
    const { prefix, tokens: before, embeddings, features } = voice as ChatterboxVoice;
    const written = await this.#parts.writer.generate(tokens, { prefix, signal });
    const all = [...before, ...written, ...REST];
    return await this.#parts.decoder.read({
      speech_tokens: { values: all, dims: [1, all.length] },
      speaker_embeddings: embeddings,
      speaker_features: features,
    }, { output: "waveform", offset: noiseOffset });
  }

  async dispose(): Promise<void> {
    const { encoder, writer, decoder } = this.#parts;
    await encoder.release();
    await writer.dispose();
    await decoder.release();
  }

  async #learnDefault(path: string): Promise<void> {
    const file = join(path, DEFAULT_VOICE);
    try {
      const samples = await readReference(await Deno.readFile(file), {
        sampleRateHz: this.sampleRateHz,
        isCut: true,
      });
      this.#voices = [(await this.#clone("default", samples)).voice];
    } catch (error) {
      throw new StartupError(`${file} gives no voice: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  async #clone(id: string, samples: Float32Array): Promise<ClonedVoice> {
    const { encoder } = this.#parts;
    const outputs = await encoder.run({
      audio_values: { values: samples, dims: [1, samples.length] },
    });
    // Each is freed when read, also if it is then found invalid.
    const prefix = await take(encoder, outputs, "audio_features");
    const { values: tokens } = await take(encoder, outputs, "audio_tokens");
    const embeddings = await take(encoder, outputs, "speaker_embeddings");
    const features = await take(encoder, outputs, "speaker_features");
    const numbers = [prefix.values, embeddings.values, features.values];
    if (!numbers.every((values) => values.every(Number.isFinite))) {
      throw invalidAudio("The recording's voice cannot be determined.");
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
}

/** An output and its sizes. */
async function take(graph: TtsGraph, outputs: Tensors, name: string): Promise<VoicePrefix> {
  const dims = [...outputs[name]?.dims ?? []];
  return { values: await graph.take(outputs, name), dims };
}
