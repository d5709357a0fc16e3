/**
 * Quality of a window's decoding, and whether to retry at a higher temperature. Pure.
 *
 * @see A. Radford et al.: Robust Speech Recognition via Large-Scale Weak Supervision, 2022, section 4.5
 * @module
 */
import { Buffer } from "node:buffer";
import { deflateSync } from "node:zlib";

/** Compression ratio above which text is repetitive. */
const MAX_COMPRESSION_RATIO = 2.4;
/** Mean log-probability below which a decoding is rejected. */
const MIN_MEAN_LOGPROB = -1;
/** Probability of no speech above which a window is silent, unless the text is likely. */
const MAX_NO_SPEECH_PROBABILITY = 0.6;
const TEMPERATURE_STEP = 0.2;
const HOTTEST = 1;

/** The quality measures of a decoding. */
export interface AttemptFigures {
  /** Natural logarithm, the mean over the tokens and the end. */
  readonly meanLogprob: number;
  readonly compressionRatio: number;
  readonly noSpeechProbability: number;
}

/** The temperatures to decode a window at, in order. */
export function temperaturesFrom(first: number): number[] {
  const steps = Math.max(0, Math.floor((HOTTEST - first) / TEMPERATURE_STEP + 1e-6));
  return Array.from(
    { length: steps + 1 },
    (_, step) => step === 0 ? first : Math.min(HOTTEST, first + step * TEMPERATURE_STEP),
  );
}

/** Whether the window is silent. */
export function isSilence({ noSpeechProbability, meanLogprob }: AttemptFigures): boolean {
  return noSpeechProbability > MAX_NO_SPEECH_PROBABILITY && meanLogprob < MIN_MEAN_LOGPROB;
}

/** Whether to accept the decoding, or to try the next temperature. */
export function isGoodEnough(figures: AttemptFigures): boolean {
  const { compressionRatio, meanLogprob } = figures;
  if (isSilence(figures)) return true;
  return compressionRatio <= MAX_COMPRESSION_RATIO && meanLogprob >= MIN_MEAN_LOGPROB;
}

/** Bytes of the text divided by its compressed bytes. */
export function compressionRatioOf(text: string): number {
  const bytes = Buffer.from(text);
  return bytes.length / deflateSync(bytes).length;
}
