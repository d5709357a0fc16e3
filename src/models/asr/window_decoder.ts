/**
 * Decodes windows of recordings with Whisper. If the result is not good enough, the window is decoded again at the next
 * higher temperature. Each attempt is a request to the engine, which runs the windows of all recordings in shared
 * steps.
 *
 * @see A. Radford et al.: Robust Speech Recognition via Large-Scale Weak Supervision, 2022, section 4.5
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
import {
  determineRule,
  makePrompt,
  TIMESTAMP_SECONDS,
  type WhisperConfig,
} from "./whisper_config.ts";
import { computeCompressionRatio } from "./recogniser.ts";
import type { SamplingParams } from "../../../kernels/sample/sample_row.ts";

/** The encoder's input for one window. */
export interface WindowInput {
  readonly row: LogMelRow;
}

interface WindowTask extends WindowInput, Omit<FallbackOptions, "noSpeechProbability"> {
  /** The token of the spoken language; detected from the window if absent. */
  readonly languageToken: number | undefined;
  /** Whether to translate to English. */
  readonly translates: boolean;
  /** Length of the window's audio; absent unless token times are wanted. */
  readonly timedSeconds: number | undefined;
  /** Aborting it cancels the window before the next token. */
  readonly signal: AbortSignal;
}

/** The result of decoding a window. */
export interface DecodedWindow extends DecodingResult {
  readonly languageToken: number | undefined;
  /**
   * f32 `[tokens + 1, positions]`: how strongly each token, and the end token after the last, is aligned with each
   * encoder position of the window's audio. Absent unless token times are wanted.
   */
  readonly alignment?: Float32Array | undefined;
}

/** A bias with which a token is certain to be sampled. */
const FORCED = 1e6;

interface Parts {
  /** A cut or uncut decoder, owned by the window decoder. */
  readonly decoder: EncoderDecoder<WindowInput> | WholeDecoder;
  readonly config: WhisperConfig;
  readonly alignmentHeads: readonly NodeHeads[];
}

export class WindowDecoder {
  readonly #parts: Parts;
  readonly #engine: EngineLoop;

  constructor(parts: Parts) {
    this.#parts = parts;
    // The prefix cache is off, as prompts are equal but attend to different audio.
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
      // If the language is known, this prompt runs in the same step as the first attempt.
      const noSpeechProbability = this.#measureSilence(task, input);
      // The promise's error is reported where it is awaited, unless something else fails first.
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

  /** Cancels running requests silently and frees the decoder. */
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
            return determineRule(tokens, config);
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
    // With a bias instead of a mask, the probability is relative to all tokens.
    const logitBias = new Map([[noSpeechToken, FORCED]]);
    return Math.exp((await this.#chooseFirst(task, { input, logitBias })).logprob);
  }

  /** Returns the task's language, or else the likeliest one by the logits after the start token. */
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
   * Aligns the window's tokens with its audio. All tokens run through the decoder once more, in one step, and the
   * attention weights of the alignment heads are collected.
   *
   * Unlike Whisper's `find_alignment`, this includes the timestamp tokens, which brings words that begin or end at a
   * pause nearer to their true times.
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
    // The decoder attends to the audio of a token while it reads the previous token.
    return alignment.subarray((prompt.length - 1) * numPositions);
  }
}

/** Compression ratio above which a text counts as repetitive. */
const MAX_COMPRESSION_RATIO = 2.4;
/** Mean log-probability below which a decoding is rejected. */
const MIN_MEAN_LOGPROB = -1;
/** Probability of no speech above which a window counts as silent, unless its text is likely. */
const MAX_NO_SPEECH_PROBABILITY = 0.6;
const TEMPERATURE_STEP = 0.2;
const HOTTEST = 1;

/** The quality measures of a decoding. */
interface DecodingQuality {
  /** Mean natural log-probability of the tokens and the end token. */
  readonly meanLogprob: number;
  readonly compressionRatio: number;
  readonly noSpeechProbability: number;
}

export interface Attempt {
  /** Text and timestamp tokens, without the prompt and the end token. */
  readonly tokens: readonly number[];
  readonly meanLogprob: number;
}

/** The accepted decoding of a window. */
export interface DecodingResult extends Attempt, DecodingQuality {
  readonly temperature: number;
}

interface FallbackOptions {
  /** The first temperature; 0 takes the most likely tokens. */
  readonly temperature: number;
  /** Seed of the first attempt; each attempt has its own. */
  readonly seed: number;
  /** Probability of no speech; a promise if it is computed while the first attempt runs. */
  readonly noSpeechProbability: number | Promise<number>;
  /** Decodes tokens to text, without timestamps. */
  readonly getText: (tokens: readonly number[]) => string;
}

/** Decodes a window at rising temperatures until the result is good enough. The last attempt is always accepted. */
export async function decodeWithFallback(
  attempt: (sampling: Pick<SamplingParams, "temperature" | "seed">) => Promise<Attempt>,
  { temperature: first, seed: firstSeed, getText, ...known }: FallbackOptions,
): Promise<DecodingResult> {
  const temperatures = listTemperatures(first);
  for (const [index, temperature] of temperatures.entries()) {
    const seed = (firstSeed + Math.imul(index, 0x9e3779b1)) >>> 0;
    const decoded = await attempt({ temperature, seed });
    const noSpeechProbability = await known.noSpeechProbability;
    const compressionRatio = computeCompressionRatio(getText(decoded.tokens).trim());
    const result = { ...decoded, temperature, noSpeechProbability, compressionRatio };
    if (index === temperatures.length - 1 || isGoodEnough(result)) return result;
  }
  throw new Error("There is always a temperature.");
}

/** Lists the temperatures at which to decode a window, in order. */
export function listTemperatures(first: number): number[] {
  const steps = Math.max(0, Math.floor((HOTTEST - first) / TEMPERATURE_STEP + 1e-6));
  return Array.from(
    { length: steps + 1 },
    (_, step) => step === 0 ? first : Math.min(HOTTEST, first + step * TEMPERATURE_STEP),
  );
}

/** Whether nobody speaks in the window: the model finds that likely, and its text unlikely. */
export function isSilence({ noSpeechProbability, meanLogprob }: DecodingQuality): boolean {
  return noSpeechProbability > MAX_NO_SPEECH_PROBABILITY && meanLogprob < MIN_MEAN_LOGPROB;
}

/** Whether to accept a decoding rather than to try the next temperature. */
export function isGoodEnough(figures: DecodingQuality): boolean {
  const { compressionRatio, meanLogprob } = figures;
  if (isSilence(figures)) return true;
  return compressionRatio <= MAX_COMPRESSION_RATIO && meanLogprob >= MIN_MEAN_LOGPROB;
}
