/**
 * Decodes windows of recordings: each attempt is a request to the engine, which runs all windows in shared steps.
 *
 * @module
 */
import type { LogMelRow } from "../../../kernels/log_mel/log_mel_spec.ts";
import type { NodeHeads } from "../../device/encoder_attention.ts";
import { GREEDY, type SampledToken } from "../../decoder/decoder.ts";
import { EncoderDecoder } from "../../decoder/encoder_decoder.ts";
import type { WholeDecoder } from "../../decoder/whole_decoder.ts";
import { generate, type GenerateOptions, generateTokens } from "../../engine/generate.ts";
import { EngineLoop } from "../../engine/loop.ts";
import type { EngineMetrics } from "../../engine/metrics.ts";
import { toMask } from "../../engine/token_rules.ts";
import { makePrompt, ruleAfter, TIMESTAMP_SECONDS, type WhisperConfig } from "./whisper_config.ts";
import {
  type Attempt,
  decodeWithFallback,
  type DecodingResult,
  type FallbackOptions,
} from "./whisper_sequential.ts";

/** The encoder's input for one window. */
export interface WindowInput {
  readonly row: LogMelRow;
}

interface WindowTask extends WindowInput, Omit<FallbackOptions, "noSpeechProbability"> {
  /** The token of the spoken language; detected from the window if absent. */
  readonly languageToken: number | undefined;
  /** Whether to translate to English. */
  readonly translates: boolean;
  /** The length of the window's audio, if token times are wanted. */
  readonly timedSeconds: number | undefined;
  /** Aborting it cancels the window before the next token. */
  readonly signal: AbortSignal;
}

/** The result of a window, with its language. */
export interface DecodedWindow extends DecodingResult {
  readonly languageToken: number | undefined;
  /**
   * If wanted, f32 `[tokens + 1, positions]`: how strongly each token, and the end token after the last, is aligned
   * with each encoder position of the window's audio.
   */
  readonly alignment?: Float32Array | undefined;
}

/** A bias that makes a token certain. */
const FORCED = 1e6;

interface Parts {
  /** Cut or whole; the new object owns it. */
  readonly decoder: EncoderDecoder<WindowInput> | WholeDecoder;
  readonly config: WhisperConfig;
  readonly alignmentHeads: readonly NodeHeads[];
}

export class WindowDecoder {
  readonly #parts: Parts;
  readonly #engine: EngineLoop;

  constructor(parts: Parts) {
    this.#parts = parts;
    // No prefix cache: windows share prompt prefixes, but not the audio that they attend to.
    this.#engine = new EngineLoop(parts.decoder, { prefixCache: false });
  }

  get metrics(): EngineMetrics {
    return this.#engine.metrics;
  }

  /** Decodes a window. @throws the signal's reason; the device's error. */
  async decode(task: WindowTask): Promise<DecodedWindow> {
    const { config, decoder } = this.#parts;
    const input: WindowInput = { row: task.row };
    try {
      // If the language is known, this prompt runs in the same step.
      const noSpeechProbability = this.#measureSilence(task, input);
      // The error is reported where the promise is awaited, unless something else fails first.
      noSpeechProbability.catch(() => {});
      const languageToken = await this.#detectLanguage(task, input);
      const prompt = makePrompt(config, { ...task, languageToken });
      const decoded = await decodeWithFallback(
        (sampling) => this.#attempt(prompt, { ...task, sampling, input }),
        { ...task, noSpeechProbability },
      );
      const window = { ...decoded, languageToken };
      if (task.timedSeconds === undefined || window.tokens.length === 0) return window;
      return { ...window, alignment: await this.#align(window, input, task.timedSeconds) };
    } finally {
      if (decoder instanceof EncoderDecoder) decoder.release(input);
    }
  }

  /** Cancels running requests without reporting it, and frees the decoder. */
  async dispose(): Promise<void> {
    await this.#engine.close();
    await this.#parts.decoder.dispose();
  }

  async #attempt(
    prompt: readonly number[],
    { sampling, input, signal }: Pick<WindowTask, "signal"> & {
      readonly sampling: Pick<GenerateOptions["sample"], "temperature" | "seed">;
      readonly input: WindowInput;
    },
  ): Promise<Attempt> {
    const { config } = this.#parts;
    const { tokens, sumLogprobs } = await generateTokens(this.#engine, {
      promptTokens: Int32Array.from(prompt),
      sample: { ...GREEDY, ...sampling },
      maxTokens: config.maxTokens,
      topLogprobs: 0,
      encoderInput: input,
      rules: () => {
        const tokens: number[] = [];
        return {
          get rule() {
            return ruleAfter(tokens, config);
          },
          accept: (tokenId) => void tokens.push(tokenId),
        };
      },
      endTokens: [config.endToken],
      signal,
    });
    return { tokens, meanLogprob: sumLogprobs / (tokens.length + 1) };
  }

  /** The probability that nobody speaks, from the logits after the start token. */
  async #measureSilence(task: WindowTask, input: WindowInput): Promise<number> {
    const { noSpeechToken } = this.#parts.config;
    if (noSpeechToken === undefined) return 0;
    // All tokens stay candidates, so that the probability is the one among all of them.
    const logitBias = new Map([[noSpeechToken, FORCED]]);
    return Math.exp((await this.#chooseFirst(task, { input, logitBias })).logprob);
  }

  /** The language that the task names; else the likeliest one by the logits after the start token. */
  async #detectLanguage(
    task: WindowTask,
    input: WindowInput,
  ): Promise<number | undefined> {
    const { languages, vocabSize } = this.#parts.config;
    if (task.languageToken !== undefined || languages.size === 0) return task.languageToken;
    const rules = () => ({ mask: toMask(languages.values(), vocabSize) });
    return (await this.#chooseFirst(task, { input, rules })).tokenId;
  }

  /** Samples the token that follows the start token. */
  async #chooseFirst(
    { signal }: WindowTask,
    { input, ...how }: Pick<GenerateOptions, "rules" | "logitBias"> & {
      readonly input: WindowInput;
    },
  ): Promise<SampledToken> {
    let chosen: SampledToken | undefined;
    await generate(this.#engine, {
      promptTokens: Int32Array.of(this.#parts.config.startToken),
      sample: GREEDY,
      maxTokens: 1,
      topLogprobs: 0,
      encoderInput: input,
      ...how,
      onToken: (token) => (chosen = token, true),
      signal,
    });
    return chosen!;
  }

  /**
   * Aligns the window's tokens with its audio: they run through the decoder once more, all at once, and the attention
   * weights of the alignment heads are collected.
   *
   * Whisper's own `find_alignment` leaves the timestamps out. With them, as they were decoded, words that begin or end
   * at a pause are nearer to their true times.
   *
   * @returns f32 `[tokens + 1, positions]`, as in {@linkcode DecodedWindow}.
   * @see `find_alignment` in openai/whisper's `timing.py`
   */
  async #align(
    window: DecodedWindow,
    encoderInput: WindowInput,
    seconds: number,
  ): Promise<Float32Array> {
    const { decoder, config, alignmentHeads: nodes } = this.#parts;
    if (!(decoder instanceof EncoderDecoder)) throw new Error("The decoder's graph is not cut.");
    const numPositions = Math.max(1, Math.ceil(seconds / TIMESTAMP_SECONDS - 1e-6));
    const prompt = makePrompt(config, window);
    const tokens = [...prompt, ...window.tokens];
    const alignment = await decoder.align({ encoderInput, tokens, numPositions, nodes });
    // The decoder attends to a token's audio while it reads the token before.
    return alignment.subarray((prompt.length - 1) * numPositions);
  }
}
