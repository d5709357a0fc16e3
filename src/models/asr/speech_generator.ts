/**
 * Sound to text, token by token: each piece is a request of the engine, whose steps all pieces share.
 *
 * @module
 */
import { type Decoder, GREEDY } from "../../decoder/decoder.ts";
import { generate } from "../../engine/generate.ts";
import { EngineLoop } from "../../engine/loop.ts";
import type { EngineMetrics } from "../../engine/metrics.ts";
import type { GenerationRequest } from "../../engine/generation_request.ts";
import type { HearOptions, TranscribedPiece } from "./generating_recogniser.ts";

/** What a decoder is asked about a piece of sound. */
export interface SpeechRequest
  extends Pick<GenerationRequest, "promptTokens" | "encoderInput" | "media"> {
  /** Frees what the request holds on the device. */
  release?(): Promise<void>;
}

/** A decoder that hears; it owns its encoder. */
export interface HearingDecoder {
  readonly decoder: Decoder;
  /** @param language the API's code; the model's own choice if absent. */
  requestOf(samples: Float32Array, language: string | undefined): Promise<SpeechRequest>;
  /** Frees decoder and encoder. */
  dispose(): Promise<void>;
}

/** Its parts; it owns the decoder. */
export interface SpeechGeneratorParts {
  readonly hearing: HearingDecoder;
  readonly endTokens: readonly number[];
  /** Text of token ids, special tokens left out. */
  readonly decode: (tokens: number[]) => string;
}

/** How to hear a piece. */
export interface GenerateOptions extends Pick<HearOptions, "language" | "temperature" | "signal"> {
  readonly maxTokens: number;
}

export class SpeechGenerator {
  readonly #parts: SpeechGeneratorParts;
  readonly #engine: EngineLoop;

  constructor(parts: SpeechGeneratorParts) {
    this.#parts = parts;
    // No prefix cache: prompts are equal, but ask about different sounds.
    this.#engine = new EngineLoop(parts.hearing.decoder, { prefixCache: false });
  }

  get metrics(): EngineMetrics {
    return this.#engine.metrics;
  }

  /** Hears a piece. @throws the signal's reason; the device's error. */
  async generate(
    samples: Float32Array,
    { language, temperature, maxTokens, signal }: GenerateOptions,
  ): Promise<TranscribedPiece> {
    const { hearing, endTokens, decode } = this.#parts;
    const { release, ...request } = await hearing.requestOf(samples, language);
    const tokens: number[] = [];
    let [sumLogprobs, numChosen] = [0, 0];
    try {
      await generate(this.#engine, {
        ...request,
        sample: { ...GREEDY, temperature, seed: crypto.getRandomValues(new Uint32Array(1))[0]! },
        maxTokens,
        topLogprobs: 0,
        onToken: ({ tokenId, logprob }) => {
          sumLogprobs += logprob;
          numChosen++;
          const ends = endTokens.includes(tokenId);
          if (!ends) tokens.push(tokenId);
          return ends;
        },
        signal,
      });
    } finally {
      await release?.();
    }
    return {
      text: tokens.length === 0 ? "" : decode(tokens),
      tokens,
      numPromptTokens: request.promptTokens.length,
      meanLogprob: sumLogprobs / Math.max(1, numChosen),
    };
  }

  /** Cancels running work without notice, and frees the decoder. */
  async dispose(): Promise<void> {
    await this.#engine.close();
    await this.#parts.hearing.dispose();
  }
}
