/**
 * How much of waiting prompts is read in a step beside sequences that get their next tokens, so that these keep coming.
 * Learned from the times of steps. Pure.
 *
 * @module
 */
import type { ScheduledStep } from "./step.ts";

/** How long a step may take that reads prompts, relative to one that does not. */
const AIM = 2.25;
/** Far from the aim: at this many prompt tokens the device is slower than the smaller steps let expect. */
const FAR = 3;
/** A step that reads no prompt comes after so many that do, to know how long one takes now. */
const REFRESH_STEPS = 48;
/** How long a size that took far too long is not tried again. */
const AVOID_MS = 5 * 60_000;
/** Weight of the newest time in an average. */
const NEWEST = 0.3;

export class PrefillPace {
  readonly #least: number;
  /** Average time of a step without prompts. */
  #usualMs: number | undefined;
  /** Prompt tokens of the next step. */
  #chunk = 1;
  #numMixedSteps = 0;
  /** Largest chunk that was near the aim. */
  #provenChunk = 1;
  #avoided = { chunk: Infinity, untilMs: -Infinity };

  /** @param least prompt tokens that a step always computes: as many as cost the device little. */
  constructor(least = 1) {
    this.#least = least;
  }

  /** Most prompt tokens that the next step may compute beside next tokens. */
  mostPromptTokens(nowMs: number): number {
    if (this.#usualMs === undefined || this.#numMixedSteps >= REFRESH_STEPS) return 0;
    const most = nowMs < this.#avoided.untilMs ? this.#avoided.chunk : Infinity;
    return Math.max(this.#least, Math.min(this.#chunk, most));
  }

  /** Learns from a step that took `ms` and ended at `nowMs`. */
  observe(
    { numNextTokens, numTokens }: Pick<ScheduledStep, "numNextTokens" | "numTokens">,
    { ms, nowMs }: { readonly ms: number; readonly nowMs: number },
  ): void {
    const numPromptTokens = numTokens - numNextTokens;
    if (numNextTokens === 0) return;
    if (numPromptTokens === 0) {
      this.#usualMs = this.#usualMs === undefined ? ms : NEWEST * ms + (1 - NEWEST) * this.#usualMs;
      this.#numMixedSteps = 0;
    } else if (this.#usualMs !== undefined) {
      this.#numMixedSteps++;
      this.#adapt(numPromptTokens, { usualMs: this.#usualMs, ms, nowMs });
    }
  }

  /** Takes the time of a step to grow in proportion to its prompt tokens. */
  #adapt(
    numPromptTokens: number,
    { usualMs, ms, nowMs }: {
      readonly usualMs: number;
      readonly ms: number;
      readonly nowMs: number;
    },
  ): void {
    if (ms > FAR * usualMs && numPromptTokens > this.#provenChunk) {
      this.#avoided = {
        chunk: Math.max(this.#provenChunk, Math.floor(numPromptTokens / 2)),
        untilMs: nowMs + AVOID_MS,
      };
    } else if (ms <= AIM * usualMs) {
      this.#provenChunk = Math.max(numPromptTokens, this.#provenChunk);
    } else this.#provenChunk = Math.min(numPromptTokens, this.#provenChunk);
    const fitting = numPromptTokens * (AIM - 1) * usualMs / Math.max(ms - usualMs, 1e-3);
    // The end of a prompt is no reason to take less of the next.
    const least = ms <= AIM * usualMs ? Math.min(this.#chunk, 2 * numPromptTokens) : 1;
    this.#chunk = Math.max(1, least, Math.min(Math.floor(fitting), 2 * numPromptTokens));
  }
}
