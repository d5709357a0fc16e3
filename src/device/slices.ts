/**
 * How work on a prompt is divided, so that other sequences get their next tokens in between.
 *
 * @module
 */

/** Work that consists of units, whose results do not depend on how the work is divided. */
export interface DividedWork {
  /** Identifies similar work: units with the same key and weight take about as long. */
  readonly key: object;
  /** Number of units, such as rows. */
  readonly length: number;
  /** Fewest units that are worth a part of their own. */
  readonly least: number;
  /** Most units in a part; unlimited if absent. */
  readonly most?: number;
  /** Duration of a unit relative to others with this key; 1 if absent. */
  readonly weight?: number;
  /** Number of equal parts that each part divides itself into; 1 if absent. */
  readonly numInner?: number;
}

/**
 * Divides a step's work. While the step is suspended, other steps run, and use all memory that is not the step's own.
 */
export interface Slices {
  /** Whether rows may be divided; otherwise each instruction is one part. */
  readonly divides: boolean;
  /**
   * Ends a part of the step.
   *
   * @param nextMs least duration of the next part, if known.
   * @returns a promise that resolves when the step continues, if it was suspended.
   */
  pause(nextMs?: number): Promise<void> | undefined;
  /** Does work in parts that end in time, if {@linkcode divides} is set. */
  divide(
    work: DividedWork,
    run: (first: number, end: number) => void | Promise<void>,
  ): Promise<void>;
}
