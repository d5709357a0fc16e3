/**
 * Notices a worker that answers no more.
 *
 * @module
 */
import { readSteps } from "../../base/running_steps.ts";

/** Beats within the time that a worker may be silent. */
const BEATS = 6;

/** A step of the model, and each stage of its loading, may take so many times as long as a silence between them. */
export const STEP_FACTOR = 20;

interface HeartbeatOptions {
  /** How long the worker may be silent while it neither loads nor runs a step. */
  readonly timeoutMs: number;
  /** Counters of the worker's steps; see `running_steps.ts`. */
  readonly steps: SharedArrayBuffer;
}

/**
 * Decides whether a worker that is asked at every beat still answers. Silence is counted in beats, not by the clock, so
 * that a machine that slept or a server's thread that was busy is not taken for a worker that hangs. A worker that
 * computes on the CPU cannot answer, one that waits for a GPU can: both are watched by the counters of their steps.
 */
export class Heartbeat {
  /** Time between two beats. */
  readonly beatMs: number;
  readonly #timeoutMs: number;
  readonly #steps: SharedArrayBuffer;
  #isLoading = true;
  /** Questions since the worker last gave a sign of life. */
  #silentBeats = 0;
  /** Beats since a step that is running began or ended a part. */
  #stepBeats = 0;
  #lastChanges = 0;

  /** The worker is loading until {@linkcode loaded}. */
  constructor({ timeoutMs, steps }: HeartbeatOptions) {
    this.#timeoutMs = timeoutMs;
    this.#steps = steps;
    this.beatMs = timeoutMs / BEATS;
  }

  /** Seconds since the worker last gave a sign of life, to the beat; 0 while it runs a step or loads. */
  get silentSeconds(): number {
    if (this.#isLoading || readSteps(this.#steps).running > 0) return 0;
    return Math.max(0, this.#silentBeats - 1) * this.beatMs / 1000;
  }

  /** The worker said something. */
  heard(): void {
    this.#silentBeats = 0;
  }

  /** The model is ready. */
  loaded(): void {
    this.#isLoading = false;
  }

  /** Time for another question. @returns why the worker is lost, or `undefined` while there is hope. */
  beat(): string | undefined {
    const { running, changes } = readSteps(this.#steps);
    if (changes !== this.#lastChanges) {
      this.#lastChanges = changes;
      this.#silentBeats = 0;
      this.#stepBeats = 0;
    }
    const isStepping = running > 0;
    if (isStepping && this.#stepBeats++ >= BEATS * STEP_FACTOR) {
      return this.#explain("a step of the model did not end");
    }
    const allowed = this.#isLoading ? BEATS * STEP_FACTOR : BEATS;
    if (!isStepping && this.#silentBeats++ >= allowed) {
      return this.#explain(
        `its thread ${this.#isLoading ? "was silent while it loaded the model" : "did not answer"}`,
      );
    }
    return undefined;
  }

  #explain(reason: string): string {
    return `${reason} (--worker-timeout ${this.#timeoutMs / 1000})`;
  }
}
