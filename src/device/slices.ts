/**
 * How work on a prompt is divided, so that others get their next tokens in between.
 *
 * @module
 */

/** Work of which each unit is computed alike, whatever is computed beside it. */
export interface DividedWork {
  /** Work of the same key takes about as long for a unit of the same weight. */
  readonly key: object;
  /** Units, rows for example. */
  readonly length: number;
  /** Fewest units that are worth a part of their own. */
  readonly least: number;
  /** Most units of a part; any if absent. */
  readonly most?: number;
  /** How much a unit takes, relative to others of its key; 1 if absent. */
  readonly weight?: number;
  /** Parts of equal length that each part is divided into by itself; 1 if absent. */
  readonly numInner?: number;
}

/** Divides a step's work. While it is suspended other steps run, with whatever memory is not the step's own. */
export interface Slices {
  /** Whether rows may be computed apart; else an instruction is a part. */
  readonly divides: boolean;
  /**
   * Ends a part of the step.
   *
   * @param nextMs time that the next part takes at least, if it is known.
   * @returns when the step goes on, if it is suspended.
   */
  pause(nextMs?: number): Promise<void> | undefined;
  /** Does work in parts that end in time, where it {@linkcode divides}. */
  divide(
    work: DividedWork,
    run: (first: number, end: number) => void | Promise<void>,
  ): Promise<void>;
}
