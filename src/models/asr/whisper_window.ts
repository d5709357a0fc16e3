/**
 * The decoding state of one window: attempts at rising temperatures until one is good enough. Pure.
 *
 * @module
 */
import { GREEDY, type SampledToken, type SamplingParams } from "../../../kernels/sample_row.ts";
import type { LogMelRow } from "../../../kernels/log_mel_spec.ts";
import type { TokenRule } from "../../../kernels/token_rule.ts";
import { promptOf, type WhisperConfig } from "./whisper_config.ts";
import { compressionRatioOf, isGoodEnough } from "./whisper_quality.ts";
import { ruleAfter } from "./whisper_rules.ts";
import type { WindowResult } from "./whisper_sequential.ts";

/** The encoder's input. */
export interface WindowInput {
  readonly row: LogMelRow;
}

/** The options of a window. */
export interface WindowTask {
  readonly row: LogMelRow;
  /** Detected from the window itself if absent. */
  readonly languageToken: number | undefined;
  /** Whether to translate to English. */
  readonly translates?: boolean | undefined;
  /** To be tried in turn. */
  readonly temperatures: readonly number[];
  readonly seed: number;
  /** If token times are wanted: the length of its audio. */
  readonly timedSeconds?: number | undefined;
  /** The text of tokens, timestamps left out. */
  readonly textOf: (tokens: readonly number[]) => string;
}

/** The result of a window, with its language. */
export interface DecodedWindow extends WindowResult {
  readonly languageToken: number | undefined;
  /**
   * If wanted, f32 `[tokens + 1, positions]`: how much each token, and the end after the last, is aligned with each of
   * the encoder's positions for the window's audio.
   */
  readonly alignment?: Float32Array | undefined;
}

export class WindowAttempts {
  languageToken: number | undefined;
  noSpeechProbability = 0;
  readonly #task: WindowTask;
  readonly #config: WhisperConfig;
  #attempt = 0;
  #tokens: number[] = [];
  #sumLogprobs = 0;

  constructor(task: WindowTask, config: WhisperConfig) {
    this.#task = task;
    this.#config = config;
    this.languageToken = task.languageToken;
  }

  /** The attempt's prompt. */
  get prompt(): readonly number[] {
    const { translates } = this.#task;
    return promptOf(this.#config, { languageToken: this.languageToken, translates });
  }

  /** The allowed next tokens. */
  get rule(): TokenRule {
    return ruleAfter(this.#tokens, this.#config);
  }

  /** The attempt's sampling parameters. */
  get sampling(): SamplingParams {
    const { temperatures, seed } = this.#task;
    const temperature = temperatures[this.#attempt]!;
    const attemptSeed = (seed + Math.imul(this.#attempt, 0x9e3779b1)) >>> 0;
    return { ...GREEDY, temperature, seed: attemptSeed };
  }

  /**
   * Takes a sampled token.
   *
   * @param isLast whether there is no room for another.
   * @returns `next` while the attempt continues; `again` when a new attempt must start.
   */
  push({ tokenId, logprob }: SampledToken, isLast = false): "next" | "again" | DecodedWindow {
    this.#sumLogprobs += logprob;
    const isOver = tokenId === this.#config.endToken;
    if (!isOver) this.#tokens.push(tokenId);
    if (!isOver && !isLast && this.#tokens.length < this.#config.maxTokens) return "next";
    const result = this.#result();
    const isLastAttempt = this.#attempt === this.#task.temperatures.length - 1;
    if (isLastAttempt || isGoodEnough(result)) return result;
    this.#attempt++;
    this.#tokens = [];
    this.#sumLogprobs = 0;
    return "again";
  }

  #result(): DecodedWindow {
    const tokens = this.#tokens;
    const text = this.#task.textOf(tokens).trim();
    return {
      tokens,
      temperature: this.#task.temperatures[this.#attempt]!,
      languageToken: this.languageToken,
      noSpeechProbability: this.noSpeechProbability,
      meanLogprob: this.#sumLogprobs / (tokens.length + 1),
      compressionRatio: compressionRatioOf(text),
    };
  }
}
