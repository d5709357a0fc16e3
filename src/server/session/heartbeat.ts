/**
 * Notices when a worker no longer responds.
 *
 * @module
 */
import { readSteps } from "../../base/running_steps.ts";

/** Number of beats within the time that a worker may be silent. */
const BEATS = 6;

/** A step of the model, or a stage of its loading, may take this many times as long as a silence between steps. */
export const STEP_FACTOR = 20;

interface HeartbeatOptions {
  /** How long the worker may be silent while it neither loads nor runs a step. */
  readonly timeoutMs: number;
  /** Counters of the worker's steps; see `running_steps.ts`. */
  readonly steps: SharedArrayBuffer;
}

/**
 * Decides whether a worker that is pinged at every beat still responds. Silence is counted in beats, not by the clock,
 * so that a sleeping machine or a busy server thread is not taken for a hanging worker. A worker that computes on the
 * CPU cannot answer during a step, while one that waits for a GPU can; the progress of steps is watched by counters in
 * both cases.
 */
export class Heartbeat {
  /** Time between two beats. */
  readonly beatMs: number;
  readonly #timeoutMs: number;
  readonly #steps: SharedArrayBuffer;
  #isLoading = true;
  /** Pings since the worker last responded. */
  #silentBeats = 0;
  /** Beats since the running step last began or ended a part. */
  #stepBeats = 0;
  #lastChanges = 0;

  /** Assumes that the worker is loading until {@linkcode loaded} is called. */
  constructor({ timeoutMs, steps }: HeartbeatOptions) {
    this.#timeoutMs = timeoutMs;
    this.#steps = steps;
    this.beatMs = timeoutMs / BEATS;
  }

  /** Seconds since the worker last responded, rounded to beats; 0 while it runs a step or loads. */
  get silentSeconds(): number {
    if (this.#isLoading || readSteps(this.#steps).running > 0) return 0;
    return Math.max(0, this.#silentBeats - 1) * this.beatMs / 1000;
  }

  /** Called when the worker has sent anything. */
  heard(): void {
    this.#silentBeats = 0;
  }

  /** Called when the model is ready. */
  loaded(): void {
    this.#isLoading = false;
  }

  /** Called at every beat. @returns why the worker is lost, or `undefined` if it may still respond. */
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
