/**
 * Measures the quality of a window's decoding, and falls back to higher temperatures: a decoding that is not good
 * enough is repeated at the next one. Pure.
 *
 * @see A. Radford et al.: Robust Speech Recognition via Large-Scale Weak Supervision, 2022, section 4.5
 * @module
 */
import { Buffer } from "node:buffer";
import { deflateSync } from "node:zlib";
import type { SamplingParams } from "../../../kernels/sample/sample_row.ts";

/** Compression ratio above which text is repetitive. */
const MAX_COMPRESSION_RATIO = 2.4;
/** Mean log-probability below which a decoding is rejected. */
const MIN_MEAN_LOGPROB = -1;
/** Probability of no speech above which a window is silent, unless the text is likely. */
const MAX_NO_SPEECH_PROBABILITY = 0.6;
const TEMPERATURE_STEP = 0.2;
const HOTTEST = 1;

/** The quality measures of a decoding. */
interface DecodingQuality {
  /** Natural logarithm, the mean over the text tokens and the end token. */
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

export interface FallbackOptions {
  /** The first temperature; 0 takes the most likely tokens. */
  readonly temperature: number;
  /** Seed of the first attempt; each attempt has its own. */
  readonly seed: number;
  /** A promise if it is computed while the first attempt runs. */
  readonly noSpeechProbability: number | Promise<number>;
  /** The text of tokens, without timestamps. */
  readonly getText: (tokens: readonly number[]) => string;
}

/**
 * Decodes a window at rising temperatures until the result is good enough; the last attempt is accepted in any case.
 */
export async function decodeWithFallback(
  attempt: (sampling: Pick<SamplingParams, "temperature" | "seed">) => Promise<Attempt>,
  { temperature: first, seed: firstSeed, getText, ...known }: FallbackOptions,
): Promise<DecodingResult> {
  const temperatures = temperaturesFrom(first);
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

/** The temperatures at which to decode a window, in order. */
export function temperaturesFrom(first: number): number[] {
  const steps = Math.max(0, Math.floor((HOTTEST - first) / TEMPERATURE_STEP + 1e-6));
  return Array.from(
    { length: steps + 1 },
    (_, step) => step === 0 ? first : Math.min(HOTTEST, first + step * TEMPERATURE_STEP),
  );
}

export function isSilence({ noSpeechProbability, meanLogprob }: DecodingQuality): boolean {
  return noSpeechProbability > MAX_NO_SPEECH_PROBABILITY && meanLogprob < MIN_MEAN_LOGPROB;
}

/** Whether to accept the decoding, or to try the next temperature. */
export function isGoodEnough(figures: DecodingQuality): boolean {
  const { compressionRatio, meanLogprob } = figures;
  if (isSilence(figures)) return true;
  return compressionRatio <= MAX_COMPRESSION_RATIO && meanLogprob >= MIN_MEAN_LOGPROB;
}

/** Bytes of the text divided by its compressed bytes. */
export function computeCompressionRatio(text: string): number {
  const bytes = Buffer.from(text);
  return bytes.length / deflateSync(bytes).length;
}
