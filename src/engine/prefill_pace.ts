/**
 * Decides when a prefill step is suspended for a decode step. A prefill step reads prompts; a decode step computes next
 * tokens of other sequences, which must not wait too long. The decision depends on how long earlier steps took. Pure.
 *
 * @module
 */
import { updateAverage } from "../base/timing.ts";

/** Target for the time between two next tokens while prompts are read, as a multiple of the usual time. */
const AIM = 2;
/**
 * After this many suspensions, two decode steps run in a row: the second one shows how long a step takes undisturbed.
 */
const REFRESH_STEPS = 32;
/** A duration counts as at most this many times the average. */
const OUTLIER = 1.5;
/** The maximum number of prompt tokens in a step is never lower than this. */
const LEAST_CHUNK = 16;
/** Prompt tokens in the first steps, while it is not known how long the device takes. */
const FIRST_CHUNK = 64;

export class PrefillPace {
  readonly #isQueued: boolean;
  /** Average duration of a decode step that follows another decode step. */
  #usualMs: number | undefined;
  /** Average duration of a decode step that runs while a prefill step is suspended, if it can be measured. */
  #besideMs: number | undefined;
  /** Average duration of a part of a prefill step, on a device that takes parts from a queue. */
  #partMs: number | undefined;
  /** Time when the last decode step ended. */
  #lastAtMs = -Infinity;
  /** Parts of prefill steps since the last decode step ended. */
  #numParts = 0;
  /** Suspensions since two decode steps last ran in a row. */
  #numSuspensions = 0;
  #mostPromptTokens: number;

  /**
   * @param options.isQueued whether parts are queued on the device, so that the host does not wait for them. The
   * duration of a part is then only known after the next decode step, which does wait.
   */
  constructor({ isQueued = false }: { readonly isQueued?: boolean | undefined } = {}) {
    this.#isQueued = isQueued;
    this.#mostPromptTokens = isQueued ? FIRST_CHUNK : Infinity;
  }

  /**
   * Maximum number of prompt tokens in a step. It keeps each part of the step shorter than the delay that next tokens
   * may have.
   */
  get mostPromptTokens(): number {
    return this.#mostPromptTokens;
  }

  /** Called when a part of a prefill step has run, or was queued on the device. */
  addPart(): void {
    this.#numParts++;
  }

  /** Whether two decode steps should run in a row. */
  get isStale(): boolean {
    return this.#usualMs === undefined || this.#numSuspensions >= REFRESH_STEPS;
  }

  /** How long a prefill step may continue until a decode step is due; 0 or less if one is due now. */
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

  /** Records a decode step, which took `ms` and ended at `nowMs`. */
  observe(ms: number, nowMs: number): void {
    if (this.#numParts === 0) {
      this.#usualMs = updateAverage(this.#usualMs, ms, OUTLIER);
      this.#numSuspensions = 0;
    } else {
      this.#numSuspensions++;
      if (!this.#isQueued) this.#besideMs = updateAverage(this.#besideMs, ms, OUTLIER);
      else if (this.#usualMs !== undefined) {
        const partMs = Math.max(0, ms - this.#usualMs) / this.#numParts;
        this.#partMs = updateAverage(this.#partMs, partMs, OUTLIER);
      }
    }
    this.#numParts = 0;
    this.#lastAtMs = nowMs;
  }

  /** Called when a step with this many prompt tokens has run; adjusts the size of the next. */
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
