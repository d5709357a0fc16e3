/**
 * Divides a step that reads prompts, so that sequences that wait for their next tokens are served between its parts.
 *
 * @module
 */
import { boundedAverage } from "../base/bounded_average.ts";
import type { DividedWork, Slices } from "../device/slices.ts";
import type { Suspension } from "./decoder.ts";

/** A duration that is longer than the average by more than this factor counts as just this much longer. */
const OUTLIER = 2;

/** Average milliseconds of each unit of work, kept from step to step. */
export type UnitTimes = WeakMap<object, number>;

/** Options of {@linkcode StepSlices}. */
interface StepSlicesOptions {
  readonly suspension: Suspension;
  readonly times: UnitTimes;
  /** Whether work can be divided; see {@linkcode Slices.divides}. */
  readonly divides: boolean;
  /** Called when a suspended step continues, after other steps have overwritten what it shares with them. */
  readonly onResume: () => void;
}

export class StepSlices implements Slices {
  readonly #options: StepSlicesOptions;
  /** Total time for which the step was suspended. */
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

  /** How many of the remaining units to run next. */
  #count(
    { key, least, most = Infinity, weight = 1, numInner = 1 }: DividedWork,
    left: number,
  ): number {
    const { remainingMs } = this.#options.suspension;
    const unitMs = this.#options.times.get(key);
    // Work that has never been timed gets the smallest share.
    const fitting = remainingMs === Infinity
      ? left
      : unitMs === undefined
      ? least
      : Math.floor(remainingMs * numInner / (unitMs * weight) / least) * least;
    const count = Math.min(most, Math.max(least, fitting));
    return left - count < least && left <= most ? left : count;
  }
}
