/**
 * SpeechT5: an encoder of characters, a decoder that adds a few frames of a spectrogram at a time, and a vocoder.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../../errors.ts";
import { log } from "../../log.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import type { OpenContext } from "../family.ts";
import { MelDecoder, type MelState } from "./tts_mel_decoder.ts";
import { SpeakerEncoder } from "./speaker_encoder.ts";
import type { Synthesizer, Utterance, VoiceCloner } from "./synthesizer.ts";
import { TtsGraph } from "./tts_graph.ts";
import { loadTtsTokenizer, type TtsTokenizer } from "./tts_tokenizer.ts";
import { nextTurn } from "../../next_turn.ts";
import { readVoices, type VectorVoice } from "./tts_voices.ts";

const LANGUAGE = "en";
const DEFAULT_RATE_HZ = 16_000;
const DEFAULT_MAX_TOKENS = 600;
/** Width of a speaker embedding (x-vector). */
const DEFAULT_SPEAKER_WIDTH = 512;
/** The voice at the root of a folder without other voices. */
const ROOT_VOICE = "speaker_embeddings.bin";
/** Stop probability at which the sound ends. */
const STOP_PROBABILITY = 0.5;
/** Most frames per token, for a decoder that does not stop. */
const MAX_FRAMES_PER_TOKEN = 20;

interface SpeechT5Parts {
  readonly tokenizer: TtsTokenizer;
  readonly encoder: TtsGraph;
  readonly decoder: MelDecoder;
  readonly vocoder: TtsGraph;
  readonly speakerEncoder: SpeakerEncoder | undefined;
  readonly voices: readonly [VectorVoice, ...VectorVoice[]];
  readonly sampleRateHz: number;
  readonly maxTokens: number;
  readonly melBins: number;
  /** Frames per decoder step. */
  readonly framesPerStep: number;
}

export class SpeechT5Synthesizer implements Synthesizer {
  readonly hasSpeed = false;
  readonly #parts: SpeechT5Parts;

  private constructor(parts: SpeechT5Parts) {
    this.#parts = parts;
  }

  get sampleRateHz(): number {
    return this.#parts.sampleRateHz;
  }

  get voices(): readonly [VectorVoice, ...VectorVoice[]] {
    return this.#parts.voices;
  }

  get maxTokens(): number {
    return this.#parts.maxTokens;
  }

  get cloner(): VoiceCloner | undefined {
    return this.#parts.speakerEncoder;
  }

  get clonerWanted(): string | undefined {
    if (this.cloner !== undefined) return undefined;
    return "SpeechT5 needs a speaker encoder for that, an x-vector model in ONNX (--speaker-encoder); Chatterbox " +
      "needs none";
  }

  /** @throws {StartupError} when the folder lacks a part, such as the vocoder. */
  static async load(context: OpenContext): Promise<SpeechT5Synthesizer> {
    const { folder, speakerEncoderFolder } = context;
    const { config } = folder;
    const number = (name: string, fallback: number) => Number(config[name] ?? fallback);
    const tokenizer = await loadTtsTokenizer(folder);
    const width = number("speaker_embedding_dim", DEFAULT_SPEAKER_WIDTH);
    const voices = await readSpeakers(folder, width);
    const vocoder = findVocoder(context);
    return new SpeechT5Synthesizer({
      tokenizer,
      voices,
      // Before the larger graphs, so that its errors appear at once.
      speakerEncoder: speakerEncoderFolder === undefined
        ? undefined
        : await SpeakerEncoder.load(speakerEncoderFolder, {
          ...context,
          width,
          language: LANGUAGE,
        }),
      encoder: await TtsGraph.open(context, {
        name: "encoder_model",
        known: /^(input_ids|attention_mask)$/,
      }),
      decoder: await MelDecoder.open(context),
      vocoder: await TtsGraph.open(context, { name: vocoder, known: /^spectrogram$/ }),
      sampleRateHz: number("sampling_rate", DEFAULT_RATE_HZ),
      maxTokens: number("max_text_positions", DEFAULT_MAX_TOKENS),
      melBins: number("num_mel_bins", 80),
      framesPerStep: number("reduction_factor", 2),
    });
  }

