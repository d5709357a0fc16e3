/**
 * Divides a step of prompts where others wait for their next tokens.
 *
 * @module
 */
import { boundedAverage } from "../base/bounded_average.ts";
import type { DividedWork, Slices } from "../device/slices.ts";
import type { Suspension } from "./decoder.ts";

/** See {@linkcode boundedAverage}. */
const OUTLIER = 2;

/** Milliseconds of a unit by key: known from step to step. */
export type UnitTimes = WeakMap<object, number>;

/** See {@linkcode StepSlices}. */
interface StepSlicesOptions {
  readonly suspension: Suspension;
  readonly times: UnitTimes;
  /** See {@linkcode Slices.divides}. */
  readonly divides: boolean;
  /** Called when a suspended step goes on: what it shares with others is of theirs. */
  readonly onResume: () => void;
}

export class StepSlices implements Slices {
  readonly #options: StepSlicesOptions;
  /** Time in which the step was suspended. */
  #suspendedMs = 0;

  constructor(options: StepSlicesOptions) {
    this.#options = options;
  }

  get divides(): boolean {
    return this.#options.divides;
  }

  pause(nextMs?: number): Promise<void> | undefined {
    const startedAtMs = performance.now();
    return this.#options.suspension.endPart(nextMs)?.then(() => {
      this.#suspendedMs += performance.now() - startedAtMs;
      this.#options.onResume();
    });
  }

  async divide(
    work: DividedWork,
    run: (first: number, end: number) => void | Promise<void>,
  ): Promise<void> {
    const { times } = this.#options;
    const { key, length, least, weight = 1, numInner = 1 } = work;
    for (let first = 0; first < length;) {
      const end = first + this.#count(work, length - first);
      const startedAtMs = performance.now() - this.#suspendedMs;
      await run(first, end);
      const ms = (performance.now() - this.#suspendedMs - startedAtMs) / ((end - first) * weight);
      const unitMs = boundedAverage(times.get(key), ms, OUTLIER);
      times.set(key, unitMs);
      if (end < length) await this.pause(unitMs * weight * least / numInner);
      first = end;
    }
  }

  /** How many of the units that are left come next. */
  #count(
    { key, least, most = Infinity, weight = 1, numInner = 1 }: DividedWork,
    left: number,
  ): number {
    const { remainingMs } = this.#options.suspension;
    const unitMs = this.#options.times.get(key);
    // Of what was not seen yet, little.
    const fitting = remainingMs === Infinity
      ? left
      : unitMs === undefined
      ? least
      : Math.floor(remainingMs * numInner / (unitMs * weight) / least) * least;
    const count = Math.min(most, Math.max(least, fitting));
    return left - count < least && left <= most ? left : count;
  }
}
