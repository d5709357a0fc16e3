/**
 * Decodes windows of recordings: each attempt is a request of the engine, whose steps all windows share.
 *
 * @module
 */
import type { SiteHeads } from "../../backend/cross_alignment.ts";
import { EncoderDecoder } from "../../decoder/encoder_decoder.ts";
import type { WholeEncoderDecoder } from "../../decoder/whole_encoder_decoder.ts";
import { GREEDY, type SampledToken } from "../../decoder/decoder.ts";
import { generate } from "../../engine/generate.ts";
import type { GenerationRequest } from "../../engine/generation_request.ts";
import { EngineLoop } from "../../engine/loop.ts";
import type { EngineMetrics } from "../../engine/metrics.ts";
import { promptOf, TIMESTAMP_SECONDS, type WhisperConfig } from "./whisper_config.ts";
import {
  type DecodedWindow,
  WindowAttempts,
  type WindowInput,
  type WindowTask,
} from "./whisper_window.ts";

/** A bias that makes a token certain. */
const FORCED = 1e6;

/** Whisper's decoder, cut or whole. */
export type WhisperDecoder = EncoderDecoder<WindowInput> | WholeEncoderDecoder<WindowInput>;

/** Its parts. It owns the decoder. */
export interface WindowDecoderOptions {
  readonly decoder: WhisperDecoder;
  readonly config: WhisperConfig;
  /** The alignment heads. */
  readonly alignmentHeads: readonly SiteHeads[];
}

export class WindowDecoder {
  readonly #options: WindowDecoderOptions;
  readonly #engine: EngineLoop;

  constructor(options: WindowDecoderOptions) {
    this.#options = options;
    // No prefix cache: windows share prompt prefixes, but not the audio that they attend to.
    this.#engine = new EngineLoop(options.decoder, { prefixCache: false });
  }

  get metrics(): EngineMetrics {
    return this.#engine.metrics;
  }

  /**
   * Decodes a window. Aborting `signal` cancels it before the next token.
   *
   * @throws the signal's reason; the device's error.
   */
  async decode(task: WindowTask, signal: AbortSignal): Promise<DecodedWindow> {
    signal.throwIfAborted();
    const { config, decoder } = this.#options;
    const input: WindowInput = { row: task.row };
    const attempts = new WindowAttempts(task, config);
    try {
      await detectLanguage(this.#engine, attempts, { input, config, signal });
      let window = await this.#attempt(attempts, input, signal);
      while (window === "again") window = await this.#attempt(attempts, input, signal);
      if (task.timedSeconds === undefined || window.tokens.length === 0) return window;
      return { ...window, alignment: await this.#align(window, input, task.timedSeconds) };
    } finally {
      if (decoder instanceof EncoderDecoder) decoder.release(input);
    }
  }

  /** Cancels running work without notice, and frees the decoder. */
  async dispose(): Promise<void> {
    await this.#engine.close();
    await this.#options.decoder.dispose();
  }

  async #attempt(
    attempts: WindowAttempts,
    input: WindowInput,
    signal: AbortSignal,
  ): Promise<"again" | DecodedWindow> {
    const { config } = this.#options;
    let outcome: ReturnType<WindowAttempts["push"]> = "next";
    await generate(this.#engine, {
      promptTokens: Int32Array.from(attempts.prompt),
      sample: attempts.sampling,
      maxTokens: config.maxTokens,
      topLogprobs: 0,
      encoderInput: input,
      rules: () => ({
        get rule() {
          return attempts.rule;
        },
      }),
      onToken: (token, isLast) => {
        outcome = attempts.push(token, isLast);
        return outcome !== "next";
      },
      signal,
    });
    return outcome as Exclude<typeof outcome, "next">;
  }

  /**
   * Aligns the window's tokens with its audio: they run through the decoder once more, all at once, and the alignment
   * heads' attention weights are collected.
   *
   * @returns f32 `[tokens + 1, positions]`, as in {@linkcode DecodedWindow}.
   * @see `find_alignment` in openai/whisper's `timing.py`, which leaves the timestamps out; with them, as they were
   * decoded, words that begin or end at a pause are nearer to where they are.
   */
  async #align(
    window: DecodedWindow,
    encoderInput: WindowInput,
    seconds: number,
  ): Promise<Float32Array> {
    const { decoder, config, alignmentHeads: sites } = this.#options;
    if (!(decoder instanceof EncoderDecoder)) throw new Error("The decoder's graph is not cut.");
    const numPositions = Math.max(1, Math.ceil(seconds / TIMESTAMP_SECONDS - 1e-6));
    const prompt = promptOf(config, window);
    const tokens = [...prompt, ...window.tokens];
    const alignment = await decoder.align({ encoderInput, tokens, numPositions, sites });
    // The decoder attends to a token's audio while it reads the token before.
    return alignment.subarray((prompt.length - 1) * numPositions);
  }
}

/**
 * Records in a window's attempts whether somebody speaks and in which language, by the logits after the start token.
 *
 * @throws the signal's reason; what the step throws.
 */
async function detectLanguage(
  engine: EngineLoop,
  attempts: WindowAttempts,
  { input, config, signal }: {
    readonly input: WindowInput;
    readonly config: WhisperConfig;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const choose = async (how: Pick<GenerationRequest, "rules" | "logitBias">) => {
    let chosen: SampledToken | undefined;
    await generate(engine, {
      promptTokens: Int32Array.of(config.startToken),
      sample: GREEDY,
      maxTokens: 1,
      topLogprobs: 0,
      encoderInput: input,
      ...how,
      onToken: (token) => (chosen = token, true),
      signal,
    });
    return chosen!;
  };
  const { noSpeechToken, languages } = config;
  await Promise.all([
    // Sampled among all tokens: its probability among them is wanted.
    noSpeechToken !== undefined &&
    choose({ logitBias: new Map([[noSpeechToken, FORCED]]) }).then(({ logprob }) => {
      attempts.noSpeechProbability = Math.exp(logprob);
    }),
    attempts.languageToken === undefined && languages.size > 0 &&
    choose({ rules: () => ({ mask: maskOf(languages.values(), config.vocabSize) }) })
      .then(({ tokenId }) => {
        attempts.languageToken = tokenId;
      }),
  ]);
}

function maskOf(tokens: Iterable<number>, vocabSize: number): Uint32Array {
  const mask = new Uint32Array(Math.ceil(vocabSize / 32));
  for (const token of tokens) mask[token >>> 5]! |= 1 << (token & 31);
  return mask;
}