  tokenize(text: string): Promise<readonly number[]> {
    return Promise.resolve(this.#parts.tokenizer.encode(text));
  }

  async synthesize(
    tokens: readonly number[],
    utterance: Utterance,
  ): Promise<Float32Array<ArrayBuffer>> {
    const { vocoder, melBins } = this.#parts;
    const mel = await this.#decode(tokens, utterance);
    const spectrogram = { values: mel, dims: [mel.length / melBins, melBins] };
    return await vocoder.read({ spectrogram }, { output: "waveform" });
  }

  async dispose(): Promise<void> {
    const { encoder, decoder, vocoder, speakerEncoder } = this.#parts;
    await speakerEncoder?.dispose();
    await encoder.release();
    await decoder.release();
    await vocoder.release();
  }

  /** f32 `[frames, melBins]`. */
  async #decode(
    tokens: readonly number[],
    { voice, noiseOffset, signal }: Utterance,
  ): Promise<Float32Array<ArrayBuffer>> {
    const { encoder, decoder, melBins, framesPerStep } = this.#parts;
    const dims = [1, tokens.length];
    const encoded = await encoder.run({
      input_ids: { values: tokens, dims },
      attention_mask: { values: tokens.map(() => 1), dims },
    });
    const maxSteps = Math.floor(tokens.length / framesPerStep * MAX_FRAMES_PER_TOKEN);
    const mel = new GrowingFrames(framesPerStep * melBins * 64);
    let state: MelState | undefined;
    try {
      state = await decoder.begin(encoded, {
        speaker: (voice as VectorVoice).style,
        melBins,
      });
      for (let step = 0; step < Math.max(1, maxSteps); step++) {
        await nextTurn();
        signal.throwIfAborted();
        const { frames, stopProbability } = await decoder.step(state, noiseOffset + step);
        mel.push(frames);
        if (stopProbability >= STOP_PROBABILITY) break;
      }
    } finally {
      state?.dispose();
      for (const tensor of Object.values(encoded)) tensor.dispose();
    }
    return mel.all();
  }
}

/** A growing array of numbers. */
class GrowingFrames {
  #values: Float32Array<ArrayBuffer>;
  #length = 0;

  constructor(capacity: number) {
    this.#values = new Float32Array(capacity);
  }

  push(more: Float32Array): void {
    if (this.#length + more.length > this.#values.length) {
      const larger = new Float32Array(2 * this.#values.length + more.length);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values.set(more, this.#length);
    this.#length += more.length;
  }

  all(): Float32Array<ArrayBuffer> {
    return this.#values.subarray(0, this.#length);
  }
}

function findVocoder({ folder, graphs }: OpenContext): string {
  const name = ["decoder_postnet_and_vocoder", "vocoder"].find((each) => graphs.has(each));
  if (name !== undefined) return name;
  throw new StartupError(
    `${folder.path} has no vocoder: wanted is onnx/decoder_postnet_and_vocoder.onnx as Optimum exports it, or a ` +
      "HiFi-GAN as onnx/vocoder.onnx.",
  );
}

/** The folder's voices; a neutral one if it has none. */
async function readSpeakers(
  folder: ModelFolder,
  width: number,
): Promise<[VectorVoice, ...VectorVoice[]]> {
  const languageOf = () => LANGUAGE;
  if ([...folder.files].some((file) => file.startsWith("voices/"))) {
    return await readVoices(folder, { width, languageOf });
  }
  if (folder.files.has(ROOT_VOICE)) {
    const bytes = await Deno.readFile(join(folder.path, ROOT_VOICE));
    if (bytes.length === 4 * width) {
      return [{ id: "default", language: LANGUAGE, style: new Float32Array(bytes.buffer) }];
    }
    throw new StartupError(
      `${folder.path}/${ROOT_VOICE} has ${bytes.length} bytes; wanted are ${width} numbers of 4 bytes.`,
    );
  }
  log.warn("the folder has no voices: using a neutral speaker", {
    wanted: `voices/<name>.bin with ${width} numbers of 4 bytes`,
  });
  return [{ id: "neutral", language: LANGUAGE, style: new Float32Array(width) }];
}
