/**
 * Supertonic: characters are encoded, and noise is refined step by step to a latent of the sound (flow matching).
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import { normalNoise } from "../../onnx/rewrite/noise_table.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import type { OpenContext } from "../family.ts";
import type { Synthesizer, Utterance } from "./synthesizer.ts";
import { type Feed, freeFeed, TtsGraph } from "./tts_graph.ts";
import { loadTtsTokenizer, type TtsTokenizer } from "./tts_tokenizer.ts";
import { nextTurn } from "../../next_turn.ts";
import { readVoices, type VectorVoice } from "./tts_voices.ts";

const MAX_TOKENS = 600;
/** The authors' number of steps for a balance of quality and speed. */
const NUM_STEPS = 5;
/** The model's own value of speed 1. */
const BASE_SPEED = 1.05;

/** Values of `config.json`. */
interface SupertonicConfig {
  readonly sampleRateHz: number;
  readonly styleWidth: number;
  readonly latentChannels: number;
  /** Samples per column of the latent. */
  readonly latentSamples: number;
}

interface SupertonicParts {
  readonly config: SupertonicConfig;
  readonly tokenizer: TtsTokenizer;
  readonly graphs: Readonly<Record<"encoder" | "denoiser" | "decoder", TtsGraph>>;
  readonly voices: readonly [VectorVoice, ...VectorVoice[]];
}

export class SupertonicSynthesizer implements Synthesizer {
  readonly voices: readonly [VectorVoice, ...VectorVoice[]];
  readonly maxTokens = MAX_TOKENS;
  readonly hasSpeed = true;
  readonly #parts: SupertonicParts;

  private constructor(parts: SupertonicParts) {
    this.#parts = parts;
    this.voices = parts.voices;
  }

  get sampleRateHz(): number {
    return this.#parts.config.sampleRateHz;
  }

  /** @throws {StartupError} when the folder lacks a part, such as a voice. */
  static async load(context: OpenContext): Promise<SupertonicSynthesizer> {
    const { folder } = context;
    const config = readConfig(folder);
    const tokenizer = await loadTtsTokenizer(folder);
    const voices = await readVoices(folder, {
      width: config.styleWidth,
      languageOf: () => "en",
    });
    const open = (name: string, known: RegExp) => TtsGraph.open(context, { name, known });
    const graphs = {
      encoder: await open("text_encoder", /^(input_ids|attention_mask|style)$/),
      denoiser: await open(
        "latent_denoiser",
        /^(style|noisy_latents|latent_mask|encoder_outputs|attention_mask|timestep|num_inference_steps)$/,
      ),
      decoder: await open("voice_decoder", /^latents$/),
    };
    return new SupertonicSynthesizer({ config, tokenizer, graphs, voices });
  }

  tokenize(text: string): Promise<readonly number[]> {
    return Promise.resolve(this.#parts.tokenizer.encode(text));
  }

  async synthesize(
    tokens: readonly number[],
    { voice, speed, noiseOffset, signal }: Utterance,
  ): Promise<Float32Array<ArrayBuffer>> {
    const { config, graphs: { encoder, denoiser, decoder } } = this.#parts;
    const { sampleRateHz, styleWidth, latentChannels, latentSamples } = config;
    const values = (voice as VectorVoice).style;
    const style = { values, dims: [1, values.length / styleWidth, styleWidth] };
    const mask = { values: tokens.map(() => 1), dims: [1, tokens.length] };
    const encoded = await encoder.run({
      input_ids: { values: tokens, dims: [1, tokens.length] },
      attention_mask: mask,
      style,
    });
    const encodedText = encoded["last_hidden_state"]!;
    let latents: Feed | undefined;
    try {
      const [seconds = 0] = await encoder.take(encoded, "durations");
      const numSamples = seconds / (BASE_SPEED * speed) * sampleRateHz;
      const columns = Math.max(1, Math.ceil(numSamples / latentSamples));
      latents = {
        values: normalNoise(noiseOffset, latentChannels * columns),
        dims: [1, latentChannels, columns],
      };
      for (let step = 0; step < NUM_STEPS; step++) {
        await nextTurn();
        signal.throwIfAborted();
        const { denoised_latents: next } = await denoiser.run({
          style,
          noisy_latents: latents,
          latent_mask: { values: new Array(columns).fill(1), dims: [1, columns] },
          encoder_outputs: encodedText,
          attention_mask: mask,
          timestep: { values: [step], dims: [1] },
          num_inference_steps: { values: [NUM_STEPS], dims: [1] },
        });
        freeFeed(latents);
        latents = next!;
      }
      const sound = await decoder.read({ latents }, { output: "waveform" });
      return sound.slice(0, Math.ceil(numSamples));
    } finally {
      encodedText.dispose();
      if (latents !== undefined) freeFeed(latents);
    }
  }

  async dispose(): Promise<void> {
    for (const graph of Object.values(this.#parts.graphs)) await graph.release();
  }
}

function readConfig({ config, path }: ModelFolder): SupertonicConfig {
  const number = (name: string) => {
    const value = config[name];
    if (typeof value === "number" && value > 0) return value;
    throw new StartupError(`${path}/config.json has no ${name}, which Supertonic needs.`);
  };
  const compress = number("chunk_compress_factor");
  return {
    sampleRateHz: number("sampling_rate"),
    styleWidth: number("style_dim"),
    latentChannels: number("latent_dim") * compress,
    latentSamples: number("base_chunk_size") * compress,
  };
}
