/**
 * Counts the model's running steps in memory that another thread can read, since a thread that computes answers no
 * messages.
 *
 * @module
 */

const RUNNING = 0;
const CHANGES = 1;

/** The counters as a watching thread sees them. */
export interface StepCounts {
  /** Steps that have begun and not ended. */
  readonly running: number;
  /** How often a step has begun or ended; it wraps around. */
  readonly changes: number;
}

let counters: Int32Array = new Int32Array(2);

/** Makes memory for the counters of a thread. */
export function makeStepMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT);
}

/** Makes this thread count in `memory` from now on; to be called before its first step. */
export function countStepsIn(memory: SharedArrayBuffer): void {
  counters = new Int32Array(memory);
}

/** Reads the counters of another thread. */
export function readSteps(memory: SharedArrayBuffer): StepCounts {
  const words = new Int32Array(memory);
  return { running: Atomics.load(words, RUNNING), changes: Atomics.load(words, CHANGES) };
}

/** Runs a step of the model, which may keep this thread from answering. Steps may be nested. */
export async function runStep<T>(step: () => Promise<T>): Promise<T> {
  change(1);
  try {
    return await step();
  } finally {
    change(-1);
  }
}

function change(by: 1 | -1): void {
  Atomics.add(counters, RUNNING, by);
  Atomics.add(counters, CHANGES, 1);
}
