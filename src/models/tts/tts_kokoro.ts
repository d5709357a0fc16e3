/**
 * Kokoro, a StyleTTS 2 without diffusion: one graph from phonemes, a style and a speed to sound.
 *
 * @module
 */
import type { OpenContext } from "../open_context.ts";
import type { Synthesizer } from "./synthesizer.ts";
import { TtsGraph } from "./tts_graph.ts";
import { toPhonemes } from "./tts_phonemes.ts";
import { loadTtsTokenizer } from "./tts_tokenizer.ts";
import { readVoices, type VectorVoice } from "./tts_voices.ts";

const DEFAULT_RATE_HZ = 24_000;
const DEFAULT_STYLE_WIDTH = 256;
/** Longest input in training, less a token at each end. */
const MAX_TOKENS = 512;
const NUM_END_TOKENS = 2;
/** Languages by the first letter of a voice's name. Other languages need phonemes that are not available. */
const LANGUAGES: Readonly<Record<string, string>> = { a: "en-US", b: "en-GB" };
/** Default: the voice with the authors' best grade. */
const BEST_VOICE = "af_heart";

/** @throws {StartupError} when the folder lacks a part, such as a voice. */
export async function loadKokoro(context: OpenContext): Promise<Synthesizer> {
  const { folder } = context;
  const tokenizer = await loadTtsTokenizer(folder);
  const graph = await TtsGraph.open(context, {
    name: "model",
    known: /^(input_ids|style|speed)$/,
  });
  const declared = graph.inputs.find(({ name }) => name === "style")?.shape.at(-1);
  const width = typeof declared === "number" ? declared : DEFAULT_STYLE_WIDTH;
  const voices = await readVoices(folder, { width, languageOf: (id) => LANGUAGES[id[0]!] });
  return {
    sampleRateHz: Number(folder.config["sampling_rate"] ?? DEFAULT_RATE_HZ),
    voices: voices.sort((a, b) => Number(b.id === BEST_VOICE) - Number(a.id === BEST_VOICE)),
    maxTokens: MAX_TOKENS,
    hasSpeed: true,
    tokenize: async (text, { language }) => tokenizer.encode(await toPhonemes(text, language)),
    synthesize: async (tokens, { voice, speed, noiseOffset }) => {
      const { style } = voice as VectorVoice;
      // A voice has a style vector for each length of text.
      const row = Math.min(tokens.length - NUM_END_TOKENS, style.length / width - 1);
      return await graph.read({
        input_ids: { values: tokens, dims: [1, tokens.length] },
        style: { values: style.subarray(row * width, (row + 1) * width), dims: [1, width] },
        speed: { values: [speed], dims: [1] },
      }, { output: "waveform", offset: noiseOffset });
    },
    dispose: () => graph.release(),
  };
}
