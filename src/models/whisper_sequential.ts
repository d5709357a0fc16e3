/**
 * Long recordings, window after window: each begins where the last complete segment of the one before ended, so that
 * no word is cut at a seam. Pure.
 *
 * @see A. Radford et al.: Robust Speech Recognition via Large-Scale Weak Supervision, 2022, section 3.8;
 * `transcribe.py` in openai/whisper
 * @module
 */
import { TIMESTAMP_SECONDS } from "./whisper_config.ts";
import { type AttemptFigures, isSilence } from "./whisper_quality.ts";

/** Sizes of a model and of a recording. */
export interface SequentialOptions {
  /** Frames of the recording. */
  readonly numFrames: number;
  /** Frames of a window. */
  readonly windowFrames: number;
  readonly framesPerSecond: number;
  readonly timestampsStart: number;
}

/** What a window gave. */
export interface WindowResult extends AttemptFigures {
  /** Text and timestamps, without prompt and end. */
  readonly tokens: readonly number[];
  readonly temperature: number;
}

/** A piece of speech within a recording. */
export interface TimedTokens {
  readonly startSeconds: number;
  readonly endSeconds: number;
  /** Text with the timestamps around it, which count from the window's beginning. */
  readonly tokens: readonly number[];
  /** First frame of the window. */
  readonly seekFrame: number;
  readonly window: WindowResult;
}

/** What is left of a recording below this is too short for a word. */
const SHORTEST_SECONDS = 0.1;

/** See the module. `next()` and `accept()` take turns. */
export class Sequential {
  readonly #options: SequentialOptions;
  #seekFrame = 0;

  constructor(options: SequentialOptions) {
    this.#options = options;
  }

  /** First frame of the next window; `undefined` when the recording is at its end. */
  next(): number | undefined {
    const { numFrames, framesPerSecond } = this.#options;
    const shortest = this.#seekFrame === 0 ? 1 : SHORTEST_SECONDS * framesPerSecond;
    return numFrames - this.#seekFrame < shortest ? undefined : this.#seekFrame;
  }

  /** Takes what the window gave, and moves on. @returns its segments, those without text among them. */
  accept(window: WindowResult): TimedTokens[] {
    const { numFrames, windowFrames, framesPerSecond } = this.#options;
    const seekFrame = this.#seekFrame;
    const ownFrames = Math.min(windowFrames, numFrames - seekFrame);
    if (isSilence(window)) {
      this.#seekFrame += ownFrames;
      return [];
    }
    const goesOn = seekFrame + ownFrames < numFrames;
    const { pieces, seenSeconds } = this.#cut(window.tokens, goesOn);
    const seenFrames = Math.round((seenSeconds ?? Infinity) * framesPerSecond);
    // A model that puts its first words at no time at all must not hold the recording up.
    this.#seekFrame += seenFrames > 0 ? Math.min(seenFrames, ownFrames) : ownFrames;
    const offsetSeconds = seekFrame / framesPerSecond;
    const ownSeconds = ownFrames / framesPerSecond;
    return pieces.map((tokens) => {
      const { start, end } = this.#timesOf(tokens, ownSeconds);
      return {
        startSeconds: offsetSeconds + start,
        endSeconds: offsetSeconds + end,
        tokens,
        seekFrame,
        window,
      };
    });
  }

  /**
   * Cuts tokens where two timestamps stand together.
   *
   * @param goesOn whether the recording does, after the window.
   * @returns `seenSeconds` where text begins that has no end: it is left to the next window.
   */
  #cut(
    tokens: readonly number[],
    goesOn: boolean,
  ): { pieces: readonly number[][]; seenSeconds?: number } {
    const { timestampsStart } = this.#options;
    const isTimestamp = (place: number) => (tokens[place] ?? -1) >= timestampsStart;
    const cuts = [...tokens.keys()].filter((place) =>
      place > 0 && isTimestamp(place) && isTimestamp(place - 1)
    );
    const hasEnd = isTimestamp(tokens.length - 1) && !isTimestamp(tokens.length - 2);
    if (cuts.length === 0) {
      // Whisper itself takes such text as it is, and a sentence is cut where the window is.
      const beginSeconds = isTimestamp(0) ? this.#secondsOf(tokens[0]!) : 0;
      if (goesOn && !hasEnd && tokens.length > 1 && beginSeconds > 0) {
        return { pieces: [], seenSeconds: beginSeconds };
      }
      return { pieces: tokens.length > 0 ? [[...tokens]] : [] };
    }
    if (hasEnd) cuts.push(tokens.length);
    const pieces = cuts.map((end, index) => tokens.slice(cuts[index - 1] ?? 0, end));
    if (hasEnd) return { pieces };
    return { pieces, seenSeconds: this.#secondsOf(tokens[cuts.at(-1)! - 1]!) };
  }

  #timesOf(tokens: readonly number[], ownSeconds: number): { start: number; end: number } {
    const { timestampsStart } = this.#options;
    const first = tokens[0]!;
    const last = tokens.at(-1)!;
    const start = first >= timestampsStart ? this.#secondsOf(first) : 0;
    const hasEnd = tokens.length > 1 && last >= timestampsStart;
    return { start, end: Math.max(start, hasEnd ? this.#secondsOf(last) : ownSeconds) };
  }

  #secondsOf(token: number): number {
    return (token - this.#options.timestampsStart) * TIMESTAMP_SECONDS;
  }
}
