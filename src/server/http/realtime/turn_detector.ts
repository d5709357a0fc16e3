/**
 * Finds where turns of speech begin and end while the audio is still arriving. Pure.
 *
 * As in Silero's own iterator, speech begins at one likelihood and continues until a lower one.
 *
 * @see https://github.com/snakers4/silero-vad
 * @module
 */

import type { RealtimeTurns } from "../../../wire/realtime_session.ts";

/** A turn continues while the likelihood is at most this much below the threshold. */
const HYSTERESIS = 0.15;
/** Shorter sounds are not speech. */
const MIN_SPEECH_MS = 90;
/** A longer turn is ended, so that its text is sent and its memory freed. */
const MAX_TURN_MS = 60_000;

/** The beginning of a turn, including the padding before it, or the end, including the silence after it. */
export interface TurnEvent {
  readonly type: "started" | "stopped";
  /** Position in milliseconds since the first audio. */
  readonly atMs: number;
}

/** Follows the turns of one speaker. */
export class TurnDetector {
  readonly #settings: RealtimeTurns;
  readonly #windowMs: number;
  /** Earliest position at which a turn may begin: audio before it belongs to earlier turns. */
  #earliestMs: number;
  #nowMs: number;
  #speechFromMs: number | undefined;
  #quietFromMs: number | undefined;
  #turnFromMs: number | undefined;

  /** @param options.startMs position at which the first window begins. */
  constructor(
    settings: RealtimeTurns,
    { windowMs, startMs }: { readonly windowMs: number; readonly startMs: number },
  ) {
    this.#settings = settings;
    this.#windowMs = windowMs;
    this.#earliestMs = this.#nowMs = startMs;
  }

  /**
   * Position from which audio must be kept. Audio before it is part of no turn to come; within a turn, of no later one.
   */
  get neededFromMs(): number {
    const beginMs = this.#turnFromMs ??
      (this.#speechFromMs ?? this.#nowMs) - this.#settings.prefixMs;
    return Math.max(this.#earliestMs, beginMs);
  }

  /** Whether a turn has begun and not ended. */
  get isInTurn(): boolean {
    return this.#turnFromMs !== undefined;
  }

  /** Takes the next window. @param likelihood that somebody speaks in it. */
  push(likelihood: number): TurnEvent | undefined {
    const { threshold, silenceMs } = this.#settings;
    const windowFromMs = this.#nowMs;
    this.#nowMs += this.#windowMs;
    if (this.#turnFromMs === undefined) {
      if (likelihood < threshold) {
        this.#speechFromMs = undefined;
        return undefined;
      }
      this.#speechFromMs ??= windowFromMs;
      return this.#nowMs - this.#speechFromMs < MIN_SPEECH_MS ? undefined : this.#begin();
    }
    if (likelihood >= threshold) this.#quietFromMs = undefined;
    else if (likelihood < threshold - HYSTERESIS) this.#quietFromMs ??= windowFromMs;
    const isQuiet = this.#quietFromMs !== undefined &&
      this.#nowMs - this.#quietFromMs >= silenceMs;
    return isQuiet || this.#nowMs - this.#turnFromMs >= MAX_TURN_MS ? this.#end() : undefined;
  }

  #begin(): TurnEvent {
    this.#turnFromMs = this.neededFromMs;
    this.#quietFromMs = undefined;
    return { type: "started", atMs: this.#turnFromMs };
  }

  #end(): TurnEvent {
    this.#turnFromMs = this.#speechFromMs = undefined;
    this.#earliestMs = this.#nowMs;
    return { type: "stopped", atMs: this.#nowMs };
  }
}
