/**
 * Divides a step into parts, each with one lowering, and a prefill step into slices of time.
 *
 * @module
 */
import type { Lowering } from "../program/program.ts";
import type { StepBatch, Suspension } from "./decoder.ts";
import { updateAverage } from "../base/timing.ts";
import type { DividedWork, Slices } from "../device/attention.ts";

/** Consecutive sequences of a step, and the lowering that runs them. */
export interface StepPart {
  readonly lowering: Lowering;
  readonly batch: StepBatch;
}

/**
 * Divides a step: next tokens run with the lowering for few rows, prompts with the one for many. So a row's result does
 * not depend on other rows of its step. Decoding sequences usually come first, as they are the oldest, so there are
 * usually at most two parts. There are more if prompts of older sequences are still being computed.
 *
 * @param rule.maxFewRows maximum number of decoding sequences that run with the lowering for few rows; if there are
 * more, they run together with the prompts.
 * @param rule.isExact whether both lowerings give the same results: one pass over the weights is then enough.
 * @param rule.isApart whether the result of a row depends on other rows. Each sequence is then a part of its own.
 */
export function divideStep(
  batch: StepBatch,
  { maxFewRows, isExact = false, isApart = false }: {
    readonly maxFewRows: number;
    readonly isExact?: boolean | undefined;
    readonly isApart?: boolean | undefined;
  },
): StepPart[] {
  const { sequences } = batch;
  if (isApart && sequences.length > 1) {
    return sequences.flatMap((_, i) => divideStep(sliceStep(batch, i, i + 1), { maxFewRows }));
  }
  const numDecoding = sequences.filter(({ isDecoding }) => isDecoding).length;
  const hasFew = numDecoding > 0 && numDecoding <= maxFewRows;
  if (!hasFew) return [{ lowering: "many", batch }];
  if (numDecoding === sequences.length) return [{ lowering: "few", batch }];
  if (isExact) return [{ lowering: "many", batch }];
  const parts: StepPart[] = [];
  for (let first = 0; first < sequences.length;) {
    const isFew = sequences[first]!.isDecoding === true;
    let end = first + 1;
    while (end < sequences.length && (sequences[end]!.isDecoding === true) === isFew) end++;
    parts.push({ lowering: isFew ? "few" : "many", batch: sliceStep(batch, first, end) });
    first = end;
  }
  return parts;
}

/** The sequences `first` to `end` of a step, as a step of their own. */
function sliceStep(batch: StepBatch, first: number, end: number): StepBatch {
  const { queryStarts, maxBlocksPerSequence } = batch;
  const [from, to] = [queryStarts[first]!, queryStarts[end]!];
  const sliceTokens = (values: Int32Array) => values.subarray(from, to);
  const sliceTables = (tables: Int32Array) =>
    tables.subarray(first * maxBlocksPerSequence, end * maxBlocksPerSequence);
  const sections = batch.sectionPositions;
  return {
    sequences: batch.sequences.slice(first, end),
    numTokens: to - from,
    tokenIds: sliceTokens(batch.tokenIds),
    positions: sliceTokens(batch.positions),
    anglePositions: batch.anglePositions && sliceTokens(batch.anglePositions),
    completionPositions: batch.completionPositions && sliceTokens(batch.completionPositions),
    sectionPositions: sections && [
      sliceTokens(sections[0]),
      sliceTokens(sections[1]),
      sliceTokens(sections[2]),
    ],
    embeddings: batch.embeddings
      ?.filter(({ firstToken }) => firstToken >= from && firstToken < to)
      .map((span) => ({ ...span, firstToken: span.firstToken - from })),
    queryStarts: queryStarts.subarray(first, end + 1).map((start) => start - from),
    kvLengths: batch.kvLengths.subarray(first, end),
    blockTables: sliceTables(batch.blockTables),
    windowTables: batch.windowTables?.map(sliceTables),
    maxBlocksPerSequence,
    stateSlots: batch.stateSlots?.subarray(first, end),
    // State copies are made once, before the first part.
    stateCopies: first === 0 ? batch.stateCopies : undefined,
  };
}

/** Durations are capped at the average times this factor before they enter the average. */
const OUTLIER = 2;

/** Average milliseconds of a unit of work, by the key of the work. Kept from step to step. */
export type UnitTimes = WeakMap<object, number>;

/** Options of {@linkcode StepSlices}. */
interface StepSlicesOptions {
  readonly suspension: Suspension;
  readonly times: UnitTimes;
  /** Whether work can be divided; see {@linkcode Slices.divides}. */
  readonly divides: boolean;
  /** Called when a suspended step continues. Other steps have overwritten everything that all steps share. */
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
      const unitMs = updateAverage(times.get(key), ms, OUTLIER);
      times.set(key, unitMs);
      if (end < length) await this.pause(unitMs * weight * least / numInner);
      first = end;
    }
  }

  /** The number of remaining units to run next. */
  #count(
    { key, least, most = Infinity, weight = 1, numInner = 1 }: DividedWork,
    left: number,
  ): number {
    const { remainingMs } = this.#options.suspension;
    const unitMs = this.#options.times.get(key);
    // Work that has never been timed runs in the smallest possible slice.
    const fitting = remainingMs === Infinity
      ? left
      : unitMs === undefined
      ? least
      : Math.floor(remainingMs * numInner / (unitMs * weight) / least) * least;
    const count = Math.min(most, Math.max(least, fitting));
    return left - count < least && left <= most ? left : count;
  }
}
