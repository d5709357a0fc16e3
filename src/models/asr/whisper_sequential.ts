/**
 * Whisper's transcription of long recordings, as its own `transcribe.py` does it. Pure.
 *
 * Each window begins where the last complete segment of the previous one ended, so that no word is cut at a seam. A
 * window's decoding that is not good enough is repeated at the next higher temperature.
 *
 * @see A. Radford et al.: Robust Speech Recognition via Large-Scale Weak Supervision, 2022, sections 3.8 and 4.5
 *
 * @module
 */
import { TIMESTAMP_SECONDS } from "./whisper_config.ts";
import { Buffer } from "node:buffer";
import { deflateSync } from "node:zlib";
import type { SamplingParams } from "../../../kernels/sample/sample_row.ts";

interface SequentialOptions {
  /** Frames of the recording. */
  readonly numFrames: number;
  readonly windowFrames: number;
  readonly framesPerSecond: number;
  readonly timestampsStart: number;
  /** Speech regions, in order, without overlap, if known: windows begin and end at them. */
  readonly speech?: readonly FrameRange[] | undefined;
}

/** A stretch of a recording. */
export interface FrameRange {
  readonly start: number;
  /** The frame after its last. */
  readonly end: number;
}

/** A segment of speech within a recording. */
export interface TimedTokens {
  readonly startSeconds: number;
  readonly endSeconds: number;
  /** Text tokens with the timestamps around them, which count from the window's beginning. */
  readonly tokens: readonly number[];
  /** First frame of the window. */
  readonly seekFrame: number;
}

/** If less than this is left of a recording, it is too short for a word. */
const SHORTEST_SECONDS = 0.1;
/** A window ends at a silence longer than this, since silence makes models hallucinate. */
const LONGEST_SILENCE_SECONDS = 3;

/** The windows of one recording. Call `next()` and `accept()` alternately. */
export class Sequential {
  readonly #options: SequentialOptions;
  #seekFrame = 0;

  constructor(options: SequentialOptions) {
    this.#options = options;
  }

  /** The next window, from its first frame to the end of its audio; `undefined` at the recording's end. */
  next(): FrameRange | undefined {
    const { numFrames, framesPerSecond, speech = [{ start: 0, end: numFrames }] } = this.#options;
    const range = speech.find(({ start, end }) => {
      const isBegun = this.#seekFrame > start;
      return end - Math.max(this.#seekFrame, start) >=
        (isBegun ? SHORTEST_SECONDS * framesPerSecond : 1);
    });
    if (range === undefined) return undefined;
    this.#seekFrame = Math.max(this.#seekFrame, range.start);
    return { start: this.#seekFrame, end: this.#findEnd(this.#seekFrame) };
  }

  /**
   * Takes a window's result, and advances.
   *
   * @returns the window's segments, including those without text.
   */
  accept(window: DecodingResult): TimedTokens[] {
    const { numFrames, framesPerSecond, speech } = this.#options;
    const seekFrame = this.#seekFrame;
    const end = this.#findEnd(seekFrame);
    const ownFrames = end - seekFrame;
    if (isSilence(window)) {
      this.#seekFrame += ownFrames;
      return [];
    }
    const goesOn = speech === undefined
      ? end < numFrames
      : speech.some((range) => range.start < end && end < range.end);
    const { segments, seenSeconds } = this.#cut(window.tokens, goesOn);
    const seenFrames = Math.round((seenSeconds ?? Infinity) * framesPerSecond);
    // Always advances, even if the model places its first words at the window's start.
    this.#seekFrame += seenFrames > 0 ? Math.min(seenFrames, ownFrames) : ownFrames;
    const offsetSeconds = seekFrame / framesPerSecond;
    const ownSeconds = ownFrames / framesPerSecond;
    return segments.map((tokens) => {
      const { start, end } = this.#readTimes(tokens, ownSeconds);
      return {
        startSeconds: offsetSeconds + start,
        endSeconds: offsetSeconds + end,
        tokens,
        seekFrame,
      };
    });
  }

  /**
   * The end of the window: that of the last speech region that fits into it whole. A region that would be cut, or that
   * follows a long silence, goes to the next window. A region longer than a window is cut.
   */
  #findEnd(seekFrame: number): number {
    const { numFrames, windowFrames, framesPerSecond, speech } = this.#options;
    const limit = Math.min(seekFrame + windowFrames, numFrames);
    if (speech === undefined) return limit;
    let last: FrameRange | undefined;
    for (const range of speech) {
      if (range.end <= seekFrame) continue;
      const silence = last === undefined ? 0 : range.start - last.end;
      if (range.end > limit || silence > LONGEST_SILENCE_SECONDS * framesPerSecond) break;
      last = range;
    }
    return last?.end ?? limit;
  }

  /**
   * Cuts the tokens where two timestamps stand together.
   *
   * @param goesOn whether the recording goes on after the window.
   * @returns the segments; and in `seenSeconds` the beginning of a last text without an end, which the next window
   * repeats.
   */
  #cut(
    tokens: readonly number[],
    goesOn: boolean,
  ): { segments: readonly number[][]; seenSeconds?: number } {
    const { timestampsStart } = this.#options;
    const isTimestamp = (position: number) => (tokens[position] ?? -1) >= timestampsStart;
    const cuts = [...tokens.keys()].filter((position) =>
      position > 0 && isTimestamp(position) && isTimestamp(position - 1)
    );
    const hasEnd = isTimestamp(tokens.length - 1) && !isTimestamp(tokens.length - 2);
    if (cuts.length === 0) {
      // Whisper itself keeps such text, which cuts a sentence at the window's end.
      const beginSeconds = isTimestamp(0) ? this.#toSeconds(tokens[0]!) : 0;
      if (goesOn && !hasEnd && tokens.length > 1 && beginSeconds > 0) {
        return { segments: [], seenSeconds: beginSeconds };
      }
      return { segments: tokens.length > 0 ? [[...tokens]] : [] };
    }
    if (hasEnd) cuts.push(tokens.length);
    const segments = cuts.map((end, index) => tokens.slice(cuts[index - 1] ?? 0, end));
    if (hasEnd) return { segments };
    return { segments, seenSeconds: this.#toSeconds(tokens[cuts.at(-1)! - 1]!) };
  }

  #readTimes(tokens: readonly number[], ownSeconds: number): { start: number; end: number } {
    const { timestampsStart, speech } = this.#options;
    const first = tokens[0]!;
    const last = tokens.at(-1)!;
    // Nothing but silence follows the speech.
    const latest = speech === undefined ? Infinity : ownSeconds;
    const start = first >= timestampsStart ? Math.min(this.#toSeconds(first), latest) : 0;
    const hasEnd = tokens.length > 1 && last >= timestampsStart;
    const end = hasEnd ? Math.min(this.#toSeconds(last), latest) : ownSeconds;
    return { start, end: Math.max(start, end) };
  }

  #toSeconds(token: number): number {
    return (token - this.#options.timestampsStart) * TIMESTAMP_SECONDS;
  }
}

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

function isSilence({ noSpeechProbability, meanLogprob }: DecodingQuality): boolean {
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
