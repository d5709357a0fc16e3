/**
 * How good an attempt at a window is, and whether a bolder one should follow. Pure.
 *
 * @see A. Radford et al.: Robust Speech Recognition via Large-Scale Weak Supervision, 2022, section 4.5
 * @module
 */
import { Buffer } from "node:buffer";
import { deflateSync } from "node:zlib";

/** Text that compresses better than this repeats itself. */
const MAX_COMPRESSION_RATIO = 2.4;
/** Text that is less likely than this per token is guessed. */
const MIN_MEAN_LOGPROB = -1;
/** Above it nobody speaks, unless the text is likely. */
const MAX_NO_SPEECH_PROBABILITY = 0.6;
const TEMPERATURE_STEP = 0.2;
const HOTTEST = 1;

/** What an attempt is judged by. */
export interface AttemptFigures {
  /** Natural logarithm, the mean over the tokens and the end. */
  readonly meanLogprob: number;
  readonly compressionRatio: number;
  readonly noSpeechProbability: number;
}

/** The temperatures to try a window at, one after the other. */
export function temperaturesFrom(first: number): number[] {
  const steps = Math.max(0, Math.floor((HOTTEST - first) / TEMPERATURE_STEP + 1e-6));
  return Array.from(
    { length: steps + 1 },
    (_, step) => step === 0 ? first : Math.min(HOTTEST, first + step * TEMPERATURE_STEP),
  );
}

/** Whether nobody speaks in the window. */
export function isSilence({ noSpeechProbability, meanLogprob }: AttemptFigures): boolean {
  return noSpeechProbability > MAX_NO_SPEECH_PROBABILITY && meanLogprob < MIN_MEAN_LOGPROB;
}

/** Whether the attempt stands, or the next temperature is to be tried. */
export function isGoodEnough(figures: AttemptFigures): boolean {
  const { compressionRatio, meanLogprob } = figures;
  if (isSilence(figures)) return true;
  return compressionRatio <= MAX_COMPRESSION_RATIO && meanLogprob >= MIN_MEAN_LOGPROB;
}

/** Bytes of the text by bytes of it compressed. */
export function compressionRatioOf(text: string): number {
  const bytes = Buffer.from(text);
  return bytes.length / deflateSync(bytes).length;
}
