/**
 * When a step that reads prompts is suspended for a step of next tokens, so that these keep coming. Learned from the
 * times of steps. Pure.
 *
 * @module
 */
import { boundedAverage } from "../base/bounded_average.ts";

/** Time between two next tokens while prompts are read, relative to the usual one. */
const AIM = 2;
/** After so many suspensions two steps of next tokens come in a row: the second tells how long one takes undisturbed. */
const REFRESH_STEPS = 32;
/** See {@linkcode boundedAverage}. */
const OUTLIER = 1.5;
/** Fewest tokens of prompts in a step. */
const LEAST_CHUNK = 16;
/** Tokens of prompts in the first steps of a device of which it is not known yet how long it takes. */
const FIRST_CHUNK = 64;

export class PrefillPace {
  readonly #isQueued: boolean;
  /** Average time of a step of next tokens that follows another one. */
  #usualMs: number | undefined;
  /** Average time of one that a prompt's step is suspended for, where clocks tell. */
  #besideMs: number | undefined;
  /** Average time of a part of a prompt's step, on a device that runs behind the host. */
  #partMs: number | undefined;
  /** When the last step of next tokens ended. */
  #lastAtMs = -Infinity;
  /** Parts of prompts' steps since then. */
  #numParts = 0;
  /** Suspensions since two steps of next tokens came in a row. */
  #numSuspensions = 0;
  #mostPromptTokens: number;

  /**
   * @param options.isQueued whether the device runs behind the host: how long a part took is known only after the next
   * step of next tokens, which waits for it.
   */
  constructor({ isQueued = false }: { readonly isQueued?: boolean | undefined } = {}) {
    this.#isQueued = isQueued;
    this.#mostPromptTokens = isQueued ? FIRST_CHUNK : Infinity;
  }

  /** Most tokens of prompts in a step: none of its parts is to take longer than a suspension may be away. */
  get mostPromptTokens(): number {
    return this.#mostPromptTokens;
  }

  /** A part of a prompt's step has run, or was handed to the device. */
  addPart(): void {
    this.#numParts++;
  }

  /** Whether two steps of next tokens have to come in a row. */
  get isStale(): boolean {
    return this.#usualMs === undefined || this.#numSuspensions >= REFRESH_STEPS;
  }

  /** How long a prompt's step may go on until next tokens are due; they are where nothing is left. */
  remainingMs(nowMs: number): number {
    const usualMs = this.#usualMs;
    if (usualMs === undefined) return 0;
    if (this.#isQueued) {
      if (this.#partMs === undefined) return 0;
      return (AIM - 1) * usualMs - (this.#numParts + 0.5) * this.#partMs;
    }
    const sliceMs = AIM * usualMs - (this.#besideMs ?? usualMs);
    return this.#lastAtMs + Math.max(sliceMs, usualMs / 2) - nowMs;
  }

  /** A step of next tokens alone took `ms`, and ended at `nowMs`. */
  observe(ms: number, nowMs: number): void {
    if (this.#numParts === 0) {
      this.#usualMs = boundedAverage(this.#usualMs, ms, OUTLIER);
      this.#numSuspensions = 0;
    } else {
      this.#numSuspensions++;
      if (!this.#isQueued) this.#besideMs = boundedAverage(this.#besideMs, ms, OUTLIER);
      else if (this.#usualMs !== undefined) {
        const partMs = Math.max(0, ms - this.#usualMs) / this.#numParts;
        this.#partMs = boundedAverage(this.#partMs, partMs, OUTLIER);
      }
    }
    this.#numParts = 0;
    this.#lastAtMs = nowMs;
  }

  /** A step of so many tokens of prompts has run: the next may have fewer or more of them. */
  endPrompts(numTokens: number): void {
    if (this.#usualMs === undefined || this.#partMs === undefined) return;
    const most = (AIM - 1) * this.#usualMs;
    const isShort = numTokens < this.#mostPromptTokens;
    if (this.#partMs > most && numTokens > LEAST_CHUNK) {
      this.#mostPromptTokens = Math.max(LEAST_CHUNK, Math.floor(numTokens / 2));
      this.#partMs /= 2;
    } else if (this.#partMs < most / 4 && !isShort) {
      this.#mostPromptTokens *= 2;
      this.#partMs *= 2;
    }
  }
}
