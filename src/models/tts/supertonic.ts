/**
 * Supertonic: encodes characters, and refines noise step by step into a latent representation of the sound (flow
 * matching).
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { yieldToEvents } from "../../base/timing.ts";
import { normalNoise } from "../../graph/rewrite/seeded_noise.ts";
import type { OpenContext } from "../model.ts";
import {
  type Feed,
  freeFeed,
  loadTtsTokenizer,
  type Synthesizer,
  textFeeds,
  TtsGraph,
} from "./synthesizer.ts";
import { readVoices, type VectorVoice } from "./voices.ts";

const MAX_TOKENS = 600;
/** The number of steps that the authors recommend as a balance of quality and speed. */
const NUM_STEPS = 5;
/** The model's own speed that corresponds to 1. */
const BASE_SPEED = 1.05;

/** @throws {StartupError} when a file is missing from the folder, such as a voice. */
export async function loadSupertonic(context: OpenContext): Promise<Synthesizer> {
  const { folder } = context;
  const { sampleRateHz, styleWidth, latentChannels, latentSamples } = readConfig(folder);
  const tokenizer = await loadTtsTokenizer(folder);
  const voices = await readVoices(folder, { width: styleWidth, languageByPrefix: () => "en" });
  const open = (name: string, known: RegExp) => TtsGraph.open(context, { name, known });
  const encoder = await open("text_encoder", /^(input_ids|attention_mask|style)$/);
  const denoiser = await open(
    "latent_denoiser",
    /^(style|noisy_latents|latent_mask|encoder_outputs|attention_mask|timestep|num_inference_steps)$/,
  );
  const decoder = await open("voice_decoder", /^latents$/);
  return {
    sampleRateHz,
    voices,
    maxTokens: MAX_TOKENS,
    hasSpeed: true,
    tokenize: (text) => tokenizer.encode(text),
    synthesize: async (tokens, { voice, speed, noiseOffset, signal }) => {
      const values = (voice as VectorVoice).style;
      const style = { values, dims: [1, values.length / styleWidth, styleWidth] };
      const text = textFeeds(tokens);
      const encoded = await encoder.run({ ...text, style });
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
          await yieldToEvents();
          signal.throwIfAborted();
          const { denoised_latents: next } = await denoiser.run({
            ...text,
            style,
            noisy_latents: latents,
            latent_mask: { values: new Array(columns).fill(1), dims: [1, columns] },
            encoder_outputs: encodedText,
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
    },
    dispose: async () => {
      for (const graph of [encoder, denoiser, decoder]) await graph.release();
    },
  };
}

function readConfig({ config, path }: ModelFolder) {
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
    /** Samples per column of the latent representation. */
    latentSamples: number("base_chunk_size") * compress,
  };
}
