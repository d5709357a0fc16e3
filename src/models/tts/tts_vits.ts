/**
 * VITS, as in the Massively Multilingual Speech project (MMS): one graph from characters to sound.
 *
 * @module
 */
import type { ModelFolder } from "../../hub/model_folder.ts";
import type { OpenContext } from "../family.ts";
import type { Synthesizer, Utterance, Voice } from "./synthesizer.ts";
import { TtsGraph } from "./tts_graph.ts";
import { loadTtsTokenizer, type TtsTokenizer } from "./tts_tokenizer.ts";

/** Every second is a blank. */
const MAX_TOKENS = 1_000;
const DEFAULT_RATE_HZ = 16_000;

export class VitsSynthesizer implements Synthesizer {
  readonly sampleRateHz: number;
  readonly voices: readonly [Voice];
  readonly maxTokens = MAX_TOKENS;
  readonly hasSpeed = false;
  readonly #graph: TtsGraph;
  readonly #tokenizer: TtsTokenizer;

  private constructor(
    parts: { readonly graph: TtsGraph; readonly tokenizer: TtsTokenizer },
    { config }: ModelFolder,
  ) {
    this.#graph = parts.graph;
    this.#tokenizer = parts.tokenizer;
    this.sampleRateHz = Number(config["sampling_rate"] ?? DEFAULT_RATE_HZ);
    this.voices = [{ id: "default", language: languageOf(parts.tokenizer) }];
  }

  /** @throws {StartupError} when the folder lacks a part. */
  static async load(context: OpenContext): Promise<VitsSynthesizer> {
    const { folder } = context;
    const tokenizer = await loadTtsTokenizer(folder);
    const graph = await TtsGraph.open(context, {
      name: "model",
      known: /^(input_ids|attention_mask)$/,
    });
    return new VitsSynthesizer({ graph, tokenizer }, folder);
  }

  tokenize(text: string): Promise<readonly number[]> {
    return Promise.resolve(this.#tokenizer.encode(text));
  }

  async synthesize(
    tokens: readonly number[],
    { noiseOffset }: Utterance,
  ): Promise<Float32Array<ArrayBuffer>> {
    const dims = [1, tokens.length];
    return await this.#graph.read({
      input_ids: { values: tokens, dims },
      attention_mask: { values: tokens.map(() => 1), dims },
    }, { output: "waveform", offset: noiseOffset });
  }

  dispose(): Promise<void> {
    return this.#graph.release();
  }
}

/** MMS folder names have three-letter language codes. */
function languageOf({ config }: TtsTokenizer): string {
  try {
    return new Intl.Locale(String(config["language"] ?? "en")).language;
  } catch {
    return "en";
  }
}
