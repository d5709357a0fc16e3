/**
 * Where turns of speech begin and end in sound that is still arriving. Pure.
 *
 * As in Silero's own iterator, speech begins at one likelihood and goes on down to a lower one.
 *
 * @see https://github.com/snakers4/silero-vad
 * @module
 */

import type { RealtimeTurns } from "../../../wire/realtime_session.ts";

/** A turn goes on through windows that are less likely by this much. */
const HYSTERESIS = 0.15;
/** Shorter sounds are no speech. */
const MIN_SPEECH_MS = 90;
/** A longer turn is ended, so that its text comes and its memory is free. */
const MAX_TURN_MS = 60_000;

/** The beginning, with the prefix, or the end, with the silence, of a turn. */
export interface TurnEvent {
  readonly type: "started" | "stopped";
  /** Since the first sound. */
  readonly atMs: number;
}

/** Follows one speaker. */
export class TurnDetector {
  readonly #settings: RealtimeTurns;
  readonly #windowMs: number;
  /** Where turns may begin: what was before belongs to others. */
  #earliestMs: number;
  #nowMs: number;
  #speechFromMs: number | undefined;
  #quietFromMs: number | undefined;
  #turnFromMs: number | undefined;

  /** @param options.startMs where the first window begins. */
  constructor(
    settings: RealtimeTurns,
    { windowMs, startMs }: { readonly windowMs: number; readonly startMs: number },
  ) {
    this.#settings = settings;
    this.#windowMs = windowMs;
    this.#earliestMs = this.#nowMs = startMs;
  }

  /** Sound before this is in no turn that is still to begin, or, within a turn, in no later one. */
  get neededFromMs(): number {
    const beginMs = this.#turnFromMs ??
      (this.#speechFromMs ?? this.#nowMs) - this.#settings.prefixMs;
    return Math.max(this.#earliestMs, beginMs);
  }

  /** Whether a turn has begun and has not ended. */
  get isInTurn(): boolean {
    return this.#turnFromMs !== undefined;
  }

  /** @param likelihood that somebody speaks in the next window. */
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
