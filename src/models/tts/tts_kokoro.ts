/**
 * Kokoro, a StyleTTS 2 without diffusion: one graph from phonemes, a style and a speed to sound.
 *
 * @module
 */
import type { OpenContext } from "../family.ts";
import type { Synthesizer, Utterance } from "./synthesizer.ts";
import { toPhonemes } from "./tts_phonemes.ts";
import { TtsGraph } from "./tts_graph.ts";
import { loadTtsTokenizer, type TtsTokenizer } from "./tts_tokenizer.ts";
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

interface KokoroParts extends Pick<Synthesizer, "sampleRateHz"> {
  readonly graph: TtsGraph;
  readonly tokenizer: TtsTokenizer;
  readonly voices: readonly [VectorVoice, ...VectorVoice[]];
  readonly styleWidth: number;
}

export class KokoroSynthesizer implements Synthesizer {
  readonly sampleRateHz: number;
  readonly voices: readonly [VectorVoice, ...VectorVoice[]];
  readonly maxTokens = MAX_TOKENS;
  readonly hasSpeed = true;
  readonly #parts: KokoroParts;

  private constructor(parts: KokoroParts) {
    this.#parts = parts;
    this.voices = parts.voices;
    this.sampleRateHz = parts.sampleRateHz;
  }

  /** @throws {StartupError} when the folder lacks a part, such as a voice. */
  static async load(context: OpenContext): Promise<KokoroSynthesizer> {
    const { folder } = context;
    const tokenizer = await loadTtsTokenizer(folder);
    const graph = await TtsGraph.open(context, {
      name: "model",
      known: /^(input_ids|style|speed)$/,
    });
    try {
      const declared = graph.inputs.find(({ name }) => name === "style")?.shape.at(-1);
      const width = typeof declared === "number" ? declared : DEFAULT_STYLE_WIDTH;
      const [first, ...others] = await readVoices(folder, {
        width,
        languageOf: (id) => LANGUAGES[id[0]!],
      });
      const best = others.find(({ id }) => id === BEST_VOICE);
      return new KokoroSynthesizer({
        graph,
        tokenizer,
        voices: best
          ? [best, first, ...others.filter((voice) => voice !== best)]
          : [first, ...others],
        styleWidth: width,
        sampleRateHz: Number(folder.config["sampling_rate"] ?? DEFAULT_RATE_HZ),
      });
    } catch (error) {
      await graph.release();
      throw error;
    }
  }

  async tokenize(text: string, { language }: VectorVoice): Promise<readonly number[]> {
    return this.#parts.tokenizer.encode(await toPhonemes(text, language));
  }

  async synthesize(
    tokens: readonly number[],
    { voice, speed, noiseOffset }: Utterance,
  ): Promise<Float32Array<ArrayBuffer>> {
    const { graph, styleWidth: width } = this.#parts;
    const { style } = voice as VectorVoice;
    // A voice has a style vector for each length of text.
    const row = Math.min(tokens.length - NUM_END_TOKENS, style.length / width - 1);
    return await graph.read({
      input_ids: { values: tokens, dims: [1, tokens.length] },
      style: { values: style.subarray(row * width, (row + 1) * width), dims: [1, width] },
      speed: { values: [speed], dims: [1] },
    }, { output: "waveform", offset: noiseOffset });
  }

  dispose(): Promise<void> {
    return this.#parts.graph.release();
  }
}
